//! Removes secrets from texts of reports and logs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::{Action, Excerpt, MachinePlan, StepOutput};

use crate::machine::{Captured, Ran};

/// Shorter lines of a secret text are not removed: they are unlikely to be secret, and removing them would make texts
/// unreadable.
const SHORTEST_LINE: usize = 8;

const MARK: &[u8] = b"[redacted]";

/// Removes secret values from texts.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.secrets.len())
    }
}

impl Redactor {
    /// Removes these values, also line by line and in base64, as Kubernetes prints them.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut secrets = Vec::new();
        for value in values {
            let value = value.trim_ascii();
            let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            secrets.extend(lines.filter(|line| line.len() >= SHORTEST_LINE).map(<[u8]>::to_vec));
            secrets.push(STANDARD.encode(value).into_bytes());
            secrets.push(value.to_vec());
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets.sort_unstable();
        secrets.dedup();
        Self { secrets }
    }

    /// Removes all secrets of a plan, and the values in its secret files that are secret by their name: programs print
    /// values without names.
    pub fn of(plan: &MachinePlan) -> Self {
        let files = plan.steps.iter().filter_map(|step| match &step.action {
            Action::File(file) if file.secret => Some(file.content.as_bytes()),
            _ => None,
        });
        Self::new(plan.secrets().into_iter().chain(files.flat_map(named_values)))
    }

    /// The text without the values.
    pub fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.strike(text.as_bytes(), false, false)).into_owned()
    }

    /// The output of a program without the values, truncated to the size of a report.
    pub fn output(&self, ran: &Ran) -> StepOutput {
        StepOutput { stdout: self.excerpt(&ran.stdout), stderr: self.excerpt(&ran.stderr) }
    }

    fn excerpt(&self, captured: &Captured) -> Option<Excerpt> {
        if captured.omitted > 0 {
            // Where the text was cut, half a secret may stand.
            let head = self.strike(&captured.head, false, true);
            let tail = self.strike(&captured.tail, true, false);
            return Some(Excerpt {
                head: Some(first(&String::from_utf8_lossy(&head)).to_owned()),
                tail: Some(last(&String::from_utf8_lossy(&tail)).to_owned()),
                omitted_bytes: Some(captured.omitted),
            });
        }
        let whole = self.strike(&[&captured.head[..], &captured.tail[..]].concat(), false, false);
        let whole = String::from_utf8_lossy(&whole);
        let head = first(&whole);
        let rest = &whole[head.len()..];
        let tail = last(rest);
        if whole.is_empty() {
            return None;
        }
        let cut = !rest.is_empty();
        Some(Excerpt {
            head: Some(head.to_owned()),
            tail: cut.then(|| tail.to_owned()),
            omitted_bytes: cut.then_some((rest.len() - tail.len()) as u64),
        })
    }

    /// Removes every value, also where two overlap, and a part of a value at a truncated end.
    fn strike(&self, text: &[u8], cut_before: bool, cut_after: bool) -> Vec<u8> {
        let mut struck = vec![false; text.len()];
        for secret in &self.secrets {
            for at in (0..text.len()).filter(|at| text[*at..].starts_with(secret)) {
                struck[at..at + secret.len()].fill(true);
            }
            let most = secret.len().min(text.len());
            if cut_before && let Some(n) = (1..=most).rev().find(|n| secret.ends_with(&text[..*n])) {
                struck[..n].fill(true);
            }
            if cut_after
                && let Some(n) = (1..=most).rev().find(|n| secret.starts_with(&text[text.len() - n..]))
            {
                struck[text.len() - n..].fill(true);
            }
        }
        let mut kept = Vec::with_capacity(text.len());
        for at in 0..text.len() {
            match struck[at] {
                false => kept.push(text[at]),
                true if at == 0 || !struck[at - 1] => kept.extend_from_slice(MARK),
                true => {}
            }
        }
        kept
    }
}

/// Parts of a setting's name that make it a secret.
const NAMES: [&str; 7] = ["password", "passwd", "token", "secret", "auth", "credential", "key"];

/// Shorter values are not removed: they are unlikely to be secret, and removing them would make texts unreadable.
const SHORTEST_VALUE: usize = 4;

/// The values of settings in a configuration (YAML, JSON, `name=value`) that are secret by their name.
fn named_values(content: &[u8]) -> Vec<&[u8]> {
    let is_name = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let mut values = Vec::new();
    for line in content.split(|c| *c == b'\n') {
        for (at, _) in line.iter().enumerate().filter(|(_, c)| matches!(c, b':' | b'=')) {
            let before = line[..at].trim_ascii_end();
            let before = before.strip_suffix(b"\"").or(before.strip_suffix(b"'")).unwrap_or(before);
            let begin = before.iter().rposition(|c| !is_name(c)).map_or(0, |at| at + 1);
            let name = before[begin..].to_ascii_lowercase();
            let is_secret =
                NAMES.iter().any(|secret| name.windows(secret.len()).any(|part| part == secret.as_bytes()));
            if is_secret {
                values
                    .extend(value(line[at + 1..].trim_ascii()).filter(|value| value.len() >= SHORTEST_VALUE));
            }
        }
    }
    values
}

