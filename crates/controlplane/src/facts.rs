//! What decisions about machines are made from: the few facts that count, taken out of many objects. Pure.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_api::meta::annotations;
use capstan_controller::identity;
use capstan_distro::Change;
use capstan_plan::{Phase, PlanId, Report, Revision};
use jiff::Timestamp;
use kube::ResourceExt as _;

pub(crate) use capstan_controller::plans::report;

/// One machine of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MachineFacts {
    pub(crate) name: String,
    /// Whether it belongs to this control plane; otherwise it is a worker.
    pub(crate) control_plane: bool,
    pub(crate) deleting: bool,
    pub(crate) created: Option<Timestamp>,
    /// Somebody asked that it goes first when there are too many.
    pub(crate) delete_first: bool,
    /// Identity, once the bootstrap provider has given it.
    pub(crate) id: Option<String>,
    pub(crate) provider_id: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) failure_domain: Option<String>,
    /// Whether it has become a Node.
    pub(crate) has_node: bool,
    pub(crate) kubelet_version: Option<String>,
    pub(crate) plan: Option<PlanFacts>,
    /// The highest revision that the machine has spoken of.
    pub(crate) reported_revision: Option<Revision>,
    /// What differs from what the control plane asks for; empty for workers.
    pub(crate) changes: Vec<Change>,
}

/// The plan a machine has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanFacts {
    pub(crate) id: PlanId,
    /// What it was made from.
    pub(crate) inputs: String,
    pub(crate) expires: Timestamp,
    /// Signed by us, for this machine. Anything else is written anew.
    pub(crate) sound: bool,
    pub(crate) progress: Progress,
}

/// How a plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nobody has said that it ended.
    InFlight,
    /// Carried out to its end.
    Applied,
    /// Given up by the machine, which says why.
    Failed(String),
}

impl MachineFacts {
    pub(crate) fn of(machine: &Machine, config: Option<&CapstanConfig>) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        Self {
            name: machine.name_any(),
            deleting: machine.metadata.deletion_timestamp.is_some(),
            created: machine.metadata.creation_timestamp.as_ref().map(|time| time.0),
            delete_first: machine.annotations().contains_key(annotations::DELETE_MACHINE),
            id: config.and_then(identity::of).map(str::to_owned),
            provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
            version: machine.spec.version.clone(),
            failure_domain: machine.spec.failure_domain.clone(),
            has_node: status.node_ref.is_some(),
            kubelet_version: status
                .node_info
                .map(|info| info.kubelet_version)
                .filter(|version| !version.is_empty()),
            ..Self::default()
        }
    }

    /// Whether its plan has been carried out and its Node runs the version it should.
    pub(crate) fn is_up(&self) -> bool {
        self.is_applied() && self.has_node && self.version.is_some() && self.kubelet_version == self.version
    }

    pub(crate) fn is_applied(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.progress == Progress::Applied)
    }

    /// Whether it has a plan that it has not carried out.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.progress != Progress::Applied)
    }

    /// Oldest first; names decide between those of the same second.
    pub(crate) fn age(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }
}

/// How the plan goes by what the machine says. Only words about this very plan count.
pub(crate) fn progress(plan: PlanId, report: Option<&Report>) -> Progress {
    let Some(report) = report else { return Progress::InFlight };
    if report.applied() == Some(plan) {
        return Progress::Applied;
    }
    match report.about(plan) {
        Some(told) if matches!(told.phase, Phase::Failed | Phase::Refused) => {
            let step = told.step.as_ref().map(|step| format!("step {}: ", step.name)).unwrap_or_default();
            let why = told.message.as_deref().unwrap_or("the machine does not say why");
            Progress::Failed(format!("{step}{why}"))
        }
        _ => Progress::InFlight,
    }
}

/// The highest revision in a report.
pub(crate) fn reported_revision(report: &Report) -> Option<Revision> {
    let standing = match &report.standing {
        capstan_plan::Standing::Plan(progress) => Some(progress.plan.revision()),
        _ => None,
    };
    standing.max(report.applied().map(|plan| plan.revision()))
}

/// Facts for tests, as verbs.
#[cfg(test)]
pub(crate) mod fixtures {
    use super::*;
    use capstan_plan::{Epoch, MachineIdentity, MachinePlan};

    pub(crate) const VERSION: &str = "v1.36.0+k3s1";

