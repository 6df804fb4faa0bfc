//! The format of the journal: a checksum, a space, JSON, a line end.
//!
//! Agents of different versions read one journal, because an upgrade may be reverted. A reader ignores fields that it does not know, and
//! lines of an unknown kind that are marked as informative. Any other line that it does not understand makes it stop, because a reset
//! or a command may depend on it; so does a line that names a need which it does not know. A new kind of line that is not
//! informative is read by one release and written by the next.

use capstan_plan::Digest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Entry;
use crate::owed::KEPT_VARIABLES;

#[derive(Serialize, Deserialize)]
struct Numbered<E> {
    seq: u64,
    entry: E,
    /// Whether a reader that does not know this kind of line may pass over it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    informs: bool,
    /// What a reader must know, though it can read the line without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
}

/// Needs that this version knows.
const KNOWN_NEEDS: [&str; 1] = [KEPT_VARIABLES];

/// A journal that cannot be used. Its content is unknown, so the agent must do nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableJournal {
    /// A line is damaged.
    #[error("line {line} of the journal is damaged, and it is not the last one: {reason}")]
    Damaged {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line is whole, and this version does not understand it.
    #[error(
        "line {line} of the journal was written by a later version of the agent, and this version does not understand it \
         ({reason}): install the later version again"
    )]
    Later {
        /// The number of the line, from 1.
        line: usize,
        /// What is not understood.
        reason: String,
    },
}

/// The content of a journal.
#[derive(Debug)]
pub struct Decoded {
    /// Its lines, without those that only inform and that this version does not know.
    pub entries: Vec<Entry>,
    /// Number of lines, with those.
    pub lines: u64,
    /// Number of valid bytes. The rest was torn by a crash.
    pub whole: usize,
}

/// Encodes a line.
pub fn encode(seq: u64, entry: &Entry) -> Vec<u8> {
    let json = serde_json::to_string(&Numbered { seq, entry, informs: false, needs: entry.needs() })
        .expect("an entry holds only what can be written as JSON: its map keys are text");
    format!("{} {json}\n", checksum(&json)).into_bytes()
}

/// Decodes all lines.
///
/// # Errors
/// If a line other than the last is damaged, or a line is of a later version and does not only inform.
pub fn decode(bytes: &[u8]) -> Result<Decoded, UnreadableJournal> {
    let mut decoded = Decoded { entries: Vec::new(), lines: 0, whole: 0 };
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = decoded.whole + line.len();
        match read(line, decoded.lines) {
            Ok(entry) => decoded.entries.extend(entry),
            // A crash tears a line, and leaves no checksum that fits.
            Err(Fault::Later(reason)) => return Err(UnreadableJournal::Later { line: at + 1, reason }),
            Err(Fault::Damaged(_)) if end == bytes.len() && !hides_a_line(line) => break,
            Err(Fault::Damaged(reason)) => return Err(UnreadableJournal::Damaged { line: at + 1, reason }),
        }
        decoded.lines += 1;
        decoded.whole = end;
    }
    Ok(decoded)
}

/// Why a line is not read.
enum Fault {
    Damaged(String),
    Later(String),
}

/// Whether a line that cannot be read is followed by one that can. Then a crash did not tear it, because nothing is
/// written after a torn line: the line end before it was lost.
fn hides_a_line(line: &[u8]) -> bool {
    (1..line.len()).any(|at| line[at - 1..].get(17) == Some(&b' ') && text(&line[at..]).is_ok())
}

/// The text after the checksum, if the checksum matches.
fn text(line: &[u8]) -> Result<&str, String> {
    let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
    let (sum, json) = text.and_then(|text| text.split_once(' ')).ok_or("it is not a checksum and a text")?;
    if sum == checksum(json) { Ok(json) } else { Err("the checksum does not fit".to_owned()) }
}

