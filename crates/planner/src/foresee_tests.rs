//! Changes, thought through.

use super::*;
use crate::facts::{EtcdView, LocalVolumes};
use crate::knowledge::Knowledge;
use crate::machines::{self, Limits, Wanted};

const NEW: &str = "v1.36.1+k3s1";

fn outdated(name: &str, born: i64, cost: Cost) -> MachineFacts {
    MachineFacts::server(name)
        .up()
        .born(born)
        .with(|m| m.changes = vec![Change::new("spec.version", cost, "so")])
}

fn three(cost: Cost) -> Vec<MachineFacts> {
    vec![outdated("a", 2, cost), outdated("b", 1, cost), outdated("c", 3, cost)]
}

fn played(mut servers: Vec<MachineFacts>, replicas: usize, may_replace: bool) -> Foresight {
    let mut foresight = Foresight::default();
    let no_volumes = Knowledge::Known(LocalVolumes::new());
    let future = Future { version: NEW, now: Timestamp::from_second(100).expect("a time"), rounds: 100 };
    play(&mut servers, &mut foresight, future, |servers, _| {
        let etcd = EtcdView::Known(members(servers));
        let wanted = Wanted {
            replicas,
            domains: Vec::new(),
            begun: None,
            impossible: Vec::new(),
            may_replace,
            initialized: true,
            volumes: &no_volumes,
            endpoint: "",
            etcd: &etcd,
            exhausted: BTreeSet::new(),
            spare: Knowledge::default(),
            remediation: Limits::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        machines::decide(servers, &wanted)
    });
    foresight.servers = servers;
    foresight
}

fn update(name: &str) -> ForeseenStep {
    ForeseenStep::Update(name.to_owned())
}

fn delete(name: &str) -> ForeseenStep {
    ForeseenStep::Delete(name.to_owned())
}

#[test]
fn machines_are_changed_one_after_the_other_and_oldest_first() {
    let foresight = played(three(Cost::DrainAndRestart), 3, false);
    assert_eq!(foresight.steps, [update("b"), update("a"), update("c")]);
    assert!(foresight.refused.is_empty() && foresight.waits.is_empty());
    assert_eq!(foresight.holds_back(NEW), None);
    assert!(foresight.holds_back("v1.36.2+k3s1").is_some_and(|why| why.contains("v1.36.2")));
}

#[test]
fn machines_come_and_go_with_their_number() {
    let well = |names: &[&str]| -> Vec<MachineFacts> {
        (0..).zip(names).map(|(born, name)| MachineFacts::server(name).up().born(born)).collect()
    };
    assert_eq!(played(well(&["a", "b", "c"]), 3, false).steps, []);
    assert_eq!(played(well(&["a"]), 3, false).steps, [ForeseenStep::Create, ForeseenStep::Create]);
    assert_eq!(played(well(&["a", "b", "c"]), 1, false).steps, [delete("a"), delete("b")]);
    assert_eq!(played(vec![], 1, false).steps, [ForeseenStep::Create]);
    // Two bear no restart, so the third comes first.
    let grows = vec![outdated("a", 1, Cost::Restart), outdated("b", 2, Cost::Restart)];
    assert_eq!(played(grows, 3, false).steps, [ForeseenStep::Create, update("a"), update("b")]);
}

#[test]
fn what_cannot_be_done_in_place_is_refused_or_replaced() {
    let foresight = played(three(Cost::Replace), 3, false);
    assert_eq!((foresight.steps.len(), foresight.refused.len()), (0, 1));
    let one = ForeseenStep::Create;
    let replaced = [one.clone(), delete("b"), one.clone(), delete("a"), one, delete("c")];
    assert_eq!(played(three(Cost::Replace), 3, true).steps, replaced);
    assert_eq!(played(three(Cost::Refused), 3, true).refused.len(), 1);
}

#[test]
fn what_is_under_way_is_waited_for() {
    let mut servers = three(Cost::Restart);
    servers[2].has_node = false;
    servers[2].changes.clear();
    let foresight = played(servers, 3, false);
    assert_eq!(foresight.waits, ["waits for Machine c to be up"]);
    assert_eq!(foresight.steps, [update("b"), update("a")]);
}
