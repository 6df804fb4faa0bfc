//! What decisions about machines are made from: the few facts that count, taken out of many objects. Pure.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{self, types};
use capstan_api::core::{Machine, MachineAddress, MachineAddressType, MachineDeletionStatus};
use capstan_api::keep;
use capstan_api::meta::{annotations, labels};
use capstan_controller::etcd::Members;
use capstan_controller::{Knowledge, identity};
use capstan_distro::{Change, RESTART_GATE};
use capstan_plan::{Artifact, Epoch, Phase, PlanId, Report, Revision};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

pub(crate) use capstan_controller::plans::report;

use crate::healing;
use crate::names::{LEAVE_ETCD_HOOK, RETRY};
use crate::planner::{Record, drain_timeout};
use crate::workload::NodeView;

/// Condition of a Machine that says what its health check has found.
pub(crate) const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";

/// Condition of a Machine by which its health check asks its owner to act.
pub(crate) const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Reason of a Machine's deletion that waits for hooks.
const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";

/// What is known of etcd: its members, as a quorum of them says.
pub(crate) type EtcdView = Knowledge<Members>;

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
    /// Its health check has failed.
    pub(crate) is_unhealthy: bool,
    /// Its health check has failed, and its owner is asked to act.
    pub(crate) is_ill: bool,
    /// It was asked for, and the health check has succeeded since: the owner takes the request back.
    pub(crate) has_recovered: bool,
    /// The user keeps it out of everything.
    pub(crate) is_kept_out: bool,
    /// The MachineDeployment or MachineSet that it belongs to, with which it shares a budget.
    pub(crate) group: Option<String>,
    /// Since when nothing was heard of its agent, if that is longer than the limit.
    pub(crate) silent_since: Option<Timestamp>,
    /// How far healing has come.
    pub(crate) healing: healing::Record,
    /// No step of healing has helped.
    pub(crate) is_beyond_healing: bool,
    /// Identity, once the bootstrap provider has given it.
    pub(crate) id: Option<String>,
    pub(crate) provider_id: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) failure_domain: Option<String>,
    pub(crate) addresses: Vec<String>,
    /// Processor architecture, once the machine has said it.
    pub(crate) architecture: Option<String>,
    /// Its operating system, once it has said it.
    pub(crate) os_image: Option<String>,
    /// Whether it has ever become a Node.
    pub(crate) has_node: bool,
    /// Its Node. One that does not exist is not Ready.
    pub(crate) node: Knowledge<NodeView>,
    /// The user does not want pods to be moved away.
    pub(crate) never_drained: bool,
    /// For how long pods are moved away at most.
    pub(crate) drain_timeout: Option<SignedDuration>,
    pub(crate) kubelet_version: Option<String>,
    pub(crate) hook: Hook,
    /// Since when its deletion waits for hooks.
    pub(crate) awaited_since: Option<Timestamp>,
    pub(crate) plan: Option<PlanFacts>,
    /// The highest revision that the machine has spoken of.
    pub(crate) reported_revision: Option<Revision>,
    /// What the user asks to be tried again.
    pub(crate) retry: Option<String>,
    /// What differs from what the control plane asks for; empty for workers.
    pub(crate) changes: Vec<Change>,
    /// Whether etcd says that its member on the machine is well.
    pub(crate) is_heard_of: bool,
    /// Taken to be up. Only where the future is thought through, never where something is done.
    pub(crate) taken_as_up: bool,
}

/// How it stands with the hook that keeps a machine's host until it has left etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hook {
    /// There is none.
    #[default]
    None,
    /// It is there, and nobody waits for it yet.
    Set,
    /// It is the last thing that the machine's deletion waits for.
    Awaited,
}

/// The plan a machine has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanFacts {
    pub(crate) id: PlanId,
    /// The manager that wrote it.
    pub(crate) epoch: Epoch,
    /// What it was made from.
    pub(crate) inputs: String,
    pub(crate) expires: Timestamp,
    /// Signed by us, for this machine. Anything else is written anew.
    pub(crate) sound: bool,
    /// Whether its gate is open.
    pub(crate) is_open: bool,
    /// Since when pods are being moved away for it.
    pub(crate) drain_since: Option<Timestamp>,
    pub(crate) record: Record,
    /// The software in it that may still be running: of the version that ran before.
    pub(crate) programs: Vec<Artifact>,
    pub(crate) progress: Progress,
}

