//! The format of the journal: a checksum, a space, JSON, a line end.

use capstan_plan::Digest;
use serde::{Deserialize, Serialize};

use super::Entry;

#[derive(Serialize, Deserialize)]
struct Numbered<E> {
    seq: u64,
    entry: E,
}

/// A damaged journal. Its content is unknown, so the agent must do nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the journal is damaged, and it is not the last one: {reason}")]
pub struct JournalDamaged {
    /// The number of the line, from 1.
    pub line: usize,
    /// The damage.
    pub reason: String,
}

/// The content of a journal.
#[derive(Debug)]
pub struct Decoded {
    /// Its lines.
    pub entries: Vec<Entry>,
    /// Number of valid bytes. The rest was torn by a crash.
    pub whole: usize,
}

/// Encodes a line.
pub fn encode(seq: u64, entry: &Entry) -> Vec<u8> {
    let json = serde_json::to_string(&Numbered { seq, entry })
        .expect("an entry holds only what can be written as JSON: its map keys are text");
    format!("{} {json}\n", checksum(&json)).into_bytes()
}

/// Decodes all lines.
///
/// # Errors
/// If a line other than the last is damaged.
pub fn decode(bytes: &[u8]) -> Result<Decoded, JournalDamaged> {
    let mut entries = Vec::new();
    let mut whole = 0;
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = whole + line.len();
        match read(line, at as u64) {
            Ok(entry) => entries.push(entry),
            Err(_) if end == bytes.len() && !hides_a_line(line) => break,
            Err(reason) => return Err(JournalDamaged { line: at + 1, reason }),
        }
        whole = end;
    }
    Ok(Decoded { entries, whole })
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

fn read(line: &[u8], seq: u64) -> Result<Entry, String> {
    let numbered: Numbered<Entry> = serde_json::from_str(text(line)?).map_err(|error| error.to_string())?;
    if numbered.seq == seq { Ok(numbered.entry) } else { Err(format!("it has number {}", numbered.seq)) }
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
        assert_eq!(decode(&missing).expect_err("a line is missing").line, 2);
        // A line that this version does not know was written by a later one.
        let json = r#"{"seq":0,"entry":"fromTheFuture"}"#;
        let unknown = format!("{} {json}\n", checksum(json));
        let later = [unknown.as_bytes(), &encode(1, &Entry::ResetBegan)].concat();
        assert!(decode(&later).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
