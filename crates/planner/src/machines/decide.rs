//! Which machines a control plane should gain, lose or change next. One step at a time.

use jiff::Timestamp;
use std::collections::BTreeSet;

use super::remediation::{self, Limits, Remediated};
use crate::annotations::{DELETE_MACHINE, HOLD};
use crate::change::{Change, Cost};
use crate::etcd::quorum;
use crate::facts::{EtcdView, LocalVolumes, MachineFacts};
use crate::grounds::Grounds;
use crate::knowledge::Knowledge;
use crate::spare::Spare;
use crate::text::listed;
use crate::wait::Wait;

/// Inputs of the decision besides the machines.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Desired number of machines.
    pub replicas: usize,
    /// Failure domains that control plane machines may be placed in.
    pub domains: Vec<&'a str>,
    /// The name of a machine whose creation has begun.
    pub begun: Option<&'a str>,
    /// Fields that no machine can have.
    pub impossible: Vec<Change>,
    /// Whether machines that cannot be changed in place may be replaced.
    pub may_replace: bool,
    /// Whether the cluster is initialized.
    pub initialized: bool,
    /// Volumes that are lost with their machine.
    pub volumes: &'a Knowledge<LocalVolumes>,
    /// The control plane endpoint: the machine with this address is deleted last.
    pub endpoint: &'a str,
    /// The members of etcd.
    pub etcd: &'a EtcdView,
    /// Machines that no healing step has cured.
    pub exhausted: BTreeSet<String>,
    /// Where the replacement of a machine comes from.
    pub spare: Knowledge<Spare>,
    /// Limits for the replacement of unhealthy machines.
    pub remediation: Limits<'a>,
    /// The current time.
    pub now: Timestamp,
}

/// The next step for the machines of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineStep {
    /// Nothing.
    Nothing,
    /// Create a machine.
    Create {
        /// Where it is placed.
        failure_domain: Option<String>,
    },
    /// Abandon a machine whose creation has begun.
    GiveUp(String),
    /// Delete a machine.
    Delete {
        /// Which.
        machine: String,
        /// Why it may be.
        grounds: Grounds,
    },
    /// Delete an unhealthy machine, and record it.
    Remediate {
        /// Which.
        machine: String,
        /// What is written down.
        record: Remediated,
        /// Why it may be.
        grounds: Grounds,
    },
    /// Write the desired state of the machine.
    Update(String),
    /// Wait, and what for.
    Wait(Wait),
    /// The spec cannot be applied because of these fields. Nothing is changed.
    Refuse(Vec<Change>),
}

/// The next step. `machines` are those of this control plane.
pub fn decide(machines: &[MachineFacts], wanted: &Wanted<'_>) -> MachineStep {
    let refused: Vec<Change> =
        wanted.impossible.iter().cloned().chain(refused(machines, wanted.may_replace)).collect();
    if !refused.is_empty() {
        return MachineStep::Refuse(refused);
    }
    let staying: Vec<&MachineFacts> = machines.iter().filter(|machine| !machine.deleting).collect();
    // One that has left etcd is no part of the control plane any more: its host may never answer again.
    let is_leaving = |machine: &&MachineFacts| machine.deleting && !machine.has_left(wanted.etcd);
    if let Some(leaving) = machines.iter().find(is_leaving) {
        return match staying.is_empty() && wanted.initialized {
            // It has to stay until there is another one that etcd's data can go to.
            true => grow(&staying, wanted),
            false => MachineStep::Wait(format!("waits for Machine {} to be deleted", leaving.name)),
        };
    }
    let begun = wanted.begun.filter(|name| staying.iter().all(|machine| machine.name != *name));
    // One more than wanted, for as long as one of the others is to be replaced.
    let to_replace = staying.iter().any(|machine| is_to_be_replaced(machine));
    let most = wanted.replicas + usize::from(to_replace);
    if let Some(name) = begun.filter(|_| staying.len() >= most) {
        return MachineStep::GiveUp(name.to_owned());
    }
    if let Some(step) = remediation::decide(&staying, wanted) {
        return step;
    }
    let window = replacement_window(&staying, wanted.now);
    if staying.len() > wanted.replicas.max(1) {
        return match window.filter(|_| staying.len() <= most) {
            Some(wait) => MachineStep::Wait(wait),
            None => shrink(&staying, wanted),
        };
    }
    // Two members bear no restart: a control plane on its way from one to three gets there first.
    let is_between = staying.len() == 2 && wanted.replicas > 2;
    if let Some(step) = update(&staying).filter(|_| !is_between) {
        return step;
    }
    if staying.len() < most {
        return match window.filter(|_| staying.len() >= wanted.replicas) {
            Some(wait) => MachineStep::Wait(wait),
            None => grow(&staying, wanted),
        };
    }
    MachineStep::Nothing
}

