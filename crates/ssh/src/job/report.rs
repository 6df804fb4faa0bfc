//! The state of a claim's job, from the answer of the host. Pure.

use capstan_infrastructure::{BootstrapFailure, BootstrapState};
use std::collections::BTreeMap;

use super::HostView;
use crate::facts::plain;
use crate::redact::Redactor;
use crate::script::Answer;

/// The longest tail of output that is told.
const MOST_LINES: usize = 20;
/// A line is cut here.
const LONGEST_LINE: usize = 400;

/// What a host says of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobReport {
    /// Nothing was done under it yet.
    Nothing {
        /// What must be known to begin.
        host: HostView,
        /// Other claims that were not undone.
        others: Vec<String>,
    },
    /// It is being undone.
    Leaving,
    /// It was begun.
    State(BootstrapState),
}

/// Reads the answer of [`status`](super::status).
pub(crate) fn read(answer: &Answer, redactor: &Redactor) -> Option<JobReport> {
    let words: Vec<&str> = answer.get("state")?.split(' ').collect();
    Some(match words[..] {
        ["absent"] => JobReport::Nothing {
            host: HostView {
                hostname: plain(answer.get("hostname").unwrap_or_default(), 253),
                cloud_init: answer.get("cloud-init").map(str::to_owned),
            },
            others: answer.all("other").map(|name| plain(name, 64)).collect(),
        },
        ["leaving"] => JobReport::Leaving,
        ["done"] => JobReport::State(BootstrapState::Done),
        // Upstream's data has done its work, whatever comes after it.
        ["running"] if answer.get("sentinel").is_some() => JobReport::State(BootstrapState::Done),
        ["running"] => JobReport::State(BootstrapState::Running),
        ["failed", step, code] => {
            JobReport::State(BootstrapState::Failed(failure(answer, redactor, step, code.parse().ok())))
        }
        ["interrupted", step] => {
            let mut failure = failure(answer, redactor, step, None);
            let why = "the host stopped while this ran (a reboot, or no power); it is not run a second time";
            failure.last_lines.push(why.to_owned());
            JobReport::State(BootstrapState::Failed(failure))
        }
        _ => return None,
    })
}

fn failure(answer: &Answer, redactor: &Redactor, step: &str, code: Option<i32>) -> BootstrapFailure {
    let names = answer.text("names").unwrap_or_default();
    let names: BTreeMap<&str, &str> = names.lines().filter_map(|line| line.split_once(' ')).collect();
    let items = Items::read(&answer.text("items").unwrap_or_default());
    let log = answer.text("log").unwrap_or_default();
    let name = names.get(step).copied().unwrap_or("a step without a name");
    let (name, exit_code) = match name {
        "bootcmd" | "runcmd" => {
            let item = items.guilty(name, names.get("sentinel").copied());
            let code = item.as_ref().and_then(|item| items.begun.get(item)).copied().flatten().or(code);
            (item.and_then(|item| names.get(item.as_str()).copied()).unwrap_or(name), code)
        }
        "cloud-init" => match items.of_cloud_init {
            Some(code) => ("runcmd (by cloud-init)", Some(code)),
            // What it ended with is ours, not a command's.
            None => (name, None),
        },
        other => (other, code),
    };
    let lines: Vec<String> = log
        .lines()
        .map(|line| redactor.clean(&plain(line, 4 * LONGEST_LINE)))
        .filter(|line| !line.is_empty())
        .map(|line| plain(&line, LONGEST_LINE))
        .collect();
    BootstrapFailure {
        step: redactor.clean(&plain(name, LONGEST_LINE)),
        exit_code,
        last_lines: lines[lines.len().saturating_sub(MOST_LINES)..].to_vec(),
    }
}

/// Which items of `bootcmd` and `runcmd` have begun, and how they ended.
#[derive(Default)]
struct Items {
    begun: BTreeMap<String, Option<i32>>,
    /// How all of `runcmd` ended, where cloud-init has run it.
    of_cloud_init: Option<i32>,
}

impl Items {
    /// Each line names an item that begins, and how what was before it ended.
    fn read(text: &str) -> Self {
        let mut items = Self::default();
        let mut before: Option<(String, String)> = None;
        for (item, code) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Some((key, number)) = item.split_once('.') else { continue };
            if key == "cloud-init" {
                items.of_cloud_init = code.parse().ok();
                continue;
            }
            if let Some((last_key, last)) = before.take().filter(|(last_key, _)| last_key == key) {
                items.begun.insert(format!("{last_key}.{last}"), code.parse().ok());
            }
            if number != "end" {
                items.begun.insert(item.to_owned(), None);
                before = Some((key.to_owned(), number.to_owned()));
            }
        }
        items
    }

    /// The item to blame: the one that should have left the sentinel, or the last that has begun.
    fn guilty(&self, key: &str, sentinel: Option<&str>) -> Option<String> {
        let begun = |item: &&str| self.begun.contains_key(*item);
        let number = |item: &String| item.rsplit('.').next().and_then(|number| number.parse::<u32>().ok());
        match sentinel.filter(begun) {
            Some(item) if key == "runcmd" => Some(item.to_owned()),
            _ => self
                .begun
                .keys()
                .filter(|item| item.split('.').next() == Some(key))
                .max_by_key(|item| number(item))
                .cloned(),
        }
    }
}