/// The value at the beginning of a text: the content of quotes, or everything up to a comma or the end.
fn value(text: &[u8]) -> Option<&[u8]> {
    match *text.first()? {
        b'{' | b'[' | b'|' | b'>' => None,
        quote @ (b'"' | b'\'') => text[1..].split(|c| *c == quote).next(),
        _ => text.split(|c| matches!(c, b',' | b'"' | b'\'')).next().map(<[u8]>::trim_ascii),
    }
}

fn first(text: &str) -> &str {
    text.char_indices().nth(Excerpt::CHARACTERS).map_or(text, |(end, _)| &text[..end])
}

fn last(text: &str) -> &str {
    text.char_indices().rev().nth(Excerpt::CHARACTERS - 1).map_or(text, |(start, _)| &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Capture, Exit};
    use proptest::prelude::*;

    fn output(redactor: &Redactor, printed: &[u8]) -> Option<Excerpt> {
        let mut capture = Capture::default();
        capture.push(printed);
        let ran = Ran { exit: Exit::Code(0), stdout: capture.captured(), stderr: Captured::default() };
        redactor.output(&ran).stdout
    }

    #[test]
    fn values_lines_and_base64_are_struck_out() {
        let redactor = Redactor::new([&b"hunter2"[..], b"-----BEGIN KEY-----\nMIIEvQIBADAN\n}\n"]);
        assert_eq!(redactor.text("pass hunter2hunter2!"), "pass [redacted]!");
        assert_eq!(redactor.text("  MIIEvQIBADAN }"), "  [redacted] }");
        assert_eq!(redactor.text(&STANDARD.encode("hunter2")), "[redacted]");
        assert_eq!(redactor.text("nothing"), "nothing");
        assert_eq!(Redactor::new([&b""[..]]).text("text"), "text");
        let overlapping = Redactor::new([&b"abcd"[..], b"cdef"]);
        assert_eq!(overlapping.text("xabcdefx"), "x[redacted]x");
    }

    #[test]
    fn values_of_secret_settings_are_found_in_any_form() {
        let found = |text: &'static str| {
            let values = named_values(text.as_bytes());
            values.into_iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("password: hunter22", vec!["hunter22"]),
            ("  \"etcd-s3-secret-key\": \"a:b=c\",", vec!["a:b=c"]),
            ("token: 'K10::server:pass'", vec!["K10::server:pass"]),
            ("  \"oidc-client-secret=hunter22\",", vec!["hunter22"]),
            ("vpn-auth: name=tailscale,joinKey=tskey-1", vec!["name=tailscale", "tskey-1"]),
            ("server: https://10.0.0.1:6443", vec![]),
            ("\"tokens\": [", vec![]),
            ("secret: x", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn short_output_is_whole() {
        let redactor = Redactor::default();
        assert_eq!(output(&redactor, b""), None);
        let short = output(&redactor, b"hi\n");
        assert_eq!(short, Some(Excerpt { head: Some("hi\n".into()), ..Excerpt::default() }));
        let longer = output(&redactor, &[b'x'; 5000]).unwrap_or_default();
        assert_eq!((longer.tail.map(|tail| tail.len()), longer.omitted_bytes), (Some(904), Some(0)));
        let odd = output(&redactor, &[0xff, b'a', 0]).unwrap_or_default();
        assert_eq!(odd.head.as_deref(), Some("\u{fffd}a\0"));
    }

    proptest! {
        /// Wherever a value lies, also across a cut, no piece of it is told: the filler has no letter of it.
        #[test]
        fn no_piece_of_a_value_is_reported(
            before in 0usize..10_000,
            between in 0usize..10_000,
            secret in "[A-Z]{4,40}",
            times in 1usize..4,
        ) {
            let mut printed = vec![b'.'; before];
            for _ in 0..times {
                printed.extend(secret.as_bytes());
                printed.extend(vec![b'.'; between]);
            }
            let excerpt = output(&Redactor::new([secret.as_bytes()]), &printed).unwrap_or_default();
            for text in [excerpt.head, excerpt.tail].into_iter().flatten() {
                prop_assert!(!text.contains(|c: char| c.is_ascii_uppercase()), "{text}");
                prop_assert!(text.chars().count() <= Excerpt::CHARACTERS);
            }
        }
    }
}