/// How a plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nobody has said that it ended.
    InFlight,
    /// The machine has come to the gate and waits there.
    AtGate,
    /// Carried out to its end.
    Applied,
    /// Given up by the machine, which says why.
    Failed(String),
}

impl MachineFacts {
    pub(crate) fn of(machine: &Machine, config: Option<&CapstanConfig>) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        let deletion = machine.spec.deletion.as_ref();
        Self {
            name: machine.name_any(),
            deleting: machine.metadata.deletion_timestamp.is_some(),
            created: machine.metadata.creation_timestamp.as_ref().map(|time| time.0),
            delete_first: machine.annotations().contains_key(annotations::DELETE_MACHINE),
            is_unhealthy: conditions::is_false(machine, HEALTH_CHECK_SUCCEEDED),
            is_ill: conditions::is_false(machine, HEALTH_CHECK_SUCCEEDED)
                && conditions::is_false(machine, OWNER_REMEDIATED),
            has_recovered: conditions::is_true(machine, HEALTH_CHECK_SUCCEEDED)
                && conditions::is_false(machine, OWNER_REMEDIATED),
            is_kept_out: keep::is_held(machine),
            group: group(machine),
            healing: healing::Record::of(machine),
            id: config.and_then(identity::of).map(str::to_owned),
            provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
            version: machine.spec.version.clone(),
            failure_domain: machine.spec.failure_domain.clone(),
            addresses: addresses(&status.addresses),
            has_node: status.node_ref.is_some(),
            never_drained: machine.annotations().contains_key(annotations::EXCLUDE_NODE_DRAINING),
            drain_timeout: drain_timeout(deletion.and_then(|deletion| deletion.node_drain_timeout_seconds)),
            kubelet_version: status
                .node_info
                .map(|info| info.kubelet_version)
                .filter(|version| !version.is_empty()),
            hook: hook(machine),
            awaited_since: awaited_since(status.deletion.as_ref()),
            retry: machine.annotations().get(RETRY).cloned(),
            ..Self::default()
        }
    }

    /// The name of its Node: plans give it the name of the Machine.
    pub(crate) fn node_name(&self) -> &str {
        &self.name
    }

    /// Whether its plan has been carried out and its Node is Ready in the version it should have. Not while that is
    /// unknown.
    pub(crate) fn is_up(&self) -> bool {
        self.taken_as_up
            || self.is_applied()
                && self.has_node
                && self.is_ready()
                && self.version.is_some()
                && self.kubelet_version == self.version
    }

    /// Whether its Node is known to be Ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.taken_as_up || self.node.is_known_and(|node| node.ready)
    }

    /// Whether its Node is known not to be Ready.
    pub(crate) fn is_known_lost(&self) -> bool {
        self.node.is_known_and(|node| !node.ready)
    }

    /// Whether we are known to keep new pods away from its Node. While that is unknown nothing is stopped: the gate asks
    /// for Nodes that are known.
    pub(crate) fn is_cordoned(&self) -> bool {
        self.node.is_known_and(|node| node.cordoned)
    }

    /// We have let pods on its Node again.
    pub(crate) fn note_uncordoned(&mut self) {
        if let Knowledge::Known(node) = &mut self.node {
            node.cordoned = false;
        }
    }

    /// Identifies the time since the machine was started, as its Node says.
    pub(crate) fn boot_id(&self) -> Option<&str> {
        match &self.node {
            Knowledge::Known(node) => node.boot_id.as_deref(),
            Knowledge::Unknown(_) => None,
        }
    }

    /// Why it does not count as up, for people.
    pub(crate) fn not_up(&self) -> String {
        match &self.node {
            Knowledge::Unknown(why) if self.has_node && self.is_applied() => {
                format!("waits to know whether Node {} is Ready: {why}", self.node_name())
            }
            Knowledge::Known(node) if !node.ready && self.has_node && self.is_applied() => {
                format!("waits for Node {} to be Ready", self.node_name())
            }
            _ => format!("waits for Machine {} to be up", self.name),
        }
    }

    /// As if it had done what it was told.
    pub(crate) fn take_as_up(&mut self) {
        (self.taken_as_up, self.has_node) = (true, true);
        self.node = Knowledge::Known(NodeView { ready: true, ..NodeView::default() });
        self.kubelet_version.clone_from(&self.version);
    }

    pub(crate) fn is_applied(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.progress == Progress::Applied)
    }

    /// Whether it has a plan that it has not carried out, or pods are still kept away because of one.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.is_cordoned() || self.plan.as_ref().is_some_and(|plan| plan.progress != Progress::Applied)
    }

    /// Whether it has given its plan up.
    pub(crate) fn has_failed(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| matches!(plan.progress, Progress::Failed(_)))
    }

    /// Whether it has a plan that would start Kubernetes again and may not yet: until then it runs as it did before,
    /// unless an earlier plan that did not come to its end has stopped it. That has not happened if etcd hears of it once
    /// it is done with earlier plans.
    pub(crate) fn is_held(&self) -> bool {
        let held = |plan: &PlanFacts| {
            let ended = matches!(plan.progress, Progress::Applied | Progress::Failed(_));
            let was_not_stopped = plan.progress == Progress::AtGate && self.is_heard_of;
            let runs = !plan.record.may_be_down() || was_not_stopped;
            plan.sound && !plan.is_open && !ended && plan.record.restarts() && runs
        };
        self.has_node && self.plan.as_ref().is_some_and(held)
    }

    /// Whether it was ever told to run Kubernetes, as far as anybody remembers.
    pub(crate) fn was_planned(&self) -> bool {
        self.plan.is_some() || self.reported_revision.is_some()
    }

    /// Whether it is up, or would be if it had not been told to become something else, which it has not begun.
    pub(crate) fn is_steady(&self) -> bool {
        self.is_up() || self.is_held() && self.is_ready()
    }

    /// Whether it is on its way out and no part of the control plane any more: its member was taken out of etcd, and only
    /// its host is still to be cleaned, however long that takes. Not known while etcd is not.
    pub(crate) fn has_left(&self, etcd: &EtcdView) -> bool {
        let is_member = |members: &Members| {
            crate::etcd::quorum::member_of(members, self.node_name(), &self.addresses).is_some()
        };
        self.deleting && self.hook == Hook::None && etcd.is_known_and(|members| !is_member(members))
    }

    /// Whether it carries out its first plan and was never a Node, so that it cannot be a member of etcd that others need.
    pub(crate) fn is_joining(&self) -> bool {
        let first = |plan: &PlanFacts| plan.record.ran.is_none() && plan.progress != Progress::Applied;
        !self.has_node && self.plan.as_ref().is_some_and(first)
    }

    /// Whether it has given its plan up for good.
    pub(crate) fn is_given_up(&self) -> bool {
        self.has_failed() && self.plan.as_ref().is_some_and(|plan| plan.record.again_at().is_none())
    }

    /// Oldest first; names decide between those of the same second.
    pub(crate) fn age(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }
}

