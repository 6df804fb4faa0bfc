//! Earlier plans of a machine, for people: what each changed, and how it ended. No decision depends on them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::facts::{MachineFacts, Progress};

/// Earlier plans that are kept. The annotation that holds them must stay small in fleets of thousands of machines.
const KEPT: usize = 8;

/// What a plan changes on its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Effect {
    /// The first start of Kubernetes.
    Start {
        /// Version that is started.
        to: String,
    },
    /// Another version of Kubernetes.
    Version {
        /// Version that ran before.
        from: String,
        /// Version that runs afterwards.
        to: String,
    },
    /// It is not known what ran before.
    Unknown {
        /// Version that runs afterwards.
        to: String,
    },
    /// Configuration that needs a drain and a restart.
    Drain,
    /// Configuration that needs a restart.
    Restart,
    /// Configuration that needs no restart.
    Live,
    /// A kind of change that a later version of Capstan has recorded.
    #[serde(other)]
    Other,
}

/// How a plan ended, as far as the machine had reported it when the next plan was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// All its steps were done.
    Applied,
    /// A step failed.
    Failed,
    /// Another plan replaced it before its end was reported.
    Replaced,
    /// A kind of ending that a later version of Capstan has recorded.
    #[serde(other)]
    Other,
}

/// A plan that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Revision of the plan.
    pub revision: u64,
    /// What the plan changed.
    pub effect: Effect,
    /// The number of the attempt with the same inputs, from 1.
    pub attempt: u32,
    /// When the plan was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Timestamp>,
    /// How it ended.
    pub ending: Ending,
}

/// What the plan of this record changes.
pub fn effect(record: &Record) -> Effect {
    let to = &record.setup;
    match &record.ran {
        None => Effect::Start { to: to.version.clone() },
        Some(ran) if ran.is_uncertain() => Effect::Unknown { to: to.version.clone() },
        Some(ran) if ran.version != to.version => {
            Effect::Version { from: ran.version.clone(), to: to.version.clone() }
        }
        Some(_) if record.drains() => Effect::Drain,
        Some(_) if record.restarts() => Effect::Restart,
        Some(_) => Effect::Live,
    }
}

/// The earlier plans that the record of the next plan holds: the current one, then those that its own record holds, newest
/// first.
pub fn earlier(machine: &MachineFacts) -> Vec<Earlier> {
    let Some(plan) = &machine.plan else { return Vec::new() };
    let ending = match plan.progress {
        Progress::Applied => Ending::Applied,
        Progress::Failed(_) => Ending::Failed,
        Progress::InFlight | Progress::AtGate => Ending::Replaced,
    };
    let current = Earlier {
        revision: plan.id.revision().get(),
        effect: effect(&plan.record),
        attempt: plan.record.attempt,
        written: plan.record.written,
        ending,
    };
    // A plan that is signed again keeps its revision.
    let before = plan.record.earlier.iter().filter(|earlier| earlier.revision != current.revision);
    std::iter::once(current.clone()).chain(before.cloned()).take(KEPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::Setup;

    fn setup(version: &str, restart: &str, drain: &str) -> Setup {
        Setup { version: version.to_owned(), restart: restart.to_owned(), drain: drain.to_owned() }
    }

    #[test]
    fn the_effect_of_a_plan_follows_from_what_ran_before() {
        let to = || "v2".to_owned();
        for (ran, expected) in [
            (None, Effect::Start { to: to() }),
            (Some(setup("", "", "")), Effect::Unknown { to: to() }),
            (Some(setup("v1", "a", "a")), Effect::Version { from: "v1".to_owned(), to: to() }),
            (Some(setup("v2", "a", "a")), Effect::Drain),
            (Some(setup("v2", "a", "b")), Effect::Restart),
            (Some(setup("v2", "b", "b")), Effect::Live),
        ] {
            let record = Record { setup: setup("v2", "b", "b"), ran, ..Record::default() };
            assert_eq!(effect(&record), expected, "{record:?}");
        }
    }

    #[test]
    fn a_machine_without_a_plan_has_no_earlier_ones() {
        assert_eq!(earlier(&MachineFacts::worker("w")), []);
    }

    #[test]
    fn the_current_plan_is_the_newest_of_the_earlier_ones_with_its_end() {
        for (progress, ending) in [
            (Progress::Applied, Ending::Applied),
            (Progress::Failed("no space".to_owned()), Ending::Failed),
            (Progress::InFlight, Ending::Replaced),
            (Progress::AtGate, Ending::Replaced),
        ] {
            let machine = MachineFacts::worker("w").planned(3, "a").says(progress);
            let found = earlier(&machine);
            assert_eq!((found.len(), found[0].revision, found[0].ending), (1, 3, ending));
        }
    }

    #[test]
    fn the_oldest_is_forgotten_and_a_revision_occurs_once() {
        let mut machine = MachineFacts::worker("w").planned(1, "a");
        for revision in 2..20 {
            let known = earlier(&machine);
            machine = machine.planned(revision, "a");
            let plan = machine.plan.as_mut().expect("a plan");
            plan.record.earlier = known;
        }
        let revisions = |machine: &MachineFacts| -> Vec<u64> {
            earlier(machine).iter().map(|earlier| earlier.revision).collect()
        };
        assert_eq!(revisions(&machine), [19, 18, 17, 16, 15, 14, 13, 12]);
        // The same revision is written again when it is signed with another key.
        let plan = machine.plan.as_mut().expect("a plan");
        plan.record.earlier = vec![Earlier { revision: 19, ..plan.record.earlier[0].clone() }];
        assert_eq!(revisions(&machine), [19]);
    }

    #[test]
    fn records_of_a_later_version_are_readable() {
        let text =
            r#"{"revision":4,"effect":{"kind":"reboot","of":"x"},"attempt":1,"ending":"cancelled","more":1}"#;
        let read: Earlier = serde_json::from_str(text).expect("an earlier plan");
        assert_eq!((read.effect, read.ending), (Effect::Other, Ending::Other));
        let written = Earlier {
            revision: 1,
            effect: Effect::Version { from: "v1".to_owned(), to: "v2".to_owned() },
            attempt: 2,
            written: None,
            ending: Ending::Applied,
        };
        let text = serde_json::to_string(&written).expect("JSON");
        assert_eq!(
            text,
            r#"{"revision":1,"effect":{"kind":"version","from":"v1","to":"v2"},"attempt":2,"ending":"applied"}"#
        );
        assert_eq!(serde_json::from_str::<Earlier>(&text).expect("an earlier plan"), written);
    }
}
