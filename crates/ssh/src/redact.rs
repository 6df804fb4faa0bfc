//! Redacts possible secrets of the bootstrap data from the output of a machine. Pure.
//!
//! Redaction is by value and not by name: values from the data are searched in the output. Whole lines of the data, and
//! of the files that it writes, are always redacted. Words of the data are redacted if they follow a name such as
//! `token`, or if they look random.

use capstan_infrastructure::BootstrapData;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::cloudconfig::{self, Metadata};

/// What stands where something was taken out.
pub(crate) const REDACTED: &str = "[redacted]";

/// A line of the data that is shorter says nothing that is worth hiding, and would tear words apart.
const SHORTEST_LINE: usize = 8;
/// A word after a telling name that is shorter would be found everywhere.
const SHORTEST_VALUE: usize = 4;
/// A part of a word that is at least this long, with letters and digits in it, was drawn by lot.
const SHORTEST_RANDOM: usize = 12;

/// Texts that must not be shown.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Vec<String>);

impl Redactor {
    /// Whatever may be secret in these texts.
    fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut found = BTreeSet::new();
        for text in texts {
            for line in text.lines() {
                collect(line, &mut found);
            }
        }
        Self::exactly(found)
    }

    /// Whatever may be secret in bootstrap data, also in the files that are packed in it.
    pub(crate) fn of_data(data: &BootstrapData) -> Self {
        let text = String::from_utf8_lossy(&data.value);
        // Data that is not understood is not carried out; what it printed before, if anything, is still its own text.
        let config = cloudconfig::parse(&data.value, &Metadata::default()).unwrap_or_default();
        let files: Vec<_> = config
            .write_files
            .iter()
            .map(|file| String::from_utf8_lossy(&file.content).into_owned())
            .collect();
        Self::of(std::iter::once(text.as_ref()).chain(files.iter().map(String::as_str)))
    }

    fn exactly(found: BTreeSet<String>) -> Self {
        let mut all: Vec<String> = found.into_iter().collect();
        // The longest first, so that no part of it is taken out before.
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self(all)
    }

    /// The same, and these words.
    pub(crate) fn and(self, words: impl IntoIterator<Item = String>) -> Self {
        let words = words.into_iter().filter(|word| word.len() >= SHORTEST_VALUE);
        Self::exactly(self.0.into_iter().chain(words).collect())
    }

    /// The text without them.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret.as_str(), REDACTED),
            false => text,
        })
    }
}

fn collect(line: &str, found: &mut BTreeSet<String>) {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?i)[\w.-]*(?:token|secret|passw|passphrase|credential|auth|bearer|private|key|cert|hash)[\w.-]*["']?\s*[:=\s]\s*["']?([^\s"',}\]]+)"#,
        )
        .expect("a pattern of ours")
    });
    let whole = line.trim();
    if whole.len() >= SHORTEST_LINE {
        found.insert(whole.to_owned());
        // An item of a list without its dash, and without what YAML puts around it: as it would be printed.
        let bare = whole.trim_start_matches("- ").trim_matches(['"', '\'']).trim();
        if bare.len() >= SHORTEST_LINE {
            found.insert(bare.to_owned());
        }
    }
    for value in NAMED.captures_iter(line).filter_map(|captures| captures.get(1)) {
        if value.len() >= SHORTEST_VALUE && !value.as_str().starts_with('/') {
            found.insert(value.as_str().to_owned());
        }
    }
    let words =
        line.split(|letter: char| letter.is_whitespace() || r#""'=,;:{}[]()<>|&$`\"#.contains(letter));
    found.extend(words.filter(|word| is_random(word)).map(str::to_owned));
}

/// Whether a word looks drawn by lot: a part of it is long and mixed. Names of hosts and versions have short parts.
fn is_random(word: &str) -> bool {
    word.split(['.', '-', '_', '/', '@']).any(|part| {
        part.len() >= SHORTEST_RANDOM
            && part.bytes().any(|byte| byte.is_ascii_digit())
            && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_secret_is_taken_out_and_the_rest_stays() {
        let data = r#"
write_files:
- content: '{"server":"https://10.0.0.1:6443","token":"tok","machineID":"0123456789abcdef"}'
  path: /etc/capstan/agent.json
- content: |
    -----BEGIN RSA PRIVATE KEY-----
    MIIEowIBAAKCAQEAx7Zr9
    password: correct horse
runcmd:
- kubeadm join --token abcdef.0123456789abcdef 10.0.0.1:6443
- "echo hunter2hunter2 && exit 3"
"#;
        let redactor = Redactor::of([data]).and(["pass word".to_owned(), "ab".to_owned()]);
        for (printed, shown) in [
            ("error: token abcdef.0123456789abcdef is expired", "error: token [redacted] is expired"),
            ("echoed hunter2hunter2", "echoed [redacted]"),
            ("+ kubeadm join --token abcdef.0123456789abcdef 10.0.0.1:6443", "+ [redacted]"),
            ("+ echo hunter2hunter2 && exit 3", "+ [redacted]"),
            ("  MIIEowIBAAKCAQEAx7Zr9", "  [redacted]"),
            ("it was correct horse", "it was [redacted] horse"),
            ("login with pass word", "login with [redacted]"),
            (
                "cannot reach 10.0.0.1:6443: connection refused",
                "cannot reach 10.0.0.1:6443: connection refused",
            ),
            ("/etc/capstan/agent.json: no such file", "/etc/capstan/agent.json: no such file"),
            ("cab", "cab"),
        ] {
            assert_eq!(redactor.clean(printed), shown);
        }
    }

    #[test]
    fn files_are_looked_into_however_they_are_packed() {
        let data = "#cloud-config\nwrite_files:\n- {path: /a, content: a plain line of text}\n\
                    - {path: /b, encoding: b64, content: YW5vdGhlciBwbGFpbiBsaW5l}\n";
        let data = BootstrapData { value: data.as_bytes().to_vec(), format: "cloud-config".to_owned() };
        let redactor = Redactor::of_data(&data);
        assert_eq!(redactor.clean("a plain line of textand more"), "[redacted]and more");
        assert_eq!(redactor.clean("> another plain line"), "> [redacted]");
    }

    #[test]
    fn names_are_not_random() {
        for word in ["rack-1-host-3.dc.example.com", "v1.36.0+k3s1", "kubeadm-join-config.yaml", "10.0.0.1"] {
            assert!(!is_random(word), "{word}");
        }
        for word in ["0123456789abcdef", "abcdef.0123456789abcdef", "eyJhbGciOiJSUzI1NiJ9", "hunter2hunter2"]
        {
            assert!(is_random(word), "{word}");
        }
    }
}
