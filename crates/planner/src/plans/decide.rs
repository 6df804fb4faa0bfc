//! Which plan a machine should have, and whether it may have it now.

use capstan_plan::{Epoch, Revision, limits};
use jiff::{SignedDuration, Timestamp};

use super::election::Elected;
use super::gate::is_to_come_back;
use crate::Version;
use crate::budget::{Budgets, is_skipped};
use crate::change::Cost;
use crate::facts::{MachineFacts, PlanFacts, Progress};
use crate::fingerprint::Fingerprint;
use crate::role::Role;
use crate::wait::{self, Wait};

/// Lifetime of a plan.
pub const LIFE: SignedDuration = SignedDuration::from_hours(limits::LIFE_HOURS);

/// A plan that still waits is written anew when less than this is left.
const RENEWAL: SignedDuration = SignedDuration::from_hours(24);

/// What to do about the plan of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The plan is up to date.
    Keep,
    /// Write another plan.
    Write {
        /// Under this revision.
        revision: Revision,
        /// For this time with the same inputs, counted from 1.
        attempt: u32,
    },
    /// The plan has failed and is retried at this time; never, if it was retried often enough.
    Failed {
        /// When.
        again: Option<Timestamp>,
    },
    /// Wait.
    Wait(Wait),
}

/// The role of a machine in its cluster. A machine that is being deleted has none, unless it must be up again before.
pub fn role(
    machine: &MachineFacts,
    elected: Option<&Elected>,
    initialized: bool,
    is_to_come_back: bool,
) -> Result<Role, Wait> {
    if machine.deleting && !is_to_come_back {
        return Err("the Machine is being deleted".to_owned());
    }
    let Some(id) = &machine.id else {
        return Err("waits for the bootstrap provider to give the machine its identity".to_owned());
    };
    if machine.provider_id.is_none() {
        return Err("waits for Machine spec.providerID, which the infrastructure provider gives".to_owned());
    }
    if machine.version.is_none() {
        return Err("Machine spec.version is not set: set it".to_owned());
    }
    if machine.control_plane && elected.is_some_and(|elected| elected.id == *id) {
        return Ok(Role::Init);
    }
    match (initialized, elected) {
        (true, _) if machine.control_plane => Ok(Role::Server),
        (true, _) => Ok(Role::Worker),
        (false, Some(elected)) => Err(format!("waits for Machine {} to begin the cluster", elected.name)),
        (false, None) => Err("waits for a machine that begins the cluster".to_owned()),
    }
}

/// Whether the machine gets a plan made from `desired`, given all machines of the cluster.
///
/// One at a time in the control plane; then as many workers of a MachineDeployment as its budget allows: a plan that was
/// not carried out yet holds up other changes beside it. New workers join side by side.
pub fn verdict(
    machine: &MachineFacts,
    all: &[MachineFacts],
    budgets: &Budgets,
    desired: &Fingerprint,
    epoch: Epoch,
    now: Timestamp,
) -> Verdict {
    let Some(plan) = &machine.plan else {
        return match held_up(machine, all, budgets, true, now) {
            Some(wait) => Verdict::Wait(wait),
            // The plan was lost, or there was none: an agent that knows a later one would refuse the first.
            None => write(machine.reported_revision.map_or(Some(Revision::FIRST), Revision::next), 1),
        };
    };
    let next = plan.id.revision().max(machine.reported_revision.unwrap_or(Revision::FIRST)).next();
    if !plan.sound {
        return write(next, 1);
    }
    if plan.inputs != desired.whole.to_string() {
        return match held_up(machine, all, budgets, false, now) {
            Some(wait) => Verdict::Wait(wait),
            None => write(next, 1),
        };
    }
    if let Progress::Failed(_) = plan.progress {
        let is_asked_for = machine.retry.is_some() && machine.retry != plan.record.retry;
        return match plan.record.again_at() {
            // Written before this plane took over, and not accepted before: the machine obeys only us now.
            _ if plan.epoch < epoch => write(next, plan.record.attempt),
            _ if is_asked_for => write(next, 1),
            // It was cancelled because it must not go on.
            _ if plan.cancelled.is_some_and(|last| plan.id.revision() <= last) => {
                Verdict::Failed { again: None }
            }
            Some(again) if again <= now => write(next, plan.record.attempt + 1),
            again => Verdict::Failed { again },
        };
    }
    if is_expiring(plan, now) { write(next, plan.record.attempt) } else { Verdict::Keep }
}

