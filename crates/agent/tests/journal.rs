//! Whatever happens to the bytes of a journal: it is read as what was written, up to a point, or not at all.
//!
//! A failing case prints its seed; `PROPTEST_CASES=100000` makes it a long search.

use crate::support::world::World;
use crate::support::{TestClock, Verbs, artifact, file, folder, gate, open, run, steps, tree, unit};
use capstan_agent::journal::{Entry, History, JournalError, UnreadableJournal, decode, encode};
use capstan_agent::{Engine, Journal};
use capstan_plan::{Digest, Phase};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

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

/// A line as another version may write it.
fn line(seq: usize, rest: &str) -> Vec<u8> {
    let json = format!("{{\"seq\":{seq},{rest}}}");
    format!("{} {json}\n", Digest::of(json.as_bytes()).short()).into_bytes()
}

fn lines(world: &World) -> usize {
    world.state().journal.iter().filter(|byte| **byte == b'\n').count()
}

async fn carry_out(world: &World, revision: u64, content: &str) -> Phase {
    let journal = Journal::open(world.clone()).await.unwrap();
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    let plan = steps(revision, vec![file("motd", "/etc/motd", content), run("once", "init").once()]);
    engine.apply(&plan, &open(&plan), |_| ()).await.unwrap().phase
}

