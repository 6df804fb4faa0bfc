//! Scripts for the `sh` of a host, and the parser of their output. Pure.
//!
//! A script is one function that `sh` reads completely before it runs, so that no program can consume the rest of it
//! from standard input. Its output is between two marker lines that no other program prints, because login shells may
//! print text, too.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write as _;

const PRELUDE: &str = include_str!("sh/prelude.sh");

/// A script that is being put together.
pub(crate) struct Script {
    nonce: String,
    head: String,
    body: String,
}

impl Script {
    /// A script for a host whose paths all begin with `root`.
    pub(crate) fn new(root: &str) -> Self {
        let script = Self {
            nonce: format!("capstan-{:032x}", rand::random::<u128>()),
            head: String::new(),
            body: String::new(),
        };
        let nonce = script.nonce.clone();
        script.set("root", root).set("nonce", &nonce).also(PRELUDE)
    }

    /// Sets a variable.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        // Writing to a String cannot fail.
        _ = writeln!(self.head, "{name}={}", quote(value));
        self
    }

    /// Adds definitions.
    pub(crate) fn also(mut self, text: &str) -> Self {
        self.head.push_str(text);
        self
    }

    /// Adds what is to be done.
    pub(crate) fn run(mut self, text: &str) -> Self {
        self.body.push_str(text);
        self
    }

    /// The text that goes to the host.
    pub(crate) fn text(&self) -> String {
        let Self { nonce, head, body } = self;
        format!("{head}\nmain() {{\n{body}\n}}\necho {nonce}\nmain \"$@\" </dev/null\necho {nonce}\nexit 0\n")
    }

    /// What the script has answered, if it came to its end.
    pub(crate) fn answer(&self, stdout: &[u8]) -> Option<Answer> {
        let text = String::from_utf8_lossy(stdout);
        let mut lines = text.lines().skip_while(|line| *line != self.nonce).skip(1);
        let mut answer = Answer::default();
        for line in lines.by_ref() {
            if line == self.nonce {
                return Some(answer);
            }
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            answer.0.push((key.to_owned(), value.trim().to_owned()));
        }
        None
    }
}

/// What a script has said, line by line. From a machine: it may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer(Vec<(String, String)>);

impl Answer {
    /// The first value under a key, if it says anything.
    pub(crate) fn get<'a>(&'a self, key: &str) -> Option<&'a str> {
        self.all(key).find(|value| !value.is_empty())
    }

    /// All values under a key.
    pub(crate) fn all<'a, 'k>(&'a self, key: &'k str) -> impl Iterator<Item = &'a str> + use<'a, 'k> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A value that was a text of several lines.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let bytes = BASE64_STANDARD.decode(self.get(key)?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }
}

/// A text as `sh` takes it for itself.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Bytes as a text for `base64 -d`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn run(script: &Script) -> Vec<u8> {
        let mut child = Command::new("/bin/sh")
            .args(["-s", "--", "from here"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(script.text().as_bytes()).unwrap();
        child.wait_with_output().unwrap().stdout
    }

    #[test]
    fn output_is_distinguished_from_banners() {
        let script = Script::new("").run("say first one; say second \"$1\"; printf 'a\\nb' | text long; cat");
        let mut stdout = b"Welcome!\nfirst wrong\n".to_vec();
        stdout.extend(run(&script));
        stdout.extend(b"\nbye\n");
        let answer = script.answer(&stdout).unwrap();
        assert_eq!(answer.get("first"), Some("one"));
        assert_eq!(answer.get("second"), Some("from here"));
        assert_eq!(answer.text("long").as_deref(), Some("a\nb"));
        assert_eq!(script.answer(b"Welcome!\n"), None);
    }

    #[test]
    fn half_an_answer_is_none() {
        let script = Script::new("").run("say first one; exit 3");
        assert_eq!(script.answer(&run(&script)), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn any_text_reaches_the_host_as_it_is(value in "[^\u{0}]{0,40}") {
            let script = Script::new("").set("value", &value).run("printf %s \"$value\" | text value");
            let answer = script.answer(&run(&script)).unwrap();
            prop_assert_eq!(answer.text("value").unwrap_or_default(), value);
        }
    }
}