fn write(revision: Option<Revision>, attempt: u32) -> Verdict {
    match revision {
        Some(revision) => Verdict::Write { revision, attempt },
        None => Verdict::Wait("there is no revision left for this machine: delete it".to_owned()),
    }
}

fn is_expiring(plan: &PlanFacts, now: Timestamp) -> bool {
    matches!(plan.progress, Progress::InFlight | Progress::AtGate)
        && plan.expires.duration_since(now) < RENEWAL
}

fn held_up(
    machine: &MachineFacts,
    all: &[MachineFacts],
    budgets: &Budgets,
    joins: bool,
    now: Timestamp,
) -> Option<Wait> {
    let others = || all.iter().filter(|other| other.name != machine.name && !other.deleting);
    let servers = || others().filter(|other| other.control_plane);
    if machine.control_plane {
        // One that is held at its gate may wait for this very one: two members bear no restart, and none restarts while the
        // Node of another is not Ready.
        let may_be_awaited = joins || !machine.is_ready();
        // One that joins waits for the last member, which is brought back before it leaves.
        let is_needed_by_all = is_to_come_back(machine, all);
        let in_the_way = |other: &&MachineFacts| {
            let waits_for_this = may_be_awaited && other.is_held() || is_needed_by_all && other.is_joining();
            other.is_in_flight() && !waits_for_this
        };
        return servers().find(in_the_way).map(|other| wait::plan_of(&other.name));
    }
    if let Some(wait) = runs_ahead(machine, servers()) {
        return Some(wait);
    }
    if joins {
        return None;
    }
    // Those that have failed do not wait for each other to be told something better. One that is held because of its Host alone
    // is not away, and may be held for weeks.
    let holds_up = |other: &MachineFacts| {
        other.is_in_flight() && !(machine.has_failed() && other.has_failed()) && !other.waits_for_host(now)
    };
    servers()
        .filter(|other| !is_skipped(other))
        .find(|other| other.is_in_flight() || is_to_change(other))
        .or_else(|| budgets.room(machine, all, holds_up).err())
        .map(|other| wait::plan_of(&other.name))
}

/// Whether it will get another plan. What is refused changes nothing, so nobody waits for it.
fn is_to_change(machine: &MachineFacts) -> bool {
    machine.changes.iter().any(|change| change.cost < Cost::Replace)
}

/// Whether the cluster has another server that this machine could join. A server counts as soon as it has a Node,
/// also while it applies a later plan: the result, and the plan with it, must not change whenever another server is
/// upgraded.
pub fn others_serve(machine: &MachineFacts, all: &[MachineFacts]) -> bool {
    let serves = |other: &MachineFacts| {
        other.control_plane && !other.deleting && other.has_node && other.was_planned()
    };
    all.iter().any(|other| other.name != machine.name && serves(other))
}

/// The time after which the machine is restarted, if it has passed and the machine was created before it.
pub fn restart_after(after: Timestamp, machine: &MachineFacts, now: Timestamp) -> Option<String> {
    let was_there = machine.created.is_some_and(|created| created < after);
    (was_there && now >= after).then(|| after.to_string())
}