#[tokio::test]
async fn an_earlier_agent_works_with_the_journal_of_a_later_one_and_back() {
    let world = World::with(&[("/etc/motd", "welcome")]);
    assert_eq!(carry_out(&world, 1, "first").await, Phase::Applied);
    for (revision, content) in [(2, "second"), (3, "third")] {
        // The later one writes what only informs, and the earlier one continues behind it.
        let later = line(lines(&world), r#""entry":{"sang":{"song":1}},"informs":true"#);
        world.state().journal.extend(&later);
        assert_eq!(carry_out(&world, revision, content).await, Phase::Applied);
        let journal = world.state().journal.clone();
        assert!(journal.windows(later.len()).any(|line| *line == later), "the line is still there");
        assert_eq!(decode(&journal).unwrap().lines, lines(&world) as u64);
    }
    assert_eq!(world.content("/etc/motd").as_deref(), Some("third"));
    assert_eq!(world.started("init"), 1, "what has run once is known");
}

#[tokio::test]
async fn a_line_that_does_not_only_inform_stops_an_earlier_agent_and_stays() {
    let world = World::with(&[]);
    assert_eq!(carry_out(&world, 1, "first").await, Phase::Applied);
    for later in [r#""entry":{"owes":{"path":"/x"}}"#, r#""entry":"resetBegan","needs":["order"]"#] {
        let before = world.state().journal.clone();
        let later = line(lines(&world), later);
        world.state().journal.extend(later);
        let written = world.state().journal.clone();
        let error = Journal::open(world.clone()).await.map(drop).expect_err("it is not understood");
        assert!(matches!(error, JournalError::Unreadable(UnreadableJournal::Later { .. })), "{error}");
        assert_eq!(world.state().journal, written, "the later version finds it as it was");
        world.state().journal = before;
    }
}

/// Every field of every line, without positions. Keys of the maps of a snapshot are names.
fn fields(journal: &[u8]) -> std::collections::BTreeSet<String> {
    fn add(value: &serde_json::Value, at: &str, found: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                let path = format!("{at}/{key}");
                add(value, &path, found);
                found.insert(path);
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| add(item, at, found)),
            // A kind of line without content.
            serde_json::Value::String(kind) if at == "/entry" => _ = found.insert(format!("{at}/{kind}")),
            _ => {}
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for line in std::str::from_utf8(journal).unwrap().lines() {
        add(&serde_json::from_str(line.split_once(' ').unwrap().1).unwrap(), "", &mut found);
    }
    found
}

/// What agents of the first release have written. It never changes.
const FIRST_RELEASE: &[u8] = include_bytes!("golden/first-release.journal");

#[test]
fn a_journal_of_the_first_release_is_read() {
    let decoded = decode(FIRST_RELEASE).unwrap();
    assert_eq!(decoded.whole, FIRST_RELEASE.len());
    let mut history = History::default();
    decoded.entries.into_iter().for_each(|entry| history.record(entry));
    assert!(history.current.is_some() && history.applied.is_some() && !history.resetting);
}

/// If this fails for a new kind of line: one that only informs says so; any other is read by one release and written by the next.
#[test]
fn this_version_writes_what_the_first_release_reads() {
    let known: std::collections::BTreeSet<String> = fields(FIRST_RELEASE)
        .into_iter()
        // Fields that agents of the first release pass over.
        .chain(["/entry/starting/repair".to_owned(), "/entry/ended/outcome/failure/isFull".to_owned()])
        .collect();
    let mut written = fields(&JOURNAL);
    // A reset is the end of a journal, and the first release has it.
    written.remove("/entry/resetBegan");
    assert_eq!(written.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The undo of a command, as agents of the first release have written it.
const SHOWN: &str = r#""entry":{"began":{"step":"join","inputs":"INPUTS","once":false,"undo":[{"argv":["leave"],"env":[{"name":"TOKEN","value":"hunter22","secret":true}]},60],"at":"2026-11-15T12:00:00Z"}}"#;

#[tokio::test]
async fn secrets_in_a_journal_of_the_first_release_are_used_and_hidden_with_the_next_plan() {
    let world = World::with(&[("/etc/motd", "welcome")]);
    assert_eq!(carry_out(&world, 1, "first").await, Phase::Applied);
    let shown = line(lines(&world), &SHOWN.replace("INPUTS", &Digest::of(b"").to_string()));
    world.state().journal.extend(shown);
    let is_shown = |world: &World| world.state().journal.windows(8).any(|part| part == b"hunter22");
    let takes_back = async |world: &World| {
        let journal = Journal::open(world.clone()).await.unwrap();
        let reset = Engine::new(world.clone(), journal, TestClock::new()).reset(None).await.unwrap();
        assert_eq!(reset, capstan_agent::Reset::Clean);
        assert_eq!(world.state().variables["leave"], [("TOKEN".to_owned(), "hunter22".to_owned())]);
        assert!(world.state().kept.is_empty());
    };
    let (written, kept, nodes) = {
        let state = world.state();
        (state.journal.clone(), state.kept.clone(), state.nodes.clone())
    };
    takes_back(&world).await;
    {
        let mut state = world.state();
        (state.journal, state.kept, state.nodes) = (written, kept, nodes);
        state.variables.clear();
    }
    // An agent that was put back would not understand it yet.
    drop(Journal::open(world.clone()).await.unwrap());
    assert!(is_shown(&world));
    assert_eq!(carry_out(&world, 2, "second").await, Phase::Applied);
    assert!(!is_shown(&world), "it is hidden");
    takes_back(&world).await;
}

#[test]
fn a_line_with_hidden_secrets_says_what_its_reader_must_know() {
    let kept = Digest::of(b"hunter22");
    let text = format!(
        r#"{{"began":{{"step":"join","inputs":"{kept}","once":false,"undo":[{{"argv":["leave"],"env":[{{"name":"TOKEN","kept":"{kept}"}}]}},60],"at":"2026-11-15T12:00:00Z"}}}}"#
    );
    let entry: Entry = serde_json::from_str(&text).unwrap();
    let line = encode(0, &entry);
    assert!(std::str::from_utf8(&line).unwrap().contains(r#""needs":["keptVariables"]"#));
    assert_eq!(decode(&line).unwrap().entries, std::slice::from_ref(&entry));
    let mut history = History::default();
    history.record(entry);
    assert_eq!(history.ledger.kept().into_iter().collect::<Vec<_>>(), [kept]);
    let line = encode(0, &Entry::Snapshot(Box::new(history)));
    assert!(std::str::from_utf8(&line).unwrap().contains(r#""needs":["keptVariables"]"#));
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