/// What a line says; nothing if it only informs and is not known.
fn read(line: &[u8], seq: u64) -> Result<Option<Entry>, Fault> {
    let json = text(line).map_err(Fault::Damaged)?;
    let (found, needs, entry) = match serde_json::from_str::<Numbered<Entry>>(json) {
        Ok(Numbered { seq, entry, needs, .. }) => (seq, needs, Ok(Some(entry))),
        Err(error) => {
            let line: Numbered<IgnoredAny> =
                serde_json::from_str(json).map_err(|error| Fault::Damaged(error.to_string()))?;
            let entry = if line.informs { Ok(None) } else { Err(Fault::Later(error.to_string())) };
            (line.seq, line.needs, entry)
        }
    };
    if found != seq {
        return Err(Fault::Damaged(format!("it has number {found}")));
    }
    match needs.into_iter().find(|need| !KNOWN_NEEDS.contains(&need.as_str())) {
        Some(need) => Err(Fault::Later(format!("it needs {need}"))),
        None => entry,
    }
}

fn checksum(json: &str) -> String {
    Digest::of(json.as_bytes()).short()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn journal(lines: u64) -> Vec<u8> {
        (0..lines).flat_map(|seq| encode(seq, &Entry::ResetBegan)).collect()
    }

    #[test]
    fn a_torn_last_line_is_dropped_wherever_it_was_torn() {
        let whole = journal(3);
        let two = journal(2).len();
        for end in two..whole.len() {
            let decoded = decode(&whole[..end]).expect("only the last line is torn");
            assert_eq!((decoded.entries.len(), decoded.whole), (2, two), "torn at {end}");
        }
        let mut zeros = journal(2);
        zeros.extend([0; 100]);
        assert_eq!(decode(&zeros).expect("torn").whole, two);
    }

    #[test]
    fn damage_in_the_middle_is_not_passed_over() {
        let whole = journal(3);
        for at in 0..journal(2).len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
        let missing =
            [&encode(0, &Entry::ResetBegan)[..], &encode(2, &Entry::ResetBegan), &journal(1)].concat();
        let error = decode(&missing).expect_err("a line is missing");
        assert!(matches!(error, UnreadableJournal::Damaged { line: 2, .. }), "{error}");
    }

    #[test]
    fn lines_of_a_later_version_are_read_passed_over_or_refused() {
        for (case, json, expected) in [
            ("a field", r#"{"seq":1,"entry":{"follows":{"epoch":3,"more":1}},"more":2}"#, Ok(3)),
            ("a kind that informs", r#"{"seq":1,"entry":{"sang":{"song":1}},"informs":true}"#, Ok(2)),
            ("a field that informs", r#"{"seq":1,"entry":{"sang":"a"},"informs":true,"needs":[]}"#, Ok(2)),
            ("a kind", r#"{"seq":1,"entry":{"sang":{"song":1}}}"#, Err("sang")),
            ("a kind without content", r#"{"seq":1,"entry":"sang"}"#, Err("sang")),
            ("another form of a field", r#"{"seq":1,"entry":{"follows":{"epoch":"third"}}}"#, Err("epoch")),
            (
                "a need",
                r#"{"seq":1,"entry":{"follows":{"epoch":3}},"needs":["order"]}"#,
                Err("it needs order"),
            ),
            (
                "a need of what informs",
                r#"{"seq":1,"entry":"x","informs":true,"needs":["a"]}"#,
                Err("it needs a"),
            ),
        ] {
            let line = format!("{} {json}\n", checksum(json));
            let middle = [&journal(1)[..], line.as_bytes(), &encode(2, &Entry::ResetBegan)].concat();
            let end = [&journal(1)[..], line.as_bytes()].concat();
            match expected {
                Ok(entries) => {
                    let decoded = decode(&middle).expect(case);
                    assert_eq!(
                        (decoded.entries.len(), decoded.lines, decoded.whole),
                        (entries, 3, middle.len())
                    );
                    assert_eq!(decode(&end).expect(case).whole, end.len(), "{case}: it is not torn");
                }
                Err(reason) => {
                    for bytes in [&middle, &end] {
                        let error = decode(bytes).expect_err(case);
                        let is_later = matches!(&error, UnreadableJournal::Later { line: 2, .. });
                        assert!(is_later && error.to_string().contains("later version"), "{case}: {error}");
                        assert!(reason == "epoch" || error.to_string().contains(reason), "{case}: {error}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