/// A kubelet must not be newer than the API servers it talks to.
pub(crate) fn runs_ahead<'a>(
    machine: &MachineFacts,
    servers: impl Iterator<Item = &'a MachineFacts>,
) -> Option<Wait> {
    let wanted = Version::parse(machine.version.as_deref()?)?;
    let behind = |server: &&MachineFacts| {
        let runs = server.kubelet_version.as_deref().and_then(Version::parse);
        runs.is_some_and(|runs| runs.numbers() < wanted.numbers())
    };
    let mut servers = servers;
    servers
        .find(behind)
        .map(|server| format!("waits for control plane Machine {} to reach {wanted} first", server.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::plans::Setup;
    use crate::windows::Schedule;
    use capstan_plan::Digest;

    const EPOCH: Epoch = Epoch(1);

    fn verdict(
        machine: &MachineFacts,
        all: &[MachineFacts],
        desired: &Fingerprint,
        epoch: Epoch,
        now: Timestamp,
    ) -> Verdict {
        super::verdict(machine, all, &Budgets::default(), desired, epoch, now)
    }

    fn print(inputs: &str) -> Fingerprint {
        let digest = Digest::of(inputs.as_bytes());
        Fingerprint { drain: digest, restart: digest, whole: digest }
    }

    fn inputs(text: &str) -> String {
        print(text).whole.to_string()
    }

    fn revision(number: u64) -> Verdict {
        Verdict::Write { revision: Revision::new(number).expect("a revision"), attempt: 1 }
    }

    fn waits_for(verdict: &Verdict, name: &str) -> bool {
        matches!(verdict, Verdict::Wait(wait) if wait.contains(name))
    }

    fn up_to_date(machine: MachineFacts) -> MachineFacts {
        let mut up = machine.up();
        up.plan.as_mut().expect("a plan").inputs = inputs("a");
        up
    }

    #[test]
    fn a_cancelled_plan_is_not_tried_again_until_that_is_asked_for() {
        let failed = |change: fn(&mut MachineFacts)| {
            let mut machine = up_to_date(MachineFacts::server("a"));
            let plan = machine.plan.as_mut().expect("a plan");
            plan.progress = Progress::Failed("the plan was cancelled".to_owned());
            plan.cancelled = Some(plan.id.revision());
            change(&mut machine);
            verdict(&machine, std::slice::from_ref(&machine), &print("a"), EPOCH, Timestamp::MAX)
        };
        assert_eq!(failed(|_| ()), Verdict::Failed { again: None });
        let earlier = failed(|m| m.plan.as_mut().expect("a plan").cancelled = None);
        assert!(matches!(earlier, Verdict::Write { attempt: 2, .. }), "{earlier:?}");
        let asked = failed(|m| m.retry = Some("again".to_owned()));
        assert!(matches!(asked, Verdict::Write { attempt: 1, .. }), "{asked:?}");
    }

    /// A plan of before a move that the machine has carried out stays; one that it refuses because of its epoch is
    /// written anew at once, and one of which it has not spoken yet waits until it does.
    #[test]
    fn plans_of_before_a_move_are_written_anew_only_if_they_are_refused() {
        let (now, later) = (Timestamp::UNIX_EPOCH, Epoch(2));
        let done = up_to_date(MachineFacts::server("a"));
        let of = |progress: Progress| {
            let mut machine = done.clone();
            machine.plan.as_mut().expect("a plan").progress = progress;
            verdict(&machine, std::slice::from_ref(&machine), &print("a"), later, now)
        };
        assert_eq!(of(Progress::Applied), Verdict::Keep);
        assert_eq!(of(Progress::InFlight), Verdict::Keep);
        assert_eq!(of(Progress::AtGate), Verdict::Keep);
        assert!(matches!(of(Progress::Failed("epoch".to_owned())), Verdict::Write { .. }));
    }

    #[test]
    fn roles_follow_the_election() {
        let elected = Elected { name: "a".to_owned(), id: "id-of-a".to_owned() };
        let (a, b, w) = (
            MachineFacts::server("a").provisioned(),
            MachineFacts::server("b").provisioned(),
            MachineFacts::worker("w").provisioned(),
        );
        let role =
            |machine: &MachineFacts, elected: Option<&Elected>, begun| role(machine, elected, begun, false);
        assert_eq!(role(&a, Some(&elected), false), Ok(Role::Init));
        assert_eq!(role(&a, Some(&elected), true), Ok(Role::Init));
        for waiting in [&b, &w] {
            assert!(role(waiting, Some(&elected), false).is_err_and(|wait| wait.contains("Machine a")));
            assert!(role(waiting, None, false).is_err());
        }
        assert_eq!(role(&b, Some(&elected), true), Ok(Role::Server));
        assert_eq!(role(&b, None, true), Ok(Role::Server));
        assert_eq!(role(&w, Some(&elected), true), Ok(Role::Worker));
        // A worker that took the identity of the elected is a worker.
        let thief = w.clone().with(|m| m.id = Some("id-of-a".to_owned()));
        assert_eq!(role(&thief, Some(&elected), true), Ok(Role::Worker));
        for incomplete in [
            a.clone().leaving(),
            a.clone().with(|m| m.id = None),
            a.clone().with(|m| m.provider_id = None),
            a.with(|m| m.version = None),
        ] {
            assert!(role(&incomplete, Some(&elected), true).is_err());
        }
    }

    #[test]
    fn a_plan_is_written_when_its_inputs_change_and_only_then() {
        let now = Timestamp::UNIX_EPOCH;
        let a = up_to_date(MachineFacts::server("a"));
        assert_eq!(verdict(&a, std::slice::from_ref(&a), &print("a"), EPOCH, now), Verdict::Keep);
        assert_eq!(verdict(&a, std::slice::from_ref(&a), &print("b"), EPOCH, now), revision(2));
        let new = MachineFacts::server("a").provisioned();
        assert_eq!(verdict(&new, std::slice::from_ref(&new), &print("a"), EPOCH, now), revision(1));
        // The Secret was lost, and the agent knows revision 7.
        let lost = new.with(|m| m.reported_revision = Revision::new(7).ok());
        assert_eq!(verdict(&lost, std::slice::from_ref(&lost), &print("a"), EPOCH, now), revision(8));
        // Somebody else has written into it.
        let forged = a.clone().with(|m| m.plan.as_mut().expect("a plan").sound = false);
        assert_eq!(verdict(&forged, std::slice::from_ref(&forged), &print("a"), EPOCH, now), revision(2));
        // The Secret was restored from a backup, and the agent is further.
        let behind = a.with(|m| m.reported_revision = Revision::new(7).ok());
        assert_eq!(verdict(&behind, std::slice::from_ref(&behind), &print("b"), EPOCH, now), revision(8));
    }

    #[test]
    fn a_failed_plan_is_tried_again_within_its_budget() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let failed = up_to_date(MachineFacts::server("a")).says(Progress::Failed("no disk".to_owned()));
        let tried = |attempt| {
            failed.clone().with(|m| {
                let record = &mut m.plan.as_mut().expect("a plan").record;
                (record.attempt, record.written) = (attempt, Some(at(0)));
            })
        };
        let verdict = |machine: &MachineFacts, inputs, now| {
            verdict(machine, std::slice::from_ref(machine), &print(inputs), EPOCH, at(now))
        };
        assert_eq!(verdict(&tried(1), "a", 14), Verdict::Failed { again: Some(at(15)) });
        let second = Verdict::Write { revision: Revision::new(2).expect("a revision"), attempt: 2 };
        assert_eq!(verdict(&tried(1), "a", 15), second);
        let last = tried(super::super::record::MOST_ATTEMPTS);
        assert_eq!(verdict(&last, "a", 1_000_000), Verdict::Failed { again: None });
        // Something else is tried at once, and so is the same if the user says so.
        assert_eq!(verdict(&last, "b", 0), revision(2));
        let asked = last.with(|m| m.retry = Some("please".to_owned()));
        assert_eq!(verdict(&asked, "a", 0), revision(2));
        let heard = asked.with(|m| m.plan.as_mut().expect("a plan").record.retry = Some("please".to_owned()));
        assert_eq!(verdict(&heard, "a", 0), Verdict::Failed { again: None });
    }

    #[test]
    fn a_plan_that_waits_too_long_is_written_anew() {
        let soon = |machine: MachineFacts| {
            machine.with(|m| {
                let plan = m.plan.as_mut().expect("a plan");
                plan.expires = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
                plan.inputs = inputs("a");
            })
        };
        let waiting = soon(MachineFacts::server("a").planned(3, ""));
        assert_eq!(
            verdict(&waiting, std::slice::from_ref(&waiting), &print("a"), EPOCH, Timestamp::UNIX_EPOCH),
            revision(4)
        );
        let done = soon(MachineFacts::server("a").planned(3, "").says(Progress::Applied));
        assert_eq!(
            verdict(&done, std::slice::from_ref(&done), &print("a"), EPOCH, Timestamp::UNIX_EPOCH),
            Verdict::Keep
        );
    }

    #[test]
    fn changes_go_one_by_one_and_the_control_plane_first() {
        let now = Timestamp::UNIX_EPOCH;
        let servers = || ["a", "b", "c"].map(|name| up_to_date(MachineFacts::server(name)));
        let workers = || ["v", "w"].map(|name| up_to_date(MachineFacts::worker(name)));
        let all = |servers: [MachineFacts; 3], workers: [MachineFacts; 2]| {
            servers.into_iter().chain(workers).collect::<Vec<_>>()
        };
        let calm = all(servers(), workers());
        for machine in &calm {
            assert_eq!(verdict(machine, &calm, &print("b"), EPOCH, now), revision(2), "{}", machine.name);
        }
        // One server is on it: everybody else waits, but a worker may join.
        let [a, b, c] = servers();
        let busy = all([a, b.says(Progress::InFlight), c], workers());
        for name in ["a", "c", "v", "w"] {
            let machine = busy.iter().find(|machine| machine.name == name).expect("a machine");
            assert!(waits_for(&verdict(machine, &busy, &print("b"), EPOCH, now), "Machine b"), "{name}");
        }
        assert_eq!(verdict(&busy[1], &busy, &print("b"), EPOCH, now), revision(2));
        let joining = MachineFacts::worker("x").provisioned();
        assert_eq!(verdict(&joining, &busy, &print("a"), EPOCH, now), revision(1));
        let server = MachineFacts::server("d").provisioned();
        assert!(waits_for(&verdict(&server, &busy, &print("a"), EPOCH, now), "Machine b"));
        // One server is to change next: the workers wait. What is refused holds nobody up.
        for (cost, held_up) in [(Cost::Restart, true), (Cost::Refused, false)] {
            let change = Change::new("spec.version", cost, "because");
            let [a, b, c] = servers();
            let next = all([a, b.with(|m| m.changes = vec![change]), c], workers());
            assert_eq!(waits_for(&verdict(&next[3], &next, &print("b"), EPOCH, now), "Machine b"), held_up);
        }
        // Pods are still kept away from one that is done: it is as if it were on it.
        let [a, b, c] = servers();
        let cordoned = all([a, b.cordoned(), c], workers());
        assert!(waits_for(&verdict(&cordoned[0], &cordoned, &print("b"), EPOCH, now), "Machine b"));
        // One worker is on it: the other waits, the servers do not.
        let [v, w] = workers();
        let busy = all(servers(), [v.says(Progress::InFlight), w]);
        assert!(waits_for(&verdict(&busy[4], &busy, &print("b"), EPOCH, now), "Machine v"));
        assert_eq!(verdict(&busy[0], &busy, &print("b"), EPOCH, now), revision(2));
        let failed =
            |name: &str| MachineFacts::worker(name).up().says(Progress::Failed("no luck".to_owned()));
        let failed = [failed("v"), failed("w"), MachineFacts::worker("x").up()];
        assert_eq!(verdict(&failed[0], &failed, &print("b"), EPOCH, now), revision(2), "both can be mended");
        assert!(waits_for(&verdict(&failed[2], &failed, &print("b"), EPOCH, now), "Machine v"));
    }

    #[test]
    fn workers_change_side_by_side_as_far_as_their_budget_goes() {
        let now = Timestamp::UNIX_EPOCH;
        let of_group = |machine: MachineFacts| up_to_date(machine).with(|m| m.group = Some("md".to_owned()));
        let [u, v, w] = ["u", "v", "w"].map(|name| of_group(MachineFacts::worker(name)));
        let all = [u, v.says(Progress::InFlight), w];
        let planned = |all: &[MachineFacts], most| {
            super::verdict(&all[0], all, &Budgets::with("md", most), &print("b"), EPOCH, now)
        };
        assert!(waits_for(&planned(&all, 1), "Machine v"));
        assert_eq!(planned(&all, 2), revision(2));
        // One that is never heard of again does not stop the others.
        let silent = all.map(|m| match m.name.as_str() {
            "v" => m.with(|m| m.silent_since = Some(now)),
            _ => m,
        });
        assert_eq!(planned(&silent, 1), revision(2));
    }

    #[test]
    fn a_worker_that_waits_for_the_window_of_its_host_stops_no_other() {
        // A Thursday at midnight.
        let now = Timestamp::UNIX_EPOCH;
        let of_group = |machine: MachineFacts| up_to_date(machine).with(|m| m.group = Some("md".to_owned()));
        let setup = |restart: &str| Setup { restart: restart.to_owned(), ..Setup::default() };
        let held = |window: &str, change: fn(&mut MachineFacts)| {
            let v = of_group(MachineFacts::worker("v")).says(Progress::AtGate).with(|m| {
                let plan = m.plan.as_mut().expect("a plan");
                plan.record.setup = setup("new");
                plan.record.ran = Some(Setup { version: "v".to_owned(), ..setup("old") });
                m.maintenance.host = Schedule::read("Host h spec.windows", [window]);
                change(m);
            });
            let all = [of_group(MachineFacts::worker("u")), v];
            super::verdict(&all[0], &all, &Budgets::with("md", 1), &print("b"), EPOCH, now)
        };
        assert_eq!(held("Fri 01:00-02:00", |_| ()), revision(2));
        for (case, verdict) in [
            ("its window is open", held("Thu 00:00-02:00", |_| ())),
            (
                "it is let through",
                held("Fri 01:00-02:00", |m| m.plan.as_mut().expect("a plan").is_open = true),
            ),
            (
                "it is drained",
                held("Fri 01:00-02:00", |m| {
                    m.plan.as_mut().expect("a plan").drain_since = Some(Timestamp::UNIX_EPOCH);
                }),
            ),
            ("it is unhealthy", held("Fri 01:00-02:00", |m| m.is_unhealthy = true)),
        ] {
            assert!(waits_for(&verdict, "Machine v"), "{case}: {verdict:?}");
        }
    }

    #[test]
    fn workers_do_not_run_ahead() {
        let now = Timestamp::UNIX_EPOCH;
        let server = up_to_date(MachineFacts::server("a"));
        let ahead =
            up_to_date(MachineFacts::worker("w")).with(|m| m.version = Some("v1.36.1+k3s1".to_owned()));
        let all = [server, ahead.clone()];
        assert!(waits_for(&verdict(&ahead, &all, &print("b"), EPOCH, now), "Machine a"));
        let new =
            MachineFacts::worker("n").provisioned().with(|m| m.version = Some("v1.37.0+k3s1".to_owned()));
        assert!(waits_for(&verdict(&new, &all, &print("b"), EPOCH, now), "Machine a"));
        let behind = ahead.with(|m| m.version = Some("v1.35.0+k3s1".to_owned()));
        assert_eq!(verdict(&behind, &all[..1], &print("b"), EPOCH, now), revision(2));
    }

    #[test]
    fn only_a_server_that_runs_and_stays_can_be_joined() {
        let own = MachineFacts::server("a").provisioned();
        let joined = || {
            let facts = MachineFacts::server("b").provisioned();
            facts.with(|b| (b.has_node, b.reported_revision) = (true, Some(Revision::FIRST)))
        };
        for (other, expected) in [
            (joined(), true),
            (joined().with(|b| b.control_plane = false), false),
            (joined().leaving(), false),
            (joined().with(|b| b.has_node = false), false),
            (joined().with(|b| b.reported_revision = None), false),
            (own.clone(), false),
        ] {
            let name = format!("{other:?}");
            let all = [
                own.clone().with(|a| (a.has_node, a.reported_revision) = (true, Some(Revision::FIRST))),
                other,
            ];
            assert_eq!(others_serve(&all[0], &all), expected, "{name}");
        }
    }
}
