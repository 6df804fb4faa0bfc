//! When Kubernetes on a machine may be restarted.
//!
//! Every plan has a gate before that. It stays closed until the machine waits there with all downloads done, so that no
//! machine is drained for a download; then pods are drained, if necessary; and then the gate is opened, if etcd keeps
//! quorum.

use jiff::{SignedDuration, Timestamp};

use crate::budget::Budgets;
use crate::etcd::quorum;
use crate::facts::{EtcdView, MachineFacts, PlanFacts, Progress};
use crate::knowledge::Knowledge;
use crate::wait::{self, Wait};
use crate::windows::Closed;

/// What to do about the gate of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing: it is open, or the machine has not reached it yet.
    Leave,
    /// It stays closed, and why.
    Wait(Wait),
    /// It stays closed until a maintenance window opens.
    Closed {
        /// Why.
        why: Wait,
        /// When the next window opens; not known if the windows cannot be read.
        opens: Option<Timestamp>,
    },
    /// Drain the Node; then the gate may be opened.
    Drain,
    /// It may be opened.
    Open,
}

/// Inputs of the decision besides the machines.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The members of etcd.
    pub etcd: &'a EtcdView,
    /// The disruption budget of each group of workers.
    pub budgets: &'a Budgets,
    /// Whether the cluster is initialized. Before that, there is no API server and no Node.
    pub begun: bool,
    /// Whether the workload cluster responds.
    pub api_responds: bool,
    /// The current time.
    pub now: Timestamp,
}

/// What to do about the gate, given all machines of the cluster.
pub fn gate(machine: &MachineFacts, all: &[MachineFacts], view: &View<'_>) -> Gate {
    let gets_plans = !machine.deleting || is_to_come_back(machine, all);
    let Some(plan) = machine.plan.as_ref().filter(|plan| plan.sound && !plan.is_open && gets_plans) else {
        return Gate::Leave;
    };
    if machine.is_kept_out {
        return Gate::Wait(wait::kept_out());
    }
    if !plan.record.restarts() {
        // Nothing is started again, or for the first time.
        return Gate::Open;
    }
    if plan.progress != Progress::AtGate {
        return Gate::Leave;
    }
    if let Some(closed) = outside_of_windows(machine, plan, view.now) {
        return closed;
    }
    if let Err(why) = may_stop(machine, all, view) {
        return Gate::Wait(why);
    }
    if !view.api_responds && may_be_down(machine, all) {
        return Gate::Open;
    }
    match plan.record.drains() && is_drained_first(machine, all, view.now) {
        true => Gate::Drain,
        false => Gate::Open,
    }
}

/// Whether the machine waits for a maintenance window. One that is down anyway, and a drain that has begun, do not wait.
fn outside_of_windows(machine: &MachineFacts, plan: &PlanFacts, now: Timestamp) -> Option<Gate> {
    if plan.record.may_be_down() || plan.drain_since.is_some() {
        return None;
    }
    let Closed { why, opens } = machine.awaited_window(now)?;
    Some(Gate::Closed { why, opens })
}