/// Why no machine is replaced now: all that are to be replaced wait for a maintenance window.
fn replacement_window(staying: &[&MachineFacts], now: Timestamp) -> Option<Wait> {
    let mut awaited = staying.iter().filter(|machine| is_to_be_replaced(machine)).map(|machine| {
        machine.awaited_window(now).map(|closed| format!("Machine {} {}", machine.name, closed.why))
    });
    awaited.try_fold(None, |first, wait| Some(first.or(Some(wait?)))).flatten()
}

/// Every change that cannot be made in place, once. What takes another machine is not refused where the user allows
/// that.
fn refused(machines: &[MachineFacts], may_replace: bool) -> Vec<Change> {
    let mut refused: Vec<Change> = Vec::new();
    let changes = machines.iter().filter(|machine| !machine.deleting).flat_map(|machine| &machine.changes);
    let stops =
        |change: &&Change| change.cost == Cost::Refused || change.cost == Cost::Replace && !may_replace;
    for change in changes.filter(stops) {
        if !refused.contains(change) {
            refused.push(change.clone());
        }
    }
    refused
}

fn is_to_be_replaced(machine: &MachineFacts) -> bool {
    machine.changes.iter().any(|change| change.cost == Cost::Replace)
}

/// The oldest machine that differs, once all others are up. One that is itself in trouble may be told something
/// better. One that is to be replaced is told nothing any more.
fn update(staying: &[&MachineFacts]) -> Option<MachineStep> {
    let outdated = |machine: &&&MachineFacts| {
        !machine.changes.is_empty() && !is_to_be_replaced(machine) && !machine.is_kept_out
    };
    let in_trouble = |machine: &&&MachineFacts| (machine.is_up(), machine.created, machine.name.clone());
    let next = staying.iter().filter(outdated).min_by_key(in_trouble)?;
    // One at its gate may wait for the Node of the one in trouble to be Ready.
    let is_fine = |other: &MachineFacts| match next.is_up() {
        true => other.is_up(),
        false => other.is_steady(),
    };
    let busy = |other: &&&MachineFacts| other.name != next.name && (!is_fine(other) || other.is_cordoned());
    Some(match staying.iter().find(busy) {
        Some(other) => MachineStep::Wait(other.not_up()),
        None => MachineStep::Update(next.name.clone()),
    })
}

/// Whoever has the cluster's own address goes last. Of the others: the one that somebody asked for, else one that is to
/// be replaced, else one that is in trouble, else one of the fullest failure domain, else the oldest. And only while
/// etcd can bear it.
fn shrink(staying: &[&MachineFacts], wanted: &Wanted<'_>) -> MachineStep {
    let crowd = |machine: &MachineFacts| {
        staying.iter().filter(|other| other.failure_domain == machine.failure_domain).count()
    };
    let order = |machine: &&&MachineFacts| {
        let stays_put = machine.addresses.iter().any(|address| address == wanted.endpoint);
        let is_worse = (machine.delete_first, is_to_be_replaced(machine), !machine.is_up());
        (stays_put, std::cmp::Reverse((is_worse, crowd(machine))), machine.created, machine.name.clone())
    };
    let mut held = Vec::new();
    let mut candidates: Vec<&&MachineFacts> = staying.iter().collect();
    candidates.sort_by_key(order);
    let free = candidates.iter().find(|machine| match holds(machine, wanted) {
        None => true,
        Some(why) => {
            held.push(why);
            false
        }
    });
    let Some(next) = free else {
        return MachineStep::Wait(format!("no machine is taken away: {}", held.join("; ")));
    };
    if let Some(other) = staying.iter().find(|other| other.name != next.name && !other.is_steady()) {
        return MachineStep::Wait(other.not_up());
    }
    match may_lose(next, wanted) {
        Ok(grounds) => MachineStep::Delete { machine: next.name.clone(), grounds },
        Err(why) => MachineStep::Wait(format!("cannot take Machine {} away: {why}", next.name)),
    }
}

