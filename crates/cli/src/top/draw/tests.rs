//! Snapshots of every view, as text.

use capstan_ui::model::{
    Age, ClusterPage, ClusterRow, Condition, ConditionList, Count, Event, Fact, Fleet, HandOff, HostPage,
    HostRow, Hosts, LedgerLine, LedgerView, MachineChange, MachinePage, PlanProgress, PlanStep, Probe,
    Revision, Rollout, RolloutMachineRow, Waiting,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::content::{Content, shown};
use crate::ui::{MachineRow, Machines};

/// What a hostile machine may say: a window title, a cleared screen, another direction, and much of it.
const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u{202e}evil\u{9b}1m\x08\r\nline\ttwo\x1b";

fn owned(text: &str) -> String {
    text.to_owned()
}

fn now() -> Timestamp {
    Timestamp::from_second(100).expect("a time")
}

fn age(second: i64) -> Option<Age> {
    let at = Timestamp::from_second(second).expect("a time");
    Some(Age { at: at.to_string(), text: "old".to_owned() })
}

fn waits() -> Waiting {
    Waiting {
        object: owned("HostMachine/shop-cp-1"),
        reason: owned("NoHostAvailable"),
        message: owned("0 of 3 hosts fit: 2 are claimed, 1 is quarantined"),
        since: age(40),
        owner: owned("you: add a host"),
    }
}

fn fleet() -> Content {
    let row = |name: &str, health: &str, tone, waiting| ClusterRow {
        namespace: owned("default"),
        name: owned(name),
        version: owned("v1.36.0"),
        phase: owned("Provisioned"),
        health: owned(health),
        tone,
        servers: owned("1/3"),
        workers: owned("2/2"),
        waiting,
    };
    let count = |label: &str, count| Count { label: owned(label), count, tone: Tone::Neutral };
    Content::Clusters(Fleet {
        totals: vec![count("clusters", 2), count("hosts", 3)],
        clusters: vec![
            row("bank", "available", Tone::Good, None),
            row("shop", "not available", Tone::Waiting, Some(waits())),
        ],
        ..Fleet::default()
    })
}

fn machine() -> Content {
    let handoff = |what: &str, state: &str, waiting| HandOff {
        what: owned(what),
        state: owned(state),
        object: owned("HostMachine/shop-cp-1"),
        waiting,
    };
    let step = |name: &str, state: &str| PlanStep { name: owned(name), state: owned(state) };
    Content::Machine(Box::new(MachinePage {
        namespace: owned("default"),
        name: owned("shop-cp-1"),
        cluster: owned("shop"),
        host: Some(owned("rack-1")),
        version: owned("v1.36.0"),
        phase: owned("Provisioning"),
        tone: Tone::Waiting,
        handoffs: vec![
            handoff("bootstrap data", "done", None),
            handoff("host claimed", "waiting", Some(waits())),
            handoff("node healthy", "pending", None),
        ],
        plan: Some(PlanProgress {
            revision: 3,
            digest: owned("0123"),
            phase: owned("Failed"),
            tone: Tone::Bad,
            steps: vec![step("files", "done"), step("install", "failed"), step("ready", "pending")],
            attempts: 2,
            message: owned("exit status 1"),
            stdout: (0..30).map(|line| format!("line {line}\n")).collect(),
            stderr: owned("boom"),
            ..PlanProgress::default()
        }),
        probes: vec![Probe { name: owned("kubelet"), healthy: true, since: age(90), ..Probe::default() }],
        conditions: vec![ConditionList {
            object: owned("Machine shop-cp-1"),
            conditions: vec![Condition {
                type_: owned("Ready"),
                status: owned("False"),
                reason: owned("NotReady"),
                ..Condition::default()
            }],
        }],
        ..MachinePage::default()
    }))
}

fn state_after(content: &Content, keys: &[KeyCode]) -> State {
    let mut state = State::new("default");
    for key in keys {
        let shown = shown(content, &state.level().filter, 100, now());
        state.press(KeyEvent::new(*key, KeyModifiers::NONE), &shown, 10);
    }
    state
}

/// The buffer for a content after these keys.
fn buffer(content: &Content, keys: &[KeyCode], size: (u16, u16), status: &Status, color: bool) -> Buffer {
    let mut state = state_after(content, keys);
    let shown = shown(content, &state.level().filter, usize::from(size.0), now());
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    let height = body_height(Size { width: size.0, height: size.1 }, &shown);
    state.adapt_to(&shown, height);
    let scene = Scene { state: &state, shown: &shown, status, now: now(), color };
    terminal.draw(|frame| draw(frame, scene)).expect("a picture");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    buffer.content.chunks(width.max(1)).map(line).collect()
}

fn status() -> Status {
    Status { place: owned("127.0.0.1:6440, all namespaces"), outage: None }
}

fn picture(content: &Content, keys: &[KeyCode], size: (u16, u16)) -> Vec<String> {
    lines(&buffer(content, keys, size, &status(), true))
}

#[test]
fn the_fleet() {
    assert_eq!(
        picture(&fleet(), &[KeyCode::Down], (120, 14)),
        [
            " Clusters [2]                                                                            127.0.0.1:6440, all namespaces",
            " 2 clusters · 3 hosts",
            " NAMESPACE  NAME  VERSION  HEALTH         PHASE        CONTROL PLANE  WORKERS  FOR  WAITING FOR",
            " default    bank  v1.36.0  available      Provisioned  1/3            2/2",
            ">default    shop  v1.36.0  not available  Provisioned  1/3            2/2      60s  NoHostAvailable (HostMachine/shop-…",
            "",
            "",
            "",
            "",
            " NoHostAvailable (HostMachine/shop-cp-1), for 60s",
            " Who must act: you: add a host",
            " 0 of 3 hosts fit: 2 are claimed, 1 is quarantined",
            "",
            " Enter open   d details   Esc back   / filter   : view   ? help   q quit",
        ]
    );
}

#[test]
fn a_filter_hides_rows_and_is_shown() {
    let filter = [KeyCode::Char('/'), KeyCode::Char('b'), KeyCode::Char('a'), KeyCode::Char('n')];
    let drawn = picture(&fleet(), &filter, (60, 8));
    assert!(drawn[0].starts_with(" Clusters [1 of 2]"), "{drawn:#?}");
    assert!(drawn[3].contains("bank") && drawn[4].is_empty(), "{drawn:#?}");
    assert_eq!(drawn[7], " /ban");
    let none = picture(&fleet(), &[KeyCode::Char('/'), KeyCode::Char('x'), KeyCode::Enter], (60, 8));
    assert_eq!(
        (none[3].as_str(), none[7].as_str()),
        (" Nothing matches the filter.", " filter: x   Esc clears it")
    );
}

#[test]
fn machines_of_a_cluster() {
    let row = MachineRow {
        namespace: owned("default"),
        name: owned("shop-cp-1"),
        cluster: owned("shop"),
        is_server: true,
        phase: owned("Provisioning"),
        tone: Tone::Waiting,
        version: owned("v1.36.0"),
        node: owned("node-1"),
        host: owned("rack-1"),
        waiting: Some(waits()),
    };
    let Content::Clusters(Fleet { clusters, .. }) = fleet() else { unreachable!() };
    let content = Content::Machines(Box::new(Machines {
        cluster: clusters.last().cloned(),
        machines: vec![row],
        notices: vec![],
    }));
    let drawn = picture(&content, &[], (150, 8));
    assert_eq!(
        drawn[1..5],
        [
            " default/shop not available Provisioned v1.36.0 control plane 1/3 workers 2/2",
            " waits for NoHostAvailable (HostMachine/shop-cp-1) for 60s",
            " CLUSTER  NAME       ROLE           PHASE         VERSION  NODE    HOST    FOR  WAITING FOR                              WHO MUST ACT",
            ">shop     shop-cp-1  control-plane  Provisioning  v1.36.0  node-1  rack-1  60s  NoHostAvailable (HostMachine/shop-cp-1)  you: add a host",
        ]
    );
}

#[test]
fn one_machine() {
    let drawn = picture(&machine(), &[], (100, 52));
    let expected = [
        " default/shop-cp-1 Provisioning v1.36.0 cluster shop host rack-1",
        " Hand-offs",
        "  ✓ bootstrap data               HostMachine/shop-cp-1",
        "  ▶ host claimed                 HostMachine/shop-cp-1",
        "      NoHostAvailable for 60s",
        "      0 of 3 hosts fit: 2 are claimed, 1 is quarantined",
        "      Who must act: you: add a host",
        "  · node healthy                 HostMachine/shop-cp-1",
        " Plan revision 3 Failed 1/3 steps attempt 2 digest 0123",
        "  ✓ files",
        "  ✗ install",
        "  · ready",
        "    exit status 1",
        " Standard output",
        "  line 10",
    ];
    assert_eq!(drawn[1..=expected.len()], expected);
    for text in [
        "  line 29",
        " Standard error",
        "  boom",
        " Probes",
        "  ✓ kubelet                      for 10s",
        " Conditions of Machine shop-cp-1",
        "  Ready                        False    NotReady",
    ] {
        assert!(drawn.iter().any(|line| line == text), "{text}: {drawn:#?}");
    }
}

#[test]
fn hosts_and_what_is_wrong_with_them() {
    let row = HostRow {
        namespace: owned("default"),
        name: owned("rack-1"),
        state: owned("Quarantined"),
        tone: Tone::Bad,
        domain: owned("zone-a"),
        reason: owned("NotClean"),
        problem: owned("files are left in /var/lib"),
        ..HostRow::default()
    };
    let list = Content::Hosts(Hosts { hosts: vec![row.clone()], ..Hosts::default() });
    let drawn = picture(&list, &[], (100, 14)).join("\n");
    for text in ["rack-1", "Quarantined", "zone-a", "NotClean", "files are left in /var/lib"] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    let page = Content::Host(Box::new(HostPage { row, ..HostPage::default() }));
    let drawn = picture(&page, &[], (100, 14)).join("\n");
    for text in ["default/rack-1 Quarantined", "Problem", "NotClean", "files are left in /var/lib"] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
}

#[test]
fn a_lost_connection_and_what_cannot_be_read_are_reported() {
    let lost = Status { outage: Some((now(), owned("connection refused"))), ..status() };
    let drawn = lines(&buffer(&fleet(), &[], (100, 10), &lost, true));
    assert!(drawn[0].contains("no connection"), "{drawn:#?}");
    assert_eq!(drawn[9], " No connection for 0s; what is shown is older. connection refused");
    assert!(drawn[3].contains("bank"), "what was known stays: {drawn:#?}");
    let Content::Clusters(fleet) = fleet() else { unreachable!() };
    let notices = vec![owned("hosts are not shown: forbidden"), owned("other")];
    let drawn = picture(&Content::Clusters(Fleet { notices, ..fleet }), &[], (100, 10));
    assert_eq!(drawn[9], " hosts are not shown: forbidden (and 1 more)");
}

#[test]
fn help_lists_the_keys() {
    let drawn = picture(&fleet(), &[KeyCode::Char('?')], (100, 20)).join("\n");
    for (keys, _) in HELP {
        assert!(drawn.contains(keys), "{keys}: {drawn}");
    }
}

#[test]
fn a_small_terminal_still_works() {
    for content in [fleet(), machine(), Content::Loading, Content::Absent(owned("gone"))] {
        for width in [1, 2, 5, 20, 40] {
            for height in [1, 2, 3, 4, 5, 15] {
                for keys in [&[][..], &[KeyCode::Char('?')], &[KeyCode::Char(':'), KeyCode::Char('x')]] {
                    let drawn = picture(&content, keys, (width, height));
                    assert_eq!(drawn.len(), usize::from(height));
                }
            }
        }
    }
    let drawn = picture(&fleet(), &[KeyCode::Down], (30, 6));
    assert!(drawn[0].contains("Clusters") && drawn.iter().any(|line| line.starts_with('>')), "{drawn:#?}");
}

#[test]
fn without_colour_nothing_is_coloured() {
    let has_color = |color| {
        let drawn = buffer(&machine(), &[], (100, 40), &status(), color);
        drawn.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(has_color(true) && !has_color(false));
}

/// Every text of every view, from a machine that is hostile.
fn hostile() -> Vec<Content> {
    let text = || HOSTILE.repeat(20);
    let waiting =
        || Some(Waiting { object: text(), reason: text(), message: text(), since: None, owner: text() });
    let conditions = || {
        let condition = Condition {
            type_: text(),
            status: text(),
            reason: text(),
            message: text(),
            ..Condition::default()
        };
        vec![ConditionList { object: text(), conditions: vec![condition] }]
    };
    let events =
        || vec![Event { object: text(), reason: text(), message: text(), count: 2, ..Event::default() }];
    let facts = || vec![Fact { label: text(), value: text() }];
    let handoffs =
        || vec![HandOff { what: text(), state: owned("waiting"), object: text(), waiting: waiting() }];
    let cluster = || ClusterRow {
        namespace: text(),
        name: text(),
        version: text(),
        phase: text(),
        health: text(),
        servers: text(),
        workers: text(),
        waiting: waiting(),
        ..ClusterRow::default()
    };
    let host = || HostRow {
        namespace: text(),
        name: text(),
        state: text(),
        address: text(),
        domain: text(),
        cluster: text(),
        machine: text(),
        reason: text(),
        problem: text(),
        ..HostRow::default()
    };
    let count = || vec![Count { label: text(), count: 1, tone: Tone::Bad }];
    let row = MachineRow {
        namespace: text(),
        name: text(),
        cluster: text(),
        phase: text(),
        version: text(),
        node: text(),
        host: text(),
        waiting: waiting(),
        ..MachineRow::default()
    };
    let plan = PlanProgress {
        digest: text(),
        phase: text(),
        steps: vec![PlanStep { name: text(), state: text() }],
        message: text(),
        stdout: text(),
        stderr: text(),
        change: text(),
        ..PlanProgress::default()
    };
    vec![
        Content::Clusters(Fleet {
            totals: count(),
            clusters: vec![cluster()],
            notices: vec![text()],
            ..Fleet::default()
        }),
        Content::Machines(Box::new(Machines {
            cluster: Some(cluster()),
            machines: vec![row],
            notices: vec![text()],
        })),
        Content::Hosts(Hosts {
            hosts: vec![host()],
            states: count(),
            notices: vec![text()],
            ..Hosts::default()
        }),
        Content::Cluster(Box::new(ClusterPage {
            row: cluster(),
            endpoint: text(),
            versions: count(),
            machine: Some(text()),
            handoffs: handoffs(),
            chain: waiting().into_iter().collect(),
            conditions: conditions(),
            events: events(),
            rollouts: vec![Rollout {
                object: text(),
                progress: text(),
                waits: text(),
                turns: vec![RolloutMachineRow {
                    machine: text(),
                    turn: text(),
                    doing: text(),
                    ..RolloutMachineRow::default()
                }],
                changes: vec![MachineChange {
                    machine: text(),
                    change: text(),
                    state: text(),
                    ..MachineChange::default()
                }],
                revisions: vec![Revision { set: text(), version: text(), ..Revision::default() }],
                ..Rollout::default()
            }],
            ..ClusterPage::default()
        })),
        Content::Machine(Box::new(MachinePage {
            namespace: text(),
            name: text(),
            cluster: text(),
            host: Some(text()),
            version: text(),
            phase: text(),
            node: text(),
            handoffs: handoffs(),
            plan: Some(plan),
            probes: vec![Probe { name: text(), message: text(), ..Probe::default() }],
            facts: facts(),
            ledger: Some(LedgerView {
                total: 1,
                items: vec![LedgerLine { kind: text(), name: text(), reset: text() }],
            }),
            conditions: conditions(),
            events: events(),
            ..MachinePage::default()
        })),
        Content::Host(Box::new(HostPage {
            row: host(),
            facts: facts(),
            conditions: conditions(),
            events: events(),
            ..HostPage::default()
        })),
        Content::Absent(text()),
    ]
}

#[test]
fn hostile_text_steers_nothing() {
    let lost = Status { place: HOSTILE.to_owned(), outage: Some((now(), HOSTILE.to_owned())) };
    for content in hostile() {
        for status in [&status(), &lost] {
            for keys in [&[][..], &[KeyCode::Enter]] {
                let drawn = buffer(&content, keys, (120, 60), status, true);
                let text = lines(&drawn).join("\n");
                let is_steering =
                    |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
                assert!(!text.contains(is_steering), "{text:?}");
                for rest in ["owned", "[2J", "[31m", "]0;"] {
                    assert!(!text.contains(rest), "{rest} is left: {text:?}");
                }
                assert!(text.contains("evil"), "the readable part is shown: {text}");
            }
        }
    }
}
