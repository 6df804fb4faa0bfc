//! Whatever happens to the bytes of a journal: it is read as what was written, up to a point, or not at all.
//!
//! A failing case prints its seed; `PROPTEST_CASES=100000` makes it a long search.

#![cfg(test)]

mod support;

use capstan_agent::journal::{Entry, History, decode};
use capstan_agent::{Engine, Journal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;
use support::world::World;
use support::{TestClock, Verbs, artifact, file, folder, gate, open, run, steps, tree, unit};

/// A journal with every kind of line.
static JOURNAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::with(&[("/etc/motd", "welcome")]);
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world.clone(), journal, TestClock::new());
        let first = steps(
            1,
            vec![
                folder("folder", "/data"),
                file("motd", "/etc/motd", "managed"),
                tree("software", "/opt/app/v1", "v1"),
                artifact("tool", "/usr/bin/tool", "tool", None),
                run("init", "init").once().undo("false"),
                gate("go"),
                unit("app", "app.service", "[Unit]\n", "1").ended_by("end"),
                run("flaky", "flaky 1").retried(2),
            ],
        );
        engine.apply(&first, &open(&first), |_| ()).await.unwrap();
        let second = steps(2, vec![folder("folder", "/data"), run("broken", "false")]);
        engine.apply(&second, &open(&second), |_| ()).await.unwrap();
        engine.reset(None).await.unwrap();
        world.state().journal.clone()
    })
});

fn entries(bytes: &[u8]) -> Vec<Entry> {
    decode(bytes).unwrap().entries
}

/// What can happen to bytes on a disk.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Truncate(Index),
    /// A line once more, somewhere.
    Repeat(Index, Index),
    Swap(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        (index(), 1..=255u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (index(), vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (index(), 1..200usize).prop_map(|(at, length)| Change::Remove(at, length)),
        index().prop_map(Change::Truncate),
        (index(), index()).prop_map(|(from, to)| Change::Repeat(from, to)),
        (index(), index()).prop_map(|(a, b)| Change::Swap(a, b)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    if bytes.is_empty() {
        return;
    }
    let lines = || -> Vec<Vec<u8>> { bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect() };
    match change {
        Change::Flip(at, bits) => {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        Change::Insert(at, new) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, new);
        }
        Change::Remove(at, length) => {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.drain(at..end);
        }
        Change::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        Change::Repeat(from, to) => {
            let mut lines = lines();
            let line = lines[from.index(lines.len())].clone();
            lines.insert(to.index(lines.len()), line);
            *bytes = lines.concat();
        }
        Change::Swap(a, b) => {
            let mut lines = lines();
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
            *bytes = lines.concat();
        }
    }
}

#[test]
fn the_journal_of_this_suite_has_every_kind_of_line() {
    let kinds: std::collections::BTreeSet<String> = entries(&JOURNAL)
        .iter()
        .map(|entry| {
            let json = serde_json::to_value(entry).unwrap();
            json.as_object()
                .and_then(|fields| fields.keys().next().cloned())
                .unwrap_or_else(|| json.to_string())
        })
        .collect();
    for kind in [
        "accepted",
        "began",
        "ended",
        "took",
        "released",
        "starting",
        "stopped",
        "finished",
        "\"resetBegan\"",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_changed_journal_is_read_as_a_beginning_of_itself_or_not_at_all(changes in vec(change(), 1..4)) {
        let whole = entries(&JOURNAL);
        let mut bytes = JOURNAL.clone();
        changes.into_iter().for_each(|change| apply(&mut bytes, change));
        if let Ok(read) = decode(&bytes) {
            prop_assert!(read.entries.len() <= whole.len());
            prop_assert_eq!(&read.entries[..], &whole[..read.entries.len()]);
            prop_assert!(read.whole <= bytes.len());
            let mut history = History::default();
            read.entries.into_iter().for_each(|entry| history.record(entry));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..400)) {
        if let Ok(read) = decode(&bytes) {
            prop_assert!(read.entries.is_empty());
        }
    }

    /// Lines that never came in this order: they are added up all the same, and survive being written.
    #[test]
    fn lines_in_any_order_are_added_up(order in vec(any::<Index>(), 0..60)) {
        let whole = entries(&JOURNAL);
        let mut history = History::default();
        for at in order {
            history.record(whole[at.index(whole.len())].clone());
        }
        let written = serde_json::to_vec(&history).unwrap();
        prop_assert_eq!(serde_json::from_slice::<History>(&written).unwrap(), history);
    }
}