/// Why a machine is not taken away although there are too many: the user keeps it, or volumes of users are on it and the
/// policy does not allow that it is lost. The user may name one.
fn holds(machine: &MachineFacts, wanted: &Wanted<'_>) -> Option<String> {
    if machine.is_kept_out {
        return Some(format!("Machine {} has the annotation {}", machine.name, HOLD));
    }
    if machine.delete_first || wanted.may_replace || !wanted.initialized || !machine.has_node {
        return None;
    }
    let remedy = format!(
        "annotate the Machine that should go with {DELETE_MACHINE}, or set spec.rollout.strategy.type to InPlaceOrReplace"
    );
    match wanted.volumes {
        Knowledge::Unknown(why) => {
            Some(format!("it is not known which volumes are on Machine {}: {why}; {remedy}", machine.name))
        }
        Knowledge::Known(volumes) => volumes.get(machine.node_name()).map(|volumes| {
            let volumes = listed(volumes, 3);
            format!("volumes of users are on Machine {} ({volumes}): {remedy}", machine.name)
        }),
    }
}

/// On which grounds a machine may be deleted: etcd can do without it.
pub(super) fn may_lose(machine: &MachineFacts, wanted: &Wanted<'_>) -> Result<Grounds, String> {
    if !wanted.initialized {
        return Ok(Grounds::asked("the cluster has not begun"));
    }
    if let EtcdView::Unknown(why) = wanted.etcd {
        return Err(format!("it is not known how etcd is: {why}"));
    }
    Grounds::observed(wanted.etcd, |members| {
        let member = quorum::member_of(members, machine.node_name(), &machine.addresses);
        member.map_or(Ok(()), |member| quorum::may_remove(members, member))?;
        Ok("etcd can do without it".to_owned())
    })
}

/// One more, once those that are there are well.
fn grow(staying: &[&MachineFacts], wanted: &Wanted<'_>) -> MachineStep {
    if let Some(machine) = staying.iter().find(|machine| !machine.is_steady()) {
        return MachineStep::Wait(machine.not_up());
    }
    if wanted.initialized {
        let may_add = match wanted.etcd {
            EtcdView::Known(members) => quorum::may_add(members),
            EtcdView::Unknown(why) => Err(format!("it is not known how etcd is: {why}")),
        };
        if let Err(why) = may_add {
            return MachineStep::Wait(format!("no machine is added: {why}"));
        }
    }
    MachineStep::Create { failure_domain: domain(staying, &wanted.domains) }
}