/// Whether etcd can do without the machine for a while, and the Nodes of the others are Ready; for a worker, whether the
/// budget of its group has room. A machine whose own Node is not Ready is missed no more than it is.
fn may_stop(machine: &MachineFacts, all: &[MachineFacts], view: &View<'_>) -> Result<(), Wait> {
    let may_be_down = machine.plan.as_ref().is_some_and(|plan| plan.record.may_be_down());
    if let Knowledge::Unknown(why) = &machine.node
        && view.begun
        && !may_be_down
    {
        return Err(wait::node_known(machine.node_name(), why));
    }
    if !machine.control_plane {
        // Plans are written within the budget, too, but those that have failed come again when it is their time.
        let is_away = |other: &MachineFacts| {
            let is_lost = other.has_node && other.is_known_lost();
            is_ahead_of(other, machine) || machine.is_ready() && is_lost
        };
        return view.budgets.room(machine, all, is_away).map_err(|other| match is_ahead_of(other, machine) {
            true => wait::plan_of(&other.name),
            false => wait::ready(other.node_name()),
        });
    }
    let etcd = view.etcd;
    // A server that joins for the first time cannot get on before the only member is back.
    let is_needed_by_all = is_to_come_back(machine, all);
    let others: Vec<&MachineFacts> =
        other_servers(machine, all).filter(|other| !(is_needed_by_all && other.is_joining())).collect();
    if let Some(other) = others.iter().find(|other| is_on_the_move(other, etcd)) {
        return Err(wait::plan_of(&other.name));
    }
    let is_missed = |other: &&&MachineFacts| !other.deleting && other.has_node && !other.is_ready();
    if let Some(other) = others.iter().find(is_missed).filter(|_| machine.is_ready()) {
        return Err(match &other.node {
            Knowledge::Unknown(why) => wait::node_known(other.node_name(), why),
            Knowledge::Known(_) => wait::ready(other.node_name()),
        });
    }
    match etcd {
        EtcdView::Known(members) => {
            match quorum::member_of(members, machine.node_name(), &machine.addresses) {
                Some(member) => quorum::may_stop(members, member),
                None => Ok(()),
            }
        }
        // The only one there is: nobody else could say, and nobody else would miss it.
        EtcdView::Unknown(_) if others.is_empty() => Ok(()),
        EtcdView::Unknown(why) => Err(format!("waits to know how etcd is: {why}")),
    }
}

/// Whether a worker was let through to start Kubernetes again and has not said that it is done, or is to be let through
/// before another one, because its pods have been moving away for longer.
fn is_ahead_of(worker: &MachineFacts, other: &MachineFacts) -> bool {
    let since = |machine: &MachineFacts| machine.plan.as_ref().and_then(|plan| plan.drain_since);
    let moves_first = || match (since(worker), since(other)) {
        (Some(one), Some(another)) => (one, &worker.name) < (another, &other.name),
        (one, _) => one.is_some(),
    };
    worker.plan.as_ref().is_some_and(|plan| {
        let begun = plan.sound && plan.record.restarts() && plan.progress != Progress::Applied;
        begun && (plan.is_open || moves_first())
    })
}

/// Whether a server joins or may restart at any moment. One that leaves counts as long as etcd would miss it.
fn is_on_the_move(machine: &MachineFacts, etcd: &EtcdView) -> bool {
    let is_missed = match etcd {
        EtcdView::Known(members) => {
            quorum::member_of(members, machine.node_name(), &machine.addresses).is_some()
        }
        EtcdView::Unknown(_) => true,
    };
    let has_more_to_do = machine.plan.as_ref().is_some_and(|plan| plan.progress != Progress::Applied);
    has_more_to_do && !machine.is_held() && (is_missed || !machine.deleting)
}

/// Whether the cluster may be silent because of this machine: it is the only one of the control plane, and a plan that
/// did not come to its end may have stopped it. Nobody else could bring it back, and nobody can move its pods.
fn may_be_down(machine: &MachineFacts, all: &[MachineFacts]) -> bool {
    let alone = other_servers(machine, all).all(MachineFacts::is_joining);
    machine.control_plane && alone && machine.plan.as_ref().is_some_and(|plan| plan.record.may_be_down())
}

/// Whether a machine that is being deleted still gets plans. Usually none does; but the data of etcd must be moved
/// off the last server, which a plan whose gate was opened may have stopped.
pub fn is_to_come_back(machine: &MachineFacts, all: &[MachineFacts]) -> bool {
    let may_be_stopped = |plan: &PlanFacts| {
        let was_let_through = plan.is_open && plan.record.restarts();
        plan.progress != Progress::Applied && (was_let_through || plan.record.may_be_down())
    };
    machine.deleting
        && machine.control_plane
        && other_servers(machine, all).all(MachineFacts::is_joining)
        && machine.plan.as_ref().is_some_and(may_be_stopped)
}

