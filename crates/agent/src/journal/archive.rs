//! The attempts that a summary of the journal leaves out, compressed and bounded. Pure.
//!
//! For people only: nothing is decided from it. If it cannot be read, it is begun again.

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read as _, Write as _};

use super::Entry;

/// Bytes that are kept, before they are compressed. The oldest lines go first.
const MOST: usize = 1024 * 1024;

/// The lines of an archive; none if it is damaged.
pub fn archived(archive: &[u8]) -> Vec<Entry> {
    let mut text = String::new();
    let read = GzDecoder::new(archive).take(MOST as u64).read_to_string(&mut text);
    let lines = if read.is_ok() { text.lines() } else { "".lines() };
    // A line of a later version is passed over.
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The lines that are archived: which plan it was, and its attempts.
pub(super) fn attempts(entries: Vec<Entry>) -> Vec<Entry> {
    let attempt = |entry: Entry| match entry {
        Entry::Accepted { .. } | Entry::Ended { .. } => Some(entry),
        Entry::Began { step, inputs, once, at, .. } => {
            Some(Entry::Began { step, inputs, once, at, undo: None })
        }
        _ => None,
    };
    entries.into_iter().filter_map(attempt).collect()
}

/// An archive followed by a journal. If the agent was killed after it had archived the journal and before it had replaced it, they
/// are in both.
pub fn joined(mut archived: Vec<Entry>, journal: Vec<Entry>) -> Vec<Entry> {
    let known = attempts(journal.clone());
    if !known.is_empty() && archived.ends_with(&known) {
        archived.truncate(archived.len() - known.len());
    }
    archived.extend(journal);
    archived
}

/// An archive with these lines.
pub(super) fn pack(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut size = 0;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for entry in entries.iter().rev() {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        size += line.len();
        if size > MOST {
            break;
        }
        lines.push(line);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    for line in lines.iter().rev() {
        packed.write_all(line)?;
    }
    packed.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ended(number: usize, stdout: &str) -> Entry {
        let at = jiff::Timestamp::from_second(i64::try_from(number).expect("small")).expect("a time");
        let outcome = json!({"output": {"stdout": {"head": stdout}}});
        let entry = json!({"ended": {"step": "a", "inputs": "a".repeat(64), "outcome": outcome, "at": at}});
        serde_json::from_value(entry).expect("an entry")
    }

    #[test]
    fn attempts_are_kept_and_the_oldest_go_first() {
        let few = vec![ended(1, "one"), ended(2, "two")];
        let packed = pack(&few).expect("packed");
        assert_eq!(archived(&packed), few);
        for damaged in [&packed[..packed.len() - 9], b"", b"text"] {
            assert_eq!(archived(damaged), []);
        }
        let many: Vec<Entry> = (0..3000).map(|number| ended(number, &"x".repeat(1000))).collect();
        let packed = pack(&many).expect("packed");
        let kept = archived(&packed);
        assert!((500..1000).contains(&kept.len()) && many.ends_with(&kept), "{}", kept.len());
        assert!(packed.len() < MOST / 10, "{} bytes", packed.len());
    }

    #[test]
    fn only_attempts_are_archived_and_without_what_undoes_them() {
        let began = json!({"began": {"step": "a", "inputs": "a".repeat(64), "once": false, "at": "1970-01-01T00:00:00Z",
            "undo": [{"argv": ["undo"]}, 9]}});
        let began: Entry = serde_json::from_value(began).expect("an entry");
        let found = attempts(vec![began, Entry::ResetBegan, ended(1, "one")]);
        assert_eq!(found.len(), 2);
        assert!(matches!(&found[0], Entry::Began { undo: None, .. }));
    }

    #[test]
    fn what_is_in_both_is_there_once() {
        let all = [ended(1, "one"), ended(2, "two"), ended(3, "three")];
        let journal = vec![ended(2, "two"), Entry::ResetBegan, ended(3, "three")];
        let once = vec![ended(1, "one"), ended(2, "two"), Entry::ResetBegan, ended(3, "three")];
        assert_eq!(joined(all.to_vec(), journal.clone()), once);
        assert_eq!(joined(all[..1].to_vec(), journal), once);
        assert_eq!(joined(all.to_vec(), Vec::new()), all);
    }
}