/// The domain with the fewest machines; the first by name among equals.
fn domain(staying: &[&MachineFacts], domains: &[&str]) -> Option<String> {
    let load = |domain: &&&str| {
        let there =
            staying.iter().filter(|machine| machine.failure_domain.as_deref() == Some(**domain)).count();
        (there, (**domain).to_owned())
    };
    domains.iter().min_by_key(load).map(|domain| (*domain).to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::facts::Progress;
    use crate::facts::fixtures::{members, ready};
    use crate::plans::Setup;
    use crate::windows::{Maintenance, Schedule};

    pub(crate) fn up(name: &str) -> MachineFacts {
        MachineFacts::server(name).up()
    }

    fn outdated(machine: MachineFacts, cost: Cost) -> MachineFacts {
        machine.with(|m| m.changes.push(Change::new("spec.version", cost, "because")))
    }

    /// Members of all machines, all of them well.
    pub(crate) fn well(machines: &[MachineFacts]) -> EtcdView {
        EtcdView::Known(members(&machines.iter().map(|m| format!("{}+ ", m.name)).collect::<String>()))
    }

    pub(crate) fn wanted(replicas: usize, etcd: &EtcdView) -> Wanted<'_> {
        Wanted {
            replicas,
            domains: Vec::new(),
            begun: None,
            impossible: Vec::new(),
            may_replace: false,
            initialized: true,
            volumes: no_volumes(),
            endpoint: "10.0.0.10",
            etcd,
            exhausted: BTreeSet::new(),
            spare: Knowledge::default(),
            remediation: Limits::default(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    pub(crate) fn no_volumes() -> &'static Knowledge<LocalVolumes> {
        const { &Knowledge::Known(LocalVolumes::new()) }
    }

    pub(crate) fn described(step: MachineStep) -> String {
        match step {
            MachineStep::Nothing => "nothing".to_owned(),
            MachineStep::Create { .. } => "create".to_owned(),
            MachineStep::GiveUp(name) => format!("give up {name}"),
            MachineStep::Delete { machine, .. } => format!("delete {machine}"),
            MachineStep::Remediate { machine, .. } => format!("remediate {machine}"),
            MachineStep::Update(name) => format!("update {name}"),
            MachineStep::Wait(why) => why,
            MachineStep::Refuse(changes) => format!("refuse {}", changes[0].field),
        }
    }

    fn step(machines: &[MachineFacts], replicas: usize) -> String {
        described(decide(machines, &wanted(replicas, &well(machines))))
    }

    /// Two members bear no restart: the one at its gate waits for the third.
    #[test]
    fn one_that_may_have_been_stopped_is_well_if_etcd_hears_of_it() {
        let stopped = up("b").says(Progress::AtGate).with(|machine| {
            let record = &mut machine.plan.as_mut().expect("a plan").record;
            (record.setup.restart, record.ran) = ("new".to_owned(), Some(Setup::default()));
        });
        assert_eq!(step(&[up("a"), stopped.clone()], 3), "waits for Machine b to be up");
        let heard_of = stopped.with(|machine| machine.is_heard_of = true);
        assert_eq!(step(&[up("a"), heard_of.clone()], 3), "create");
        assert_eq!(step(&[up("a"), heard_of.says(Progress::InFlight)], 3), "waits for Machine b to be up");
    }

    #[test]
    fn machines_come_one_after_the_other() {
        assert_eq!(step(&[], 3), "create");
        let new = MachineFacts::server("a").provisioned();
        assert_eq!(step(&[new], 3), "waits for Machine a to be up");
        assert_eq!(step(&[up("a")], 3), "create");
        let joining = MachineFacts::server("b").planned(1, "a");
        assert_eq!(step(&[up("a"), joining], 3), "waits for Machine b to be up");
        assert_eq!(step(&[up("a"), up("b"), up("c")], 3), "nothing");
        assert_eq!(step(&[up("a"), up("b").leaving()], 3), "waits for Machine b to be deleted");
        // The last one can only leave etcd to somebody else.
        assert_eq!(step(&[up("a").leaving()], 1), "create");
        let etcd = EtcdView::Known(members("a-"));
        assert!(
            described(decide(&[up("a").leaving()], &wanted(1, &etcd))).starts_with("no machine is added")
        );
    }

    #[test]
    fn nobody_joins_an_etcd_that_is_not_well() {
        let machines = [up("a"), up("b")];
        for (etcd, why) in [
            (EtcdView::Known(members("a+ b~")), "no machine is added: etcd member b"),
            (EtcdView::Known(members("a+ b-")), "no machine is added: etcd member b"),
            (
                EtcdView::Unknown("no way there".to_owned()),
                "no machine is added: it is not known how etcd is",
            ),
        ] {
            assert!(described(decide(&machines, &wanted(3, &etcd))).starts_with(why));
        }
        // Before there is a cluster, nobody asks.
        let unknown = EtcdView::Unknown(String::new());
        let begins = Wanted { initialized: false, ..wanted(3, &unknown) };
        assert_eq!(described(decide(&[], &begins)), "create");
    }

    #[test]
    fn machines_go_one_after_the_other() {
        let three = || vec![up("a").born(1), up("b").born(2), up("c").born(3)];
        assert_eq!(step(&three(), 1), "delete a");
        let mut asked = three();
        asked[1].delete_first = true;
        assert_eq!(step(&asked, 1), "delete b");
        let mut ill = three();
        ill[1].has_node = false;
        assert_eq!(step(&ill, 1), "delete b");
        ill[2].has_node = false;
        assert_eq!(step(&ill, 1), "waits for Machine c to be up");
        let mut lost = three();
        lost[1].node = ready(false);
        lost[2].node = ready(false);
        assert_eq!(step(&lost, 1), "waits for Node c to be Ready");
        let mut going = three();
        going[2].deleting = true;
        assert_eq!(step(&going, 1), "waits for Machine c to be deleted");
        // The last one is never taken away by scaling.
        assert_eq!(step(&[up("a")], 0), "nothing");
    }

    #[test]
    fn who_goes_keeps_the_domains_even_and_the_endpoint_where_it_is() {
        let at = |name: &str, domain: &str| up(name).with(|m| m.failure_domain = Some(domain.to_owned()));
        let machines = [at("a", "x").born(1), at("b", "y").born(2), at("c", "y").born(3)];
        assert_eq!(step(&machines, 1), "delete b");
        let mut endpoint = machines.to_vec();
        endpoint[1].addresses = vec!["10.0.0.10".to_owned()];
        assert_eq!(step(&endpoint, 1), "delete c");
        endpoint[1].delete_first = true;
        assert_eq!(step(&endpoint, 1), "delete c", "nobody could reach the cluster any more");
    }

    #[test]
    fn nobody_goes_whom_etcd_needs() {
        let three = [up("a").born(1), up("b").born(2), up("c").born(3)];
        let with = |etcd: &EtcdView| described(decide(&three, &wanted(1, etcd)));
        assert_eq!(with(&EtcdView::Known(members("a+ b+ c+"))), "delete a");
        assert!(
            with(&EtcdView::Known(members("a+ b+ c-"))).starts_with("cannot take Machine a away: of the 2")
        );
        // Not a member any more: nothing to lose.
        assert_eq!(with(&EtcdView::Known(members("b+ c-"))), "delete a");
        assert!(with(&EtcdView::Unknown("no way".to_owned())).ends_with("no way"));
    }

    /// The host of a deleted Machine may never be reset.
    #[test]
    fn a_machine_that_has_left_etcd_holds_nothing_up() {
        let gone = || up("c").leaving();
        let decided = |etcd: &EtcdView, machine: MachineFacts| {
            described(decide(&[up("a"), up("b"), machine], &wanted(3, etcd)))
        };
        assert_eq!(decided(&EtcdView::Known(members("a+ b+")), gone()), "create");
        assert_eq!(
            decided(&EtcdView::Known(members("a+ b+ c-")), gone()),
            "waits for Machine c to be deleted"
        );
        let unknown = EtcdView::Unknown("no way".to_owned());
        assert_eq!(decided(&unknown, gone()), "waits for Machine c to be deleted");
        let still_leaving = gone().with(|m| m.hook = crate::facts::Hook::Awaited);
        let left = EtcdView::Known(members("a+ b+"));
        assert_eq!(decided(&left, still_leaving), "waits for Machine c to be deleted");
    }

    #[test]
    fn a_server_with_data_is_taken_away_only_if_the_user_names_it() {
        let three = || vec![up("a").born(1), up("b").born(2), up("c").born(3)];
        let etcd = EtcdView::Known(members("a+ b+ c+"));
        let on = |nodes: &[&str]| {
            let volumes = nodes.iter().map(|node| ((*node).to_owned(), vec!["pvc-1".to_owned()]));
            Knowledge::Known(volumes.collect::<LocalVolumes>())
        };
        let step = |machines: &[MachineFacts], volumes: &Knowledge<LocalVolumes>| {
            described(decide(machines, &Wanted { volumes, ..wanted(1, &etcd) }))
        };
        assert_eq!(step(&three(), &on(&["a"])), "delete b");
        let held = step(&three(), &on(&["a", "b", "c"]));
        assert!(held.contains("volumes of users are on Machine a (pvc-1)"), "{held}");
        assert!(step(&three(), &Knowledge::unknown("no answer")).contains("no answer"));
        let mut named = three();
        named[2].delete_first = true;
        assert_eq!(step(&named, &on(&["a", "b", "c"])), "delete c");
        let mut kept = three();
        kept[0].is_kept_out = true;
        assert_eq!(step(&kept, no_volumes()), "delete b");
    }

    #[test]
    fn a_node_that_is_not_ready_stops_the_next_server() {
        let old = |name| outdated(up(name), Cost::Restart);
        let not_ready = up("a").lost();
        assert_eq!(step(&[not_ready, old("b"), up("c")], 3), "waits for Node a to be Ready");
        let unknown = up("a").with(|m| m.node = Knowledge::unknown("no answer"));
        assert!(step(&[unknown, old("b"), up("c")], 3).ends_with("no answer"));
        // The one in trouble gets what may cure it, although another waits at its gate for it.
        let ill = outdated(up("a"), Cost::Restart).lost();
        let held = up("b").says(Progress::AtGate).with(|m| {
            let record = &mut m.plan.as_mut().expect("a plan").record;
            record.setup.restart = "new".to_owned();
            record.ran = Some(Setup { restart: "old".to_owned(), ..Setup::default() });
        });
        assert_eq!(step(&[ill, held, up("c")], 3), "update a");
    }

    #[test]
    fn changes_reach_one_machine_at_a_time() {
        let old = |name| outdated(up(name), Cost::Restart);
        assert_eq!(step(&[old("a")], 1), "update a");
        assert_eq!(step(&[old("a").born(2), old("b").born(1), up("c")], 3), "update b");
        let busy = up("a").with(|m| m.kubelet_version = Some("v1.35.0".to_owned()));
        assert_eq!(step(&[busy.clone(), old("b"), up("c")], 3), "waits for Machine a to be up");
        let cordoned = up("a").cordoned();
        assert_eq!(step(&[cordoned, old("b"), up("c")], 3), "waits for Machine a to be up");
        // A machine that failed with the last change gets the next one first.
        let failed = outdated(busy, Cost::Restart).born(9);
        assert_eq!(step(&[old("b").born(0), failed, up("c")], 3), "update a");
        // Two of three cannot be restarted without losing the majority: the third comes first.
        assert_eq!(step(&[old("a"), old("b")], 3), "create");
    }

    #[test]
    fn what_cannot_be_done_in_place_is_refused_and_nothing_is_touched() {
        for cost in [Cost::Replace, Cost::Refused] {
            assert_eq!(step(&[outdated(up("a"), cost)], 3), "refuse spec.version");
            assert_eq!(step(&[up("a"), up("b"), outdated(up("c"), cost)], 1), "refuse spec.version");
        }
        for cost in [Cost::Nothing, Cost::Live, Cost::Restart, Cost::DrainAndRestart] {
            assert_eq!(step(&[outdated(up("a"), cost)], 1), "update a");
        }
        let impossible = Change::new("spec.config.settings.server", Cost::Refused, "no");
        for machines in [vec![], vec![outdated(up("a"), Cost::Restart)]] {
            let etcd = well(&machines);
            let wanted = Wanted { impossible: vec![impossible.clone()], ..wanted(3, &etcd) };
            assert_eq!(decide(&machines, &wanted), MachineStep::Refuse(vec![impossible.clone()]));
        }
        // The same field of three machines is named once.
        let three = [outdated(up("a"), Cost::Refused), outdated(up("b"), Cost::Refused)];
        let step = decide(&three, &wanted(3, &well(&three)));
        assert!(matches!(step, MachineStep::Refuse(changes) if changes.len() == 1));
    }

    #[test]
    fn machines_are_replaced_only_where_the_user_allows_it() {
        let step = |machines: &[MachineFacts]| {
            let etcd = well(machines);
            described(decide(machines, &Wanted { may_replace: true, ..wanted(3, &etcd) }))
        };
        let replace = |name: &str| outdated(up(name), Cost::Replace);
        assert_eq!(step(&[replace("a"), up("b"), up("c")]), "create");
        assert_eq!(step(&[replace("a").born(5), up("b"), up("c"), up("d")]), "delete a");
        assert_eq!(step(&[up("b"), up("c"), up("d")]), "nothing");
        assert_eq!(step(&[outdated(up("a"), Cost::Refused), up("b"), up("c")]), "refuse spec.version");
    }

    #[test]
    fn machines_are_replaced_in_maintenance_windows_only() {
        let windows = |text: &str| Maintenance { host: Schedule::read("h", [text]), ..Maintenance::ANY_TIME };
        // The time of these tests is a Thursday at midnight.
        let (open, closed) = (windows("Thu 00:00-06:00 UTC"), windows("Fri 02:00-06:00 UTC"));
        let etcd = well(&[up("a"), up("b"), up("c"), up("d")]);
        let step = |machines: &[MachineFacts], replicas: usize| {
            described(decide(machines, &Wanted { may_replace: true, ..wanted(replicas, &etcd) }))
        };
        let replace = |name: &str, maintenance: &Maintenance| {
            outdated(up(name), Cost::Replace).with(|machine| machine.maintenance = maintenance.clone())
        };
        let waits = "Machine a waits for its maintenance window, which opens at 1970-01-02T02:00:00Z; now h is closed";
        let others = || [up("b"), up("c")];
        for (case, first, expected) in [
            ("open", replace("a", &open), "create"),
            ("closed", replace("a", &closed), waits),
            ("closed, and broken", replace("a", &closed).with(|m| m.is_unhealthy = true), "create"),
        ] {
            let [b, c] = others();
            assert_eq!(step(&[first, b, c], 3), expected, "{case}");
        }
        let [b, c] = others();
        assert_eq!(
            step(&[replace("a", &closed), replace("b", &open), c], 3),
            "create",
            "one may be replaced"
        );
        // Its window has closed before it was deleted.
        let [_, c] = others();
        assert_eq!(step(&[replace("a", &closed).born(5), b, c, up("d")], 3), waits);
        // What is no replacement does not wait.
        let [b, c] = others();
        assert_eq!(step(&[replace("a", &closed).born(5), b, c, up("d")], 1), "delete a");
        assert_eq!(step(&[replace("a", &closed)], 3), "create");
    }

    #[test]
    fn what_was_begun_is_finished_or_given_up() {
        let begun = |machines: &[MachineFacts], replicas| {
            let etcd = well(machines);
            decide(machines, &Wanted { begun: Some("n"), ..wanted(replicas, &etcd) })
        };
        assert_eq!(begun(&[], 1), MachineStep::Create { failure_domain: None });
        assert_eq!(begun(&[up("a")], 1), MachineStep::GiveUp("n".to_owned()));
        assert_eq!(begun(&[up("n")], 1), MachineStep::Nothing);
    }

    #[test]
    fn machines_are_spread_over_failure_domains() {
        let at = |name: &str, domain: &str| up(name).with(|m| m.failure_domain = Some(domain.to_owned()));
        let place = |machines: &[MachineFacts], domains: &[&'static str]| {
            let etcd = well(machines);
            decide(machines, &Wanted { domains: domains.to_vec(), ..wanted(5, &etcd) })
        };
        let create = |domain: Option<&str>| MachineStep::Create { failure_domain: domain.map(str::to_owned) };
        assert_eq!(place(&[], &[]), create(None));
        assert_eq!(place(&[], &["b", "a"]), create(Some("a")));
        assert_eq!(place(&[at("1", "a")], &["a", "b"]), create(Some("b")));
        assert_eq!(place(&[at("1", "a"), at("2", "b")], &["a", "b", "c"]), create(Some("c")));
        assert_eq!(place(&[at("1", "gone")], &["a"]), create(Some("a")));
    }
}