/// Servers that may run beside a machine. Whoever was never told to is none yet.
fn other_servers<'a>(
    machine: &MachineFacts,
    all: &'a [MachineFacts],
) -> impl Iterator<Item = &'a MachineFacts> {
    let name = machine.name.clone();
    all.iter().filter(move |other| other.control_plane && other.was_planned() && other.name != name)
}

/// Whether the Node is drained first: not if no other Node can run its pods, if the user has disabled it, or after
/// the timeout.
pub fn is_drained_first(machine: &MachineFacts, all: &[MachineFacts], now: Timestamp) -> bool {
    let elsewhere = all.iter().any(|other| other.name != machine.name && other.has_node && !other.deleting);
    let since = machine.plan.as_ref().and_then(|plan| plan.drain_since);
    let is_over = match (since, machine.drain_timeout) {
        (Some(since), Some(timeout)) => now.duration_since(since) >= timeout,
        _ => false,
    };
    elsewhere && machine.has_node && !machine.never_drained && !is_over
}

/// `nodeDrainTimeoutSeconds`, where 0 means no timeout.
pub fn drain_timeout(seconds: Option<i32>) -> Option<SignedDuration> {
    seconds.filter(|seconds| *seconds > 0).map(|seconds| SignedDuration::from_secs(seconds.into()))
}