    /// A plan's name, for any number.
    pub(crate) fn plan_id(revision: u64) -> PlanId {
        let machine =
            MachineIdentity { name: "m".parse().expect("a name"), machine_id: "i".parse().expect("an ID") };
        let revision = Revision::new(revision).expect("a revision");
        let mut plan = MachinePlan::new(machine, revision, Epoch(1), Timestamp::UNIX_EPOCH);
        let argv = capstan_plan::Argv::new(["true"]).expect("words");
        let action = capstan_plan::Action::Command(capstan_plan::Command::new(argv));
        plan.steps = vec![capstan_plan::Step::new("a".parse().expect("a name"), action)];
        plan.seal().expect("a plan").id()
    }

    impl MachineFacts {
        pub(crate) fn server(name: &str) -> Self {
            Self {
                name: name.to_owned(),
                control_plane: true,
                version: Some(VERSION.to_owned()),
                created: Some(Timestamp::UNIX_EPOCH),
                ..Self::default()
            }
        }

        pub(crate) fn worker(name: &str) -> Self {
            Self { control_plane: false, ..Self::server(name) }
        }

        pub(crate) fn provisioned(mut self) -> Self {
            self.id = Some(format!("id-of-{}", self.name));
            self.provider_id = Some(format!("host:///{}", self.name));
            self
        }

        pub(crate) fn planned(mut self, revision: u64, inputs: &str) -> Self {
            self = self.provisioned();
            self.plan = Some(PlanFacts {
                id: plan_id(revision),
                inputs: inputs.to_owned(),
                expires: Timestamp::MAX,
                sound: true,
                progress: Progress::InFlight,
            });
            self
        }

        pub(crate) fn says(mut self, progress: Progress) -> Self {
            if let Some(plan) = &mut self.plan {
                plan.progress = progress;
            }
            self
        }

        /// Planned, applied, and a Node.
        pub(crate) fn up(self) -> Self {
            let mut up = self.planned(1, "a").says(Progress::Applied);
            up.has_node = true;
            up.kubelet_version.clone_from(&up.version);
            up
        }

        pub(crate) fn born(mut self, second: i64) -> Self {
            self.created = Timestamp::from_second(second).ok();
            self
        }

        pub(crate) fn leaving(mut self) -> Self {
            self.deleting = true;
            self
        }

        pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::{VERSION, plan_id};
    use super::*;
    use serde_json::json;

    fn told(status: &serde_json::Value) -> Option<Report> {
        let object = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
            "spec": {"machineName": "m", "machineID": "id"},
            "status": status,
        });
        report(&serde_json::from_value(object).expect("a report"), "m", "id")
    }

    #[test]
    fn only_words_about_this_plan_count() {
        let (plan, other) = (plan_id(2), plan_id(1));
        let name = |id: &PlanId| json!({"digest": id.digest().to_string(), "revision": id.revision().get()});
        for (status, expected) in [
            (json!({}), Progress::InFlight),
            (json!({"plan": name(&plan), "phase": "Applying"}), Progress::InFlight),
            (json!({"plan": name(&plan), "phase": "Applied", "applied": name(&plan)}), Progress::Applied),
            (json!({"plan": name(&other), "phase": "Applied", "applied": name(&other)}), Progress::InFlight),
            (json!({"plan": name(&other), "phase": "Failed"}), Progress::InFlight),
            (
                json!({"plan": name(&plan), "phase": "Failed", "message": "no disk",
                    "step": {"name": "install", "index": 1, "total": 2}}),
                Progress::Failed("step install: no disk".to_owned()),
            ),
        ] {
            assert_eq!(progress(plan, told(&status).as_ref()), expected, "{status}");
        }
        // The right revision of other bytes.
        let forged = json!({"digest": other.digest().to_string(), "revision": 2});
        let status = json!({"plan": forged, "phase": "Applied", "applied": forged});
        assert_eq!(progress(plan, told(&status).as_ref()), Progress::InFlight);
    }

    #[test]
    fn up_means_applied_and_the_right_version() {
        let up = MachineFacts::server("a").up();
        assert!(up.is_up());
        assert!(!up.clone().with(|m| m.has_node = false).is_up());
        assert!(!up.clone().with(|m| m.kubelet_version = Some("v1.35.0".to_owned())).is_up());
        assert!(!up.clone().says(Progress::InFlight).is_up());
        assert_eq!(up.version.as_deref(), Some(VERSION));
    }
}
