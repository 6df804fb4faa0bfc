//! Machines that cannot be healed in place: replaced one at a time, only where the policy allows it, and only while the
//! rest can bear it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::decide::{MachineStep, Wanted, may_lose};
use crate::facts::MachineFacts;

/// The last replaced machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remediated {
    /// Its name.
    pub machine: String,
    /// When it was replaced.
    pub at: Timestamp,
    /// Number of replacements before it without success.
    pub retries: u32,
}

/// Limits for the replacement of unhealthy machines.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Number of consecutive replacements without success; `None` for no limit.
    pub max_retry: Option<u32>,
    /// Minimum time between two replacements.
    pub retry_period: SignedDuration,
    /// Time after which a healthy machine counts as a success.
    pub min_healthy: SignedDuration,
    /// The last replaced machine.
    pub last: Option<&'a Remediated>,
    /// The current time.
    pub now: Timestamp,
}

/// What holds when the user says nothing.
impl Default for Limits<'_> {
    fn default() -> Self {
        Self {
            max_retry: None,
            retry_period: SignedDuration::ZERO,
            min_healthy: SignedDuration::from_hours(1),
            last: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }
}

/// What is to be done about the machine that is ill, if there is one and it may be replaced. Otherwise it is healed in
/// place, and nothing else waits for that.
pub(super) fn decide(staying: &[&MachineFacts], wanted: &Wanted<'_>) -> Option<MachineStep> {
    let is_lost = |machine: &&&MachineFacts| {
        machine.is_ill && !machine.is_kept_out && wanted.exhausted.contains(&machine.name)
    };
    let ill = staying.iter().filter(is_lost).min_by_key(|machine| machine.age())?;
    if !wanted.may_replace {
        return None;
    }
    let wait =
        |why: String| Some(MachineStep::Wait(format!("Machine {} is ill and is kept: {why}", ill.name)));
    if staying.len() == 1 && wanted.initialized {
        // What it is to become may be its cure.
        if !ill.changes.is_empty() {
            return None;
        }
        return wait("it is the only one of the control plane".to_owned());
    }
    if let Err(why) = wanted.spare.check() {
        return wait(why);
    }
    // One that joins or restarts would be a second that is away.
    let busy = staying.iter().find(|other| other.name != ill.name && !other.is_ill && !other.is_steady());
    if let Some(busy) = busy.filter(|_| wanted.initialized) {
        return wait(format!("Machine {} is not up", busy.name));
    }
    let grounds = match may_lose(ill, wanted) {
        Ok(grounds) => grounds,
        Err(why) => return wait(why),
    };
    match next(&ill.name, wanted.remediation) {
        Ok(record) => Some(MachineStep::Remediate { machine: ill.name.clone(), record, grounds }),
        Err(why) => wait(why),
    }
}