/// Whether the Node may be uncordoned: Capstan has cordoned it, and the reason is gone.
pub fn is_to_be_uncordoned(machine: &MachineFacts) -> bool {
    machine.is_cordoned() && !machine.deleting && machine.is_up()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NodeView;
    use crate::facts::fixtures::{members, ready};
    use crate::plans::record::{Record, Setup};
    use crate::windows::{Maintenance, Schedule};

    fn at_gate(machine: MachineFacts, ran: Option<(&str, &str)>) -> MachineFacts {
        let mut machine = machine.up().says(Progress::AtGate);
        let plan = machine.plan.as_mut().expect("a plan");
        let setup = |restart: &str, drain: &str| Setup {
            version: "v".to_owned(),
            restart: restart.to_owned(),
            drain: drain.to_owned(),
        };
        plan.record = Record {
            setup: setup("new", "new"),
            ran: ran.map(|(restart, drain)| setup(restart, drain)),
            ..Record::default()
        };
        machine
    }

    fn decided(machine: &MachineFacts, others: &[MachineFacts], etcd: &EtcdView) -> Gate {
        let all: Vec<MachineFacts> = std::iter::once(machine).chain(others).cloned().collect();
        gate(
            machine,
            &all,
            &View {
                etcd,
                budgets: &Budgets::default(),
                begun: true,
                api_responds: true,
                now: Timestamp::UNIX_EPOCH,
            },
        )
    }

    const OTHER: (&str, &str) = ("old", "old");

    #[test]
    fn what_restarts_nothing_passes() {
        let unknown = EtcdView::Unknown("no way there".to_owned());
        let others = [MachineFacts::server("b").up(), MachineFacts::server("c").up()];
        let first = at_gate(MachineFacts::server("a"), None).says(Progress::InFlight);
        assert_eq!(decided(&first, &others, &unknown), Gate::Open);
        let live = at_gate(MachineFacts::server("a"), Some(("new", "new")));
        assert_eq!(decided(&live, &others, &unknown), Gate::Open);
        // It is closed again for whoever has gone too far already.
        let open = first.with(|m| m.plan.as_mut().expect("a plan").is_open = true);
        assert_eq!(decided(&open, &others, &unknown), Gate::Leave);
        let leaving = at_gate(MachineFacts::server("a"), None).leaving();
        assert_eq!(decided(&leaving, &others, &unknown), Gate::Leave);
    }

    #[test]
    fn the_last_one_is_brought_back_before_it_leaves() {
        let unknown = EtcdView::Unknown("no way there".to_owned());
        let stopped = at_gate(MachineFacts::server("a"), Some(("", ""))).leaving();
        let all = [stopped.clone(), MachineFacts::worker("w").up()];
        let view = View {
            etcd: &unknown,
            budgets: &Budgets::default(),
            begun: true,
            api_responds: false,
            now: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(gate(&stopped, &all, &view), Gate::Open);
        let other = [stopped.clone(), MachineFacts::server("b").up()];
        assert_eq!(gate(&stopped, &other, &view), Gate::Leave);
        let running = at_gate(MachineFacts::server("a"), Some(OTHER)).leaving();
        assert_eq!(gate(&running, std::slice::from_ref(&running), &view), Gate::Leave);
        let failed = running.says(Progress::Failed("no luck".to_owned()));
        let failed = failed.with(|m| m.plan.as_mut().expect("a plan").is_open = true);
        assert!(is_to_come_back(&failed, std::slice::from_ref(&failed)));
        assert!(!is_to_come_back(&failed, &other));
    }

    /// The last member was stopped by a plan that failed while another server was already told to join: that one waits for
    /// the member, so the member must not wait for it.
    #[test]
    fn the_last_member_does_not_wait_for_a_server_that_joins_it() {
        let unknown = EtcdView::Unknown("no quorum".to_owned());
        let stopped = at_gate(MachineFacts::server("a"), Some(("", ""))).leaving();
        let view = View {
            etcd: &unknown,
            budgets: &Budgets::default(),
            begun: true,
            api_responds: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let joining = MachineFacts::server("b").planned(1, "a");
        assert_eq!(gate(&stopped, &[stopped.clone(), joining.clone()], &view), Gate::Open);
        // Its first plan was let through and then replaced, so that what it runs is not certain. Nobody needs it all the same.
        let first = |m: &mut MachineFacts| m.plan.as_mut().expect("a plan").record.first = true;
        let superseded = at_gate(MachineFacts::server("b"), Some(("", ""))).with(|m| m.has_node = false);
        let again = superseded.clone().with(first);
        assert_eq!(gate(&stopped, &[stopped.clone(), again], &view), Gate::Open);
        assert_eq!(
            gate(&stopped, &[stopped.clone(), superseded], &view),
            Gate::Leave,
            "it may have been one"
        );
        // One that was a Node may be a member: etcd must be known.
        let member = joining.with(|m| m.has_node = true);
        assert_eq!(gate(&stopped, &[stopped.clone(), member], &view), Gate::Leave);
    }

    #[test]
    fn one_worker_is_away_at_a_time() {
        let unknown = EtcdView::Unknown(String::new());
        let [one, other] = ["v", "w"].map(|name| at_gate(MachineFacts::worker(name), Some(("", "new"))));
        assert_eq!(decided(&one, std::slice::from_ref(&other), &unknown), Gate::Open);
        let away = other.with(|m| m.plan.as_mut().expect("a plan").is_open = true);
        for progress in [Progress::InFlight, Progress::Failed(String::new())] {
            let away = away.clone().says(progress);
            let wait = Gate::Wait("waits for Machine w to carry out its plan".to_owned());
            assert_eq!(decided(&one, &[away], &unknown), wait);
        }
        assert_eq!(decided(&one, &[away.clone().says(Progress::Applied)], &unknown), Gate::Open);
        assert_eq!(decided(&one, &[away.leaving()], &unknown), Gate::Open);

        let drained = |name: &str, second: i64| {
            at_gate(MachineFacts::worker(name), Some(OTHER)).with(|m| {
                m.plan.as_mut().expect("a plan").drain_since = Timestamp::from_second(second).ok();
            })
        };
        let (first, second) = (drained("w", 1), drained("v", 2));
        assert_eq!(decided(&first, std::slice::from_ref(&second), &unknown), Gate::Drain);
        assert!(matches!(decided(&second, &[first], &unknown), Gate::Wait(_)));
    }

    #[test]
    fn as_many_workers_are_away_as_their_deployment_allows() {
        let unknown = EtcdView::Unknown(String::new());
        let of_group = |name: &str| {
            at_gate(MachineFacts::worker(name), Some(("", "new"))).with(|m| m.group = Some("md".to_owned()))
        };
        let away = |name: &str| of_group(name).with(|m| m.plan.as_mut().expect("a plan").is_open = true);
        let decided = |all: &[MachineFacts], most| {
            let view = View {
                etcd: &unknown,
                budgets: &Budgets::with("md", most),
                begun: true,
                api_responds: true,
                now: Timestamp::UNIX_EPOCH,
            };
            gate(&all[0], all, &view)
        };
        let all = [of_group("a"), away("b"), of_group("c")];
        assert!(matches!(decided(&all, 1), Gate::Wait(why) if why.contains("Machine b")));
        assert_eq!(decided(&all, 2), Gate::Open);
        // A Node that is lost uses up the budget of those that are not.
        let lost = of_group("b").lost();
        let all = [of_group("a"), lost.clone()];
        assert!(matches!(decided(&all, 1), Gate::Wait(why) if why.contains("Node b to be Ready")));
        assert_eq!(decided(&[lost, of_group("a")], 1), Gate::Open, "it is away anyway");
        let silent = all[1].clone().with(|m| m.silent_since = Some(Timestamp::UNIX_EPOCH));
        assert_eq!(
            decided(&[of_group("a"), silent], 1),
            Gate::Open,
            "the rollout does not wait for a silent machine"
        );
        let unsure = of_group("a").with(|m| m.node = Knowledge::unknown("no answer"));
        // It is not known to be down, so nothing is stopped on a guess.
        let certain = unsure.with(|m| {
            m.plan.as_mut().expect("a plan").record.ran =
                Some(Setup { restart: "old".to_owned(), ..Setup::default() });
        });
        assert!(matches!(decided(&[certain], 9), Gate::Wait(why) if why.contains("no answer")));
        let held = of_group("a").with(|m| m.is_kept_out = true);
        assert!(matches!(decided(&[held], 9), Gate::Wait(why) if why.contains("capstan.dev/hold")));
        // Before the cluster has begun there are no Nodes to wait for.
        let first = at_gate(MachineFacts::server("a"), Some(("old", "new")));
        let first = first.with(|m| m.node = Knowledge::default());
        let decided = |begun| {
            let budgets = &Budgets::default();
            let view =
                View { etcd: &unknown, budgets, begun, api_responds: true, now: Timestamp::UNIX_EPOCH };
            gate(&first, std::slice::from_ref(&first), &view)
        };
        assert!(matches!(decided(true), Gate::Wait(_)));
        assert_eq!(decided(false), Gate::Open);
    }

    #[test]
    fn planned_changes_wait_for_a_maintenance_window() {
        let windows = |texts: &[&str]| Maintenance {
            cluster: Schedule::read("field x", texts.iter().copied()),
            ..Maintenance::ANY_TIME
        };
        // The time of these tests is a Thursday at midnight.
        let closed = || windows(&["Fri 02:00-06:00 UTC"]);
        let unknown = EtcdView::Unknown(String::new());
        let worker = || at_gate(MachineFacts::worker("a"), Some(OTHER));
        let decided = |machine: &MachineFacts| decided(machine, &[MachineFacts::worker("b").up()], &unknown);
        let within = |maintenance: Maintenance| worker().with(|m| m.maintenance = maintenance);
        assert_eq!(decided(&within(windows(&["Thu 00:00-01:00 UTC"]))), Gate::Drain);
        assert_eq!(
            decided(&within(closed())),
            Gate::Closed {
                why: "waits for its maintenance window, which opens at 1970-01-02T02:00:00Z; now field x is closed".to_owned(),
                opens: Some("1970-01-02T02:00:00Z".parse().expect("a time")),
            }
        );
        assert_eq!(
            decided(&within(Maintenance {
                host: Some(Schedule::unknown("field x", "y")),
                ..windows(&["daily 00:00-00:00"])
            })),
            Gate::Closed {
                why: "waits until its maintenance windows can be read: field x: y".to_owned(),
                opens: None
            }
        );
        // The window of the cluster is open, and that of the Host is not.
        let on_host = |host: &str, text: &'static str| Maintenance {
            host: Schedule::read(host, [text]),
            ..windows(&["Thu 00:00-01:00 UTC"])
        };
        assert_eq!(decided(&within(on_host("h", "Thu 00:00-00:30 UTC"))), Gate::Drain);
        assert_eq!(
            decided(&within(on_host("h", "Thu 00:30-06:00 UTC"))),
            Gate::Closed {
                why: "waits for its maintenance window, which opens at 1970-01-01T00:30:00Z; now h is closed"
                    .to_owned(),
                opens: Some("1970-01-01T00:30:00Z".parse().expect("a time")),
            }
        );
        let waits = |machine: &MachineFacts| matches!(decided(machine), Gate::Closed { .. });
        assert!(waits(&within(closed())));
        for (case, change) in [
            ("unhealthy", (|m| m.is_unhealthy = true) as fn(&mut MachineFacts)),
            ("its Node is lost", |m| m.node = ready(false)),
            ("being drained", |m| m.plan.as_mut().expect("a plan").drain_since = Some(Timestamp::UNIX_EPOCH)),
            ("may be down", |m| {
                m.plan.as_mut().expect("a plan").record.ran = Some(Setup::default());
            }),
        ] {
            assert!(!waits(&within(closed()).with(change)), "{case}");
        }
        // Nothing is restarted, or it is started for the first time.
        for ran in [None, Some(("new", "new"))] {
            let live = at_gate(MachineFacts::worker("a"), ran).with(|m| m.maintenance = closed());
            assert_eq!(decided(&live), Gate::Open);
        }
    }

    #[test]
    fn servers_wait_for_each_others_nodes() {
        let server = at_gate(MachineFacts::server("a"), Some(("old", "new")));
        let etcd = EtcdView::Known(members("a+ b+ c+"));
        let with = |node: Knowledge<NodeView>| {
            let b = MachineFacts::server("b").up().with(|m| m.node = node);
            [b, MachineFacts::server("c").up()]
        };
        assert_eq!(decided(&server, &with(ready(true)), &etcd), Gate::Open);
        let not_ready = decided(&server, &with(ready(false)), &etcd);
        assert!(matches!(not_ready, Gate::Wait(why) if why == "waits for Node b to be Ready"));
        let unknown = decided(&server, &with(Knowledge::unknown("no answer")), &etcd);
        assert!(matches!(unknown, Gate::Wait(why) if why.contains("no answer")));
        // A server whose own Node is lost is missed no more than it is: what it is told may be its cure.
        let lost = server.lost();
        assert_eq!(decided(&lost, &with(ready(false)), &etcd), Gate::Open);
    }

    #[test]
    fn pods_move_away_if_they_must_and_can() {
        let unknown = EtcdView::Unknown(String::new());
        let worker = at_gate(MachineFacts::worker("w"), Some(OTHER));
        let other = [MachineFacts::worker("v").up()];
        assert_eq!(decided(&worker, &other, &unknown), Gate::Drain);
        assert_eq!(decided(&worker, &[], &unknown), Gate::Open, "there is nowhere to go");
        let restart_only = at_gate(MachineFacts::worker("w"), Some(("old", "new")));
        assert_eq!(decided(&restart_only, &other, &unknown), Gate::Open);
        let early = worker.clone().says(Progress::InFlight);
        assert_eq!(decided(&early, &other, &unknown), Gate::Leave, "it is still downloading");
        let never = worker.clone().with(|m| m.never_drained = true);
        assert_eq!(decided(&never, &other, &unknown), Gate::Open);
        let hour = SignedDuration::from_hours(1);
        let timed = worker.with(|m| {
            m.drain_timeout = Some(hour);
            m.plan.as_mut().expect("a plan").drain_since = Some(Timestamp::UNIX_EPOCH - hour);
        });
        assert_eq!(decided(&timed, &other, &unknown), Gate::Open, "it has taken too long");
    }

    #[test]
    fn servers_wait_for_etcd() {
        let server = at_gate(MachineFacts::server("a"), Some(("old", "new")));
        let others = [MachineFacts::server("b").up(), MachineFacts::server("c").up()];
        let known = |text: &str| EtcdView::Known(members(text));
        assert_eq!(decided(&server, &others, &known("a+ b+ c+")), Gate::Open);
        assert!(matches!(decided(&server, &others, &known("a+ b+ c-")), Gate::Wait(_)));
        assert!(matches!(decided(&server, &others[..1], &known("a+ b+")), Gate::Wait(_)));
        assert_eq!(decided(&server, &others, &known("a- b+ c+")), Gate::Open, "it is away anyway");
        let unknown = EtcdView::Unknown("no way there".to_owned());
        assert!(
            matches!(decided(&server, &others, &unknown), Gate::Wait(why) if why.contains("no way there"))
        );
        // A cluster of one has no other way.
        assert_eq!(decided(&server, &[], &known("a+")), Gate::Open);
        assert_eq!(decided(&server, &[], &unknown), Gate::Open);
    }

    #[test]
    fn servers_go_one_after_the_other() {
        let server = at_gate(MachineFacts::server("a"), Some(("old", "new")));
        let c = MachineFacts::server("c").up();
        let etcd = EtcdView::Known(members("a+ b+ c+"));
        let beside = |b: &MachineFacts| decided(&server, &[b.clone(), c.clone()], &etcd);
        let held = at_gate(MachineFacts::server("b"), Some(OTHER));
        assert_eq!(beside(&held), Gate::Open, "it will wait for this one");
        let restarting = held.with(|m| m.plan.as_mut().expect("a plan").is_open = true);
        assert!(matches!(beside(&restarting), Gate::Wait(why) if why.contains("Machine b")));
        // Its agent does not know that it is on its way out.
        let leaving = restarting.leaving();
        assert!(matches!(beside(&leaving), Gate::Wait(why) if why.contains("Machine b")));
        let others = [leaving, c.clone()];
        let left = EtcdView::Known(members("a+ c+ d+"));
        assert_eq!(decided(&server, &others, &left), Gate::Open, "etcd does not miss it any more");
        let joining = MachineFacts::server("b").planned(1, "a");
        assert!(matches!(beside(&joining), Gate::Wait(_)));
    }

    #[test]
    fn who_may_have_silenced_the_cluster_is_not_drained() {
        let machine = |ran| at_gate(MachineFacts::server("a"), Some(ran));
        let elsewhere = [MachineFacts::worker("w").up()];
        let unknown = EtcdView::Unknown("no way there".to_owned());
        let decided = |machine: &MachineFacts, others: &[MachineFacts], api_responds| {
            let all: Vec<MachineFacts> = std::iter::once(machine).chain(others).cloned().collect();
            gate(
                machine,
                &all,
                &View {
                    etcd: &unknown,
                    budgets: &Budgets::default(),
                    begun: true,
                    api_responds,
                    now: Timestamp::UNIX_EPOCH,
                },
            )
        };
        assert_eq!(decided(&machine(("", "")), &elsewhere, false), Gate::Open);
        assert_eq!(decided(&machine(("", "")), &elsewhere, true), Gate::Drain);
        assert_eq!(decided(&machine(OTHER), &elsewhere, false), Gate::Drain, "the way there may be broken");
        let worker = at_gate(MachineFacts::worker("v"), Some(("", "")));
        assert_eq!(decided(&worker, &elsewhere, false), Gate::Drain);
    }

    #[test]
    fn pods_come_back_when_it_is_done() {
        let cordoned = MachineFacts::worker("w").up().cordoned();
        assert!(is_to_be_uncordoned(&cordoned));
        assert!(!is_to_be_uncordoned(&cordoned.clone().says(Progress::InFlight)));
        assert!(!is_to_be_uncordoned(&cordoned.clone().leaving()));
        assert!(!is_to_be_uncordoned(&cordoned.with(MachineFacts::note_uncordoned)));
        assert_eq!(drain_timeout(Some(0)), None);
    }
}