/// What shares a budget: the machines of a MachineDeployment, or else of a MachineSet.
fn group(machine: &Machine) -> Option<String> {
    [labels::DEPLOYMENT_NAME, labels::SET_NAME].iter().find_map(|label| machine.labels().get(*label).cloned())
}

/// Addresses that a connection could be made to.
fn addresses(all: &[MachineAddress]) -> Vec<String> {
    let usable = |address: &&MachineAddress| {
        matches!(address.type_, MachineAddressType::InternalIP | MachineAddressType::ExternalIP)
    };
    all.iter().filter(usable).map(|address| address.address.clone()).collect()
}

fn hook(machine: &Machine) -> Hook {
    let hooks =
        machine.annotations().keys().filter(|key| key.starts_with(annotations::PRE_TERMINATE_HOOK_PREFIX));
    let hooks: Vec<&str> = hooks.map(String::as_str).collect();
    if !hooks.contains(&LEAVE_ETCD_HOOK) {
        return Hook::None;
    }
    let deleting = conditions::get(machine, types::DELETING);
    let waits = deleting.is_some_and(|condition| condition.reason == WAITING_FOR_PRE_TERMINATE_HOOK);
    // Ours is the last: whoever else has one may need the machine as it is.
    if waits && hooks.len() == 1 { Hook::Awaited } else { Hook::Set }
}