/// What is written down when a machine is replaced now, or why it is not.
fn next(machine: &str, limits: Limits<'_>) -> Result<Remediated, String> {
    let now = limits.now;
    let record = |retries| Remediated { machine: machine.to_owned(), at: now, retries };
    if let Some(last) = limits.last.filter(|last| last.machine == machine) {
        // It was written down, and then somebody died.
        return Ok(last.clone());
    }
    let Some(last) = limits.last.filter(|last| now.duration_since(last.at) < limits.min_healthy) else {
        return Ok(record(0));
    };
    let pause = limits.retry_period;
    if now.duration_since(last.at) < pause {
        return Err(format!("the last one was replaced less than {} seconds ago", pause.as_secs()));
    }
    let retries = last.retries.saturating_add(1);
    match limits.max_retry {
        Some(most) if retries > most => Err(format!("spec.remediation.maxRetry allows {most} in a row")),
        _ => Ok(record(retries)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::tests::{described, up, wanted, well};
    use super::super::decide::{Wanted, decide};
    use super::*;
    use crate::Knowledge;
    use crate::change::{Change, Cost};
    use crate::facts::EtcdView;
    use crate::facts::fixtures::members;
    use crate::spare::Spare;
    use std::collections::BTreeSet;

    fn ill(name: &str) -> MachineFacts {
        up(name).with(|m| m.is_ill = true)
    }

    fn step(machines: &[MachineFacts], etcd: &EtcdView) -> String {
        described(decide(machines, &may_be_replaced(machines, etcd)))
    }

    /// No step of healing has helped, and the user allows replacements.
    fn may_be_replaced<'a>(machines: &[MachineFacts], etcd: &'a EtcdView) -> Wanted<'a> {
        let exhausted = machines.iter().map(|machine| machine.name.clone()).collect();
        Wanted { may_replace: true, exhausted, spare: Knowledge::Known(Spare::Hosts(1)), ..wanted(3, etcd) }
    }

    #[test]
    fn machines_are_kept_unless_the_policy_says_otherwise() {
        let three = [up("a"), ill("b"), up("c")];
        let etcd = well(&three);
        assert_eq!(described(decide(&three, &wanted(3, &etcd))), "nothing");
        let kept = Wanted { may_replace: false, ..may_be_replaced(&three, &etcd) };
        assert_eq!(described(decide(&three, &kept)), "nothing");
        let healed_first = Wanted { exhausted: BTreeSet::new(), ..may_be_replaced(&three, &etcd) };
        assert_eq!(described(decide(&three, &healed_first)), "nothing");
        assert_eq!(described(decide(&three, &may_be_replaced(&three, &etcd))), "remediate b");
        let no_host = Wanted { spare: Knowledge::Known(Spare::Hosts(0)), ..may_be_replaced(&three, &etcd) };
        assert!(described(decide(&three, &no_host)).contains("there is no clean host"));
        let unknown = Wanted { spare: Knowledge::unknown("no answer"), ..may_be_replaced(&three, &etcd) };
        assert!(
            described(decide(&three, &unknown)).contains("not known whether a clean host is free: no answer")
        );
        let held = [up("a"), ill("b").with(|m| m.is_kept_out = true), up("c")];
        assert_eq!(described(decide(&held, &may_be_replaced(&held, &etcd))), "nothing");
    }

    #[test]
    fn the_ill_go_one_by_one_while_the_rest_can_bear_it() {
        let three = [up("a"), ill("b"), up("c")];
        assert_eq!(step(&three, &well(&three)), "remediate b");
        assert_eq!(step(&three, &EtcdView::Known(members("a+ b- c+"))), "remediate b");
        let why = step(&three, &EtcdView::Known(members("a+ b- c-")));
        assert!(why.starts_with("Machine b is ill and is kept: of the 2 members"), "{why}");
        assert!(step(&three, &EtcdView::Unknown("no way".to_owned())).ends_with("no way"));
        let two = [ill("a").born(2), ill("b").born(1), up("c")];
        assert_eq!(step(&two, &well(&two)), "remediate b");
        let busy = [up("a").with(|m| m.has_node = false), ill("b"), up("c")];
        assert!(step(&busy, &well(&busy)).contains("Machine a is not up"));
        let alone = [ill("a")];
        assert!(step(&alone, &well(&alone)).contains("the only one"));
        let change = Change::new("spec.version", Cost::Restart, "because");
        let cured = [ill("a").with(|m| m.changes.push(change))];
        assert_eq!(step(&cured, &well(&cured)), "update a");
        // Before the cluster has begun there is nothing to lose.
        let etcd = well(&alone);
        let begins = Wanted { initialized: false, replicas: 1, ..may_be_replaced(&alone, &etcd) };
        assert_eq!(described(decide(&alone, &begins)), "remediate a");
    }

    #[test]
    fn replacements_that_fail_again_are_counted() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let last = Remediated { machine: "x".to_owned(), at: at(0), retries: 1 };
        let limits = |max_retry, seconds| Limits {
            max_retry,
            retry_period: SignedDuration::from_secs(seconds),
            min_healthy: SignedDuration::from_secs(1000),
            last: Some(&last),
            now: at(0),
        };
        let retries =
            |limits: Limits<'_>, now| next("b", Limits { now: at(now), ..limits }).map(|next| next.retries);
        assert_eq!(retries(limits(None, 0), 10), Ok(2));
        assert_eq!(retries(limits(Some(2), 0), 10), Ok(2));
        assert!(retries(limits(Some(1), 0), 10).is_err());
        assert!(retries(limits(None, 60), 10).is_err());
        assert_eq!(retries(limits(Some(1), 60), 1000), Ok(0), "the last one was a success");
        let again = next("x", Limits { last: Some(&last), now: at(10), ..Limits::default() });
        assert_eq!(again, Ok(last.clone()), "a death between two writes counts once");
    }
}
