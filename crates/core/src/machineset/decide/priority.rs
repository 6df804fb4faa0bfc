//! Which Machines go first when there are too many. Pure.

use capstan_api::conditions::is_false;
use capstan_api::core::{Machine, MachineSetDeletionOrder};
use capstan_api::meta::annotations;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::machine::{has_node, is_annotated, is_deleting, is_unhealthy, is_updating};
use crate::names::machine::types;

const ALREADY_DELETING: f64 = 100.0;
const MARKED_BY_USER: f64 = 80.0;
/// Better than finishing an update of a machine that is not needed.
const UPDATING_IN_PLACE: f64 = 75.0;
const UNHEALTHY: f64 = 50.0;
const ANY: f64 = 20.0;
const LAST: f64 = 0.0;

const TEN_DAYS_IN_SECONDS: f64 = 864_000.0;

/// All machines, in the order in which they are deleted.
pub fn first_to_go(machines: &[Machine], order: MachineSetDeletionOrder, now: Timestamp) -> Vec<&Machine> {
    let mut sorted: Vec<(f64, &Machine)> =
        machines.iter().map(|machine| (priority(machine, order, now), machine)).collect();
    sorted.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.name_any().cmp(&other.name_any())));
    sorted.into_iter().map(|(_, machine)| machine).collect()
}

fn priority(machine: &Machine, order: MachineSetDeletionOrder, now: Timestamp) -> f64 {
    if is_deleting(machine) {
        return ALREADY_DELETING;
    }
    if is_annotated(machine, annotations::DELETE_MACHINE) {
        return MARKED_BY_USER;
    }
    if is_updating(machine) {
        return UPDATING_IN_PLACE;
    }
    if !has_node(machine) || is_false(machine, types::NODE_HEALTHY) || is_unhealthy(machine) {
        return UNHEALTHY;
    }
    match order {
        MachineSetDeletionOrder::Random => ANY,
        MachineSetDeletionOrder::Oldest => by_age(machine, now),
        MachineSetDeletionOrder::Newest => UNHEALTHY - by_age(machine, now),
    }
}

/// Grows with the age, and never reaches what makes a machine unhealthy.
fn by_age(machine: &Machine, now: Timestamp) -> f64 {
    let Some(created) = &machine.metadata.creation_timestamp else { return LAST };
    let age = now.duration_since(created.0).as_secs_f64();
    if age < 0.0 { LAST } else { UNHEALTHY * (1.0 - (-age / TEN_DAYS_IN_SECONDS).exp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine;
    use MachineSetDeletionOrder::{Newest, Oldest, Random};

    fn names(machines: &[Machine], order: MachineSetDeletionOrder) -> Vec<String> {
        let now = Timestamp::from_second(1_000_000).expect("a test value");
        first_to_go(machines, order, now).iter().map(|machine| machine.name_any()).collect()
    }

    #[test]
    fn the_order_decides_among_healthy_machines() {
        let machines = [machine("b").created(300), machine("a").created(200), machine("c").created(100)]
            .map(|machine| machine.with_node().done());
        assert_eq!(names(&machines, Random), ["a", "b", "c"]);
        assert_eq!(names(&machines, Oldest), ["c", "a", "b"]);
        assert_eq!(names(&machines, Newest), ["b", "a", "c"]);
    }

    #[test]
    fn some_go_first_whatever_the_order() {
        let healthy = || machine("x").created(1).with_node();
        let machines = [
            healthy().named("1-healthy").done(),
            machine("2-no-node").created(1).done(),
            healthy().named("3-node-sick").condition("NodeHealthy", false).done(),
            healthy().named("4-unhealthy").condition("HealthCheckSucceeded", false).done(),
            healthy()
                .named("5-updating")
                .annotated("in-place-updates.internal.cluster.x-k8s.io/update-in-progress")
                .done(),
            healthy().named("6-marked").annotated("cluster.x-k8s.io/delete-machine").done(),
            healthy().named("7-deleting").deleting().done(),
        ];
        for order in [Random, Oldest, Newest] {
            let expected = [
                "7-deleting",
                "6-marked",
                "5-updating",
                "2-no-node",
                "3-node-sick",
                "4-unhealthy",
                "1-healthy",
            ];
            assert_eq!(names(&machines, order), expected, "{order:?}");
        }
    }

    #[test]
    fn a_machine_from_the_future_goes_last() {
        let machines = [machine("future").created(9_999_999), machine("old").created(1)]
            .map(|machine| machine.with_node().done());
        assert_eq!(names(&machines, Oldest), ["old", "future"]);
    }
}