fn awaited_since(deletion: Option<&MachineDeletionStatus>) -> Option<Timestamp> {
    deletion?.wait_for_pre_terminate_hook_start_time.as_ref().map(|time| time.0)
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
            Progress::Failed(format!("{step}{why}{}", last_lines(told)))
        }
        Some(told) if told.phase == Phase::Waiting => {
            let at_gate = told.step.as_ref().is_some_and(|step| step.name.as_str() == RESTART_GATE);
            if at_gate { Progress::AtGate } else { Progress::InFlight }
        }
        _ => Progress::InFlight,
    }
}

/// How many of the last lines a machine printed are told.
const LINES: usize = 5;
/// How much of a line is told.
const CHARACTERS: usize = 200;

/// What the machine printed last, as it is told beside the reason.
fn last_lines(told: &capstan_plan::Progress) -> String {
    let excerpt = told.output.stderr.as_ref().or(told.output.stdout.as_ref());
    let text =
        excerpt.and_then(|excerpt| excerpt.tail.as_deref().or(excerpt.head.as_deref())).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LINES));
    last.map(|line| format!("\n  | {}", line.chars().take(CHARACTERS).collect::<String>())).collect()
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
    use capstan_controller::etcd::Member;
    use capstan_plan::{MachineIdentity, MachinePlan};

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

    /// Members by the Nodes they are on: `a+` is well, `b-` is ill, `c~` has no vote yet. The first leads.
    pub(crate) fn members(text: &str) -> Members {
        let member = |(word, id): (&str, u64)| {
            let (node, mark) = word.split_at(word.len() - 1);
            Member {
                id,
                name: format!("{node}-0000000{id}"),
                peer_urls: vec![format!("https://{node}:2380")],
                client_urls: vec![format!("https://{node}:2379")],
                is_learner: mark == "~",
                is_healthy: mark != "-",
            }
        };
        let members: Vec<Member> = text.split_whitespace().zip(1..).map(member).collect();
        Members { leader: members.first().map(|member| member.id), members }
    }

    /// A Node that is Ready, or is not.
    pub(crate) fn ready(ready: bool) -> Knowledge<NodeView> {
        Knowledge::Known(NodeView { ready, ..NodeView::default() })
    }

    impl MachineFacts {
        /// Its Node is known not to be Ready.
        pub(crate) fn lost(self) -> Self {
            self.with(|m| m.node = ready(false))
        }

        /// We keep pods away from its Node, which is Ready.
        pub(crate) fn cordoned(self) -> Self {
            self.with(|m| {
                m.node = Knowledge::Known(NodeView { ready: true, cordoned: true, ..NodeView::default() });
            })
        }

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
                epoch: Epoch(1),
                inputs: inputs.to_owned(),
                expires: Timestamp::MAX,
                sound: true,
                is_open: false,
                drain_since: None,
                record: Record { attempt: 1, ..Record::default() },
                programs: Vec::new(),
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
            up.node = ready(true);
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
            (
                json!({"plan": name(&plan), "phase": "Failed", "message": "it exited with 1",
                    "step": {"name": "ready", "index": 1, "total": 2},
                    "output": {"stderr": {"head": "first\n\nsecond\n"}}}),
                Progress::Failed("step ready: it exited with 1\n  | first\n  | second".to_owned()),
            ),
            (
                json!({"plan": name(&plan), "phase": "Waiting",
                    "step": {"name": "drained", "index": 1, "total": 2}}),
                Progress::AtGate,
            ),
            (
                json!({"plan": name(&plan), "phase": "Waiting",
                    "step": {"name": "other", "index": 1, "total": 2}}),
                Progress::InFlight,
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
        let lost = up.clone().lost();
        assert!(!lost.is_up() && lost.not_up().contains("to be Ready"));
        let unknown = up.clone().with(|m| m.node = Knowledge::unknown("no answer"));
        assert!(!unknown.is_up() && unknown.not_up().contains("no answer"));
        assert!(!up.clone().with(|m| m.kubelet_version = Some("v1.35.0".to_owned())).is_up());
        assert!(!up.clone().says(Progress::InFlight).is_up());
        assert_eq!(up.version.as_deref(), Some(VERSION));
    }
}
