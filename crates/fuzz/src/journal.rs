//! The journal of the agent, as it is read after a crash.

use capstan_agent::journal::{Entry, History, decode, encode};
use capstan_plan::Digest;

/// The file as it is, and each of its lines with the checksum that fits it: random bytes never have the right one.
pub(crate) fn journal(input: &[u8]) {
    read(input);
    let lines = input.split(|byte| *byte == b'\n').map(|line| {
        let sum = Digest::of(line).short();
        [sum.as_bytes(), b" ", line, b"\n"].concat()
    });
    read(&lines.collect::<Vec<_>>().concat());
}

/// Entries that are read and written are read again as the same, and so is their sum.
fn read(bytes: &[u8]) {
    let Ok(decoded) = decode(bytes) else { return };
    assert!(decoded.whole <= bytes.len());
    let written: Vec<u8> = (0..).zip(&decoded.entries).flat_map(|(seq, entry)| encode(seq, entry)).collect();
    let again = decode(&written).expect("what was read and written can be read");
    assert_eq!((&again.entries, again.whole), (&decoded.entries, written.len()));
    let mut history = History::default();
    for entry in decoded.entries {
        history.record(entry);
    }
    let sum = Entry::Snapshot(Box::new(history));
    let again = decode(&encode(0, &sum)).expect("the sum of all entries can be read");
    assert_eq!(again.entries, [sum]);
}
