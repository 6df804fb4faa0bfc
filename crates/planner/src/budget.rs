//! The number of workers of a group that may be down at a time.
//!
//! A group is a MachineDeployment, whose `maxUnavailable` counts; other workers are changed one at a time. Others do
//! not wait for a machine that has been silent for too long, could not be healed, has a failed plan, or is on hold.
//! Such a machine uses up the budget, but never all of it: one machine at a time can always continue.

use jiff::Timestamp;
use std::collections::BTreeMap;

use crate::facts::MachineFacts;

/// The disruption budget of a group of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of its machines that may be unavailable at a time, at least one.
    pub most: usize,
    /// When this time has passed, machines that were created before it are restarted.
    pub restart_after: Option<Timestamp>,
}

/// Budgets by the name of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets(BTreeMap<String, Budget>);

impl FromIterator<(String, Budget)> for Budgets {
    fn from_iter<T: IntoIterator<Item = (String, Budget)>>(budgets: T) -> Self {
        Self(budgets.into_iter().collect())
    }
}

impl Budgets {
    #[cfg(test)]
    pub(crate) fn with(group: &str, most: usize) -> Self {
        [(group.to_owned(), Budget { most, restart_after: None })].into_iter().collect()
    }

    fn most(&self, machine: &MachineFacts) -> usize {
        machine.group.as_ref().and_then(|group| self.0.get(group)).map_or(1, |budget| budget.most)
    }

    /// `spec.rollout.after` of the MachineDeployment of a worker.
    pub fn restart_after(&self, machine: &MachineFacts) -> Option<Timestamp> {
        self.0.get(machine.group.as_ref()?)?.restart_after
    }

    /// Whether one more worker of the group may be busy, beside those of which `is_busy` says so.
    ///
    /// # Errors
    /// If not: which machine it waits for.
    pub(crate) fn room<'a>(
        &self,
        machine: &MachineFacts,
        all: &'a [MachineFacts],
        is_busy: impl Fn(&MachineFacts) -> bool,
    ) -> Result<(), &'a MachineFacts> {
        let peers = all.iter().filter(|other| {
            !other.control_plane
                && !other.deleting
                && other.name != machine.name
                && other.group == machine.group
        });
        let (skipped, counted): (Vec<&MachineFacts>, Vec<_>) =
            peers.filter(|peer| is_busy(peer)).partition(|peer| is_skipped(peer));
        let most = self.most(machine).saturating_sub(skipped.len()).max(1);
        match counted.first() {
            Some(busy) if counted.len() >= most => Err(busy),
            _ => Ok(()),
        }
    }
}

/// Whether a rollout does not wait for the machine: it may never carry out its plan.
pub(crate) fn is_skipped(machine: &MachineFacts) -> bool {
    let is_lost = machine.silent_since.is_some() || machine.is_beyond_healing;
    machine.is_kept_out || is_lost || machine.is_given_up()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Progress;

    fn worker(name: &str) -> MachineFacts {
        MachineFacts::worker(name).up().with(|m| m.group = Some("md".to_owned()))
    }

    fn busy(name: &str) -> MachineFacts {
        worker(name).says(Progress::InFlight)
    }

    fn room(budgets: &Budgets, all: &[MachineFacts]) -> Result<(), String> {
        budgets.room(&all[0], all, MachineFacts::is_in_flight).map_err(|other| other.name.clone())
    }

    #[test]
    fn as_many_may_be_busy_as_allowed() {
        let two = Budgets::with("md", 2);
        assert_eq!(room(&two, &[worker("a"), busy("b"), worker("c")]), Ok(()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), busy("c")]), Err("b".to_owned()));
        let elsewhere = busy("c").with(|m| m.group = Some("other".to_owned()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), elsewhere]), Ok(()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), busy("c").leaving()]), Ok(()));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let one = Budgets::with("md", 1);
        let silent = busy("b").with(|m| m.silent_since = Some(Timestamp::UNIX_EPOCH));
        let held = busy("b").with(|m| m.is_kept_out = true);
        let given_up = busy("b").says(Progress::Failed("no disk".to_owned())).with(|m| {
            m.plan.as_mut().expect("a plan").record.attempt = crate::plans::MOST_ATTEMPTS;
        });
        let beyond = busy("b").with(|m| m.is_beyond_healing = true);
        for skipped in [silent, held, given_up, beyond] {
            assert_eq!(room(&one, &[worker("a"), skipped.clone()]), Ok(()), "{skipped:?}");
            let beside = [worker("a"), skipped.clone(), busy("c")];
            assert_eq!(room(&one, &beside), Err("c".to_owned()), "one at a time goes on");
            // It counts: of two that may be away one is.
            assert_eq!(room(&Budgets::with("md", 2), &beside), Err("c".to_owned()));
            assert_eq!(room(&Budgets::with("md", 3), &beside), Ok(()));
        }
    }
}
