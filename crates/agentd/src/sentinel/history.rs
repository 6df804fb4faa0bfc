//! The history of applied plans, for people. Contents of files and values of variables are left out.

use capstan_plan::Digest;
use capstan_sentinel::time;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{files, say};

/// End of the names of its files.
const END: &str = "-applied.plan";

/// Number of plans that are kept.
const KEPT: usize = 64;

pub(super) struct History(Option<PathBuf>);

impl History {
    pub(super) const fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Records a plan, unless it is the last one that was recorded. An error is only logged: the plan matters more.
    pub(super) fn record(&self, plan: &[u8], checksum: &Digest, now: Timestamp) {
        if let Some(folder) = &self.0
            && let Err(error) = record(folder, plan, checksum, now)
        {
            say!("cannot record the plan in {}: {error}", folder.display());
        }
    }
}

fn record(folder: &Path, plan: &[u8], checksum: &Digest, now: Timestamp) -> io::Result<()> {
    let mut names = names(folder)?;
    let entry = json!({"Plan": redacted(plan), "Checksum": checksum.to_string()}).to_string().into_bytes();
    if let Some(last) = names.last()
        && fs::read(folder.join(last))? == entry
    {
        return Ok(());
    }
    let name = format!("{}{END}", time::folder_name(now));
    files::write(&folder.join(&name), &entry)?;
    names.push(name);
    names.dedup();
    let surplus = names.len().saturating_sub(KEPT);
    names[..surplus].iter().try_for_each(|name| files::remove(&folder.join(name)))
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(END)).collect();
    names.sort();
    Ok(names)
}

fn redacted(plan: &[u8]) -> Value {
    let mut plan: Value = serde_json::from_slice(plan).unwrap_or_default();
    for content in entries(&mut plan, "files").filter_map(|file| file.get_mut("content")) {
        let digest = Digest::of(content.as_str().unwrap_or_default().as_bytes());
        *content = json!(format!("[sha256 of the base64 text: {digest}]"));
    }
    for list in ["instructions", "periodicInstructions"] {
        for variable in entries(&mut plan, list).flat_map(|instruction| entries(instruction, "env")) {
            let name = variable.as_str().and_then(|text| text.split('=').next()).unwrap_or_default();
            *variable = json!(format!("{name}=[hidden]"));
        }
    }
    plan
}

fn entries<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_recorded_without_secrets_and_the_newest_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = History::new(Some(folder.path().join("applied")));
        let at = |second| Timestamp::from_second(1_800_000_000 + second).expect("a time");
        let plan = |number: i64| {
            json!({"files": [{"path": "/a", "content": "aHVudGVyMg=="}],
                "instructions": [{"args": [number], "env": ["A=hunter2"]}]})
            .to_string()
        };
        for number in 0..70 {
            for _ in 0..2 {
                history.record(plan(number).as_bytes(), &Digest::of(b""), at(number));
            }
        }
        let kept = names(&folder.path().join("applied")).expect("a folder");
        assert_eq!(kept.len(), KEPT);
        let last = fs::read_to_string(folder.path().join("applied").join(&kept[KEPT - 1])).expect("a file");
        assert!(last.contains("69") && last.contains("A=[hidden]"), "{last}");
        assert!(!last.contains("hunter2") && !last.contains("aHVudGVyMg"), "{last}");
        for other in ["{\"probes\":{}}", "{\"files\":[[1]],\"instructions\":null}", "[]", "null"] {
            assert_eq!(redacted(other.as_bytes()).to_string(), other);
        }
        History::new(None).record(b"{}", &Digest::of(b""), at(0));
    }
}
