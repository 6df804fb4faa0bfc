//! Which plans a machine is told to cancel.

use capstan_plan::{Capability, Revision};

use crate::facts::{MachineFacts, Progress};

/// The last revision that the machine is to cancel, if the user says so and the machine was not told yet. A plan that has ended,
/// or that the machine has passed, is not cancelled; neither is one that does not exist yet.
pub fn cancel(machine: &MachineFacts) -> Option<Revision> {
    let (asked, plan) = (machine.cancel?, machine.plan.as_ref()?);
    let can = machine.capabilities.as_ref().is_some_and(|known| known.has(Capability::Cancel));
    let is_ahead = machine.reported_revision.is_some_and(|reported| asked < reported);
    let is_over = matches!(plan.progress, Progress::Applied | Progress::Failed(_));
    let is_told = plan.cancelled.is_some_and(|told| asked <= told);
    let is_known = asked <= plan.id.revision();
    (can && plan.sound && is_known && !is_ahead && !is_over && !is_told).then_some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::Capabilities;

    fn revision(number: u64) -> Option<Revision> {
        Revision::new(number).ok()
    }

    #[test]
    fn a_plan_in_flight_is_cancelled_once_and_no_other() {
        let machine = || {
            MachineFacts::worker("w").planned(7, "a").with(|m| {
                m.capabilities = Some(Capabilities::all());
                (m.cancel, m.reported_revision) = (revision(7), revision(7));
            })
        };
        assert_eq!(cancel(&machine()), revision(7));
        let plan = |change: fn(&mut crate::facts::PlanFacts)| {
            machine().with(|m| change(m.plan.as_mut().expect("a plan")))
        };
        for (case, machine, expected) in [
            ("nothing is asked for", machine().with(|m| m.cancel = None), None),
            (
                "an earlier plan still runs",
                machine().with(|m| (m.cancel, m.reported_revision) = (revision(6), revision(6))),
                revision(6),
            ),
            ("the machine is beyond it", machine().with(|m| m.cancel = revision(6)), None),
            ("there is no such plan yet", machine().with(|m| m.cancel = revision(8)), None),
            ("nothing is reported", machine().with(|m| m.reported_revision = None), revision(7)),
            (
                "the agent cannot",
                machine().with(|m| m.capabilities = Some(Capabilities::FIRST_RELEASE)),
                None,
            ),
            ("nothing is known of the agent", machine().with(|m| m.capabilities = None), None),
            ("at its gate", machine().says(Progress::AtGate), revision(7)),
            ("applied", machine().says(Progress::Applied), None),
            ("failed", machine().says(Progress::Failed("why".to_owned())), None),
            ("told", plan(|plan| plan.cancelled = revision(7)), None),
            ("told of an earlier one", plan(|plan| plan.cancelled = revision(6)), revision(7)),
            ("not ours", plan(|plan| plan.sound = false), None),
        ] {
            assert_eq!(cancel(&machine), expected, "{case}");
        }
    }
}
