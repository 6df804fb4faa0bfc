//! What decisions about machines are made from: the few facts that count, taken out of many objects.
//!
//! How they are read from API objects is not decided here. *Unknown* is a value of its own: see [`Knowledge`].

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod report;

use capstan_plan::{AgentProgram, Artifact, Capabilities, Digest, Epoch, PlanId, Revision};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

use crate::change::Change;
use crate::etcd::{Members, quorum};
use crate::healing;
use crate::knowledge::Knowledge;
use crate::plans::Record;
use crate::wait::{self, Wait};
use crate::windows::{Closed, Maintenance};

pub use report::{progress, reported_revision};

/// Names of volumes, by their Node.
pub type LocalVolumes = BTreeMap<String, Vec<String>>;

/// Nodes by name.
pub type NodesByName = BTreeMap<String, NodeView>;

/// The observed state of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// The condition `Ready` is true.
    pub ready: bool,
    /// Capstan has cordoned it.
    pub cordoned: bool,
    /// The boot ID of the machine.
    pub boot_id: Option<String>,
}

/// The members of etcd, as a quorum of them reports.
pub type EtcdView = Knowledge<Members>;

/// The facts about one machine of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// Name of the Machine.
    pub name: String,
    /// Whether it belongs to this control plane; otherwise it is a worker.
    pub control_plane: bool,
    /// Its Machine is being deleted.
    pub deleting: bool,
    /// When its Machine was created.
    pub created: Option<Timestamp>,
    /// The user has marked it to be deleted first in a scale-down.
    pub delete_first: bool,
    /// Its health check has failed.
    pub is_unhealthy: bool,
    /// Its health check has failed, and its owner must remediate it.
    pub is_ill: bool,
    /// Remediation was requested, and the health check has succeeded since: the owner withdraws the request.
    pub has_recovered: bool,
    /// The user has excluded it from all changes.
    pub is_kept_out: bool,
    /// When it may be drained and restarted.
    pub maintenance: Maintenance,
    /// The MachineDeployment or MachineSet that owns it, with which it shares a budget.
    pub group: Option<String>,
    /// The last sign of life of its agent, if that is longer ago than the limit.
    pub silent_since: Option<Timestamp>,
    /// The progress of healing.
    pub healing: healing::Record,
    /// No step of healing has helped.
    pub is_beyond_healing: bool,
    /// Machine ID, if the bootstrap provider has set it.
    pub id: Option<String>,
    /// Provider ID, if there is one.
    pub provider_id: Option<String>,
    /// The desired Kubernetes version.
    pub version: Option<String>,
    /// Its failure domain.
    pub failure_domain: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Processor architecture, if the machine has reported it.
    pub architecture: Option<String>,
    /// Operating system, if the machine has reported it.
    pub os_image: Option<String>,
    /// What its agent understands; `None` while no agent has reported.
    pub capabilities: Option<Capabilities>,
    /// Version of its agent, if the machine has reported it.
    pub agent_version: Option<String>,
    /// The program of its agent, if the machine has reported it.
    pub agent: Option<AgentFacts>,
    /// Whether it ever had a Node.
    pub has_node: bool,
    /// Its Node. One that does not exist is not Ready.
    pub node: Knowledge<NodeView>,
    /// The user has disabled the drain.
    pub never_drained: bool,
    /// Timeout of the drain.
    pub drain_timeout: Option<SignedDuration>,
    /// The version of its kubelet.
    pub kubelet_version: Option<String>,
    /// The hook that keeps its host until its member is removed from etcd.
    pub hook: Hook,
    /// Since when its deletion waits for hooks.
    pub awaited_since: Option<Timestamp>,
    /// Its current plan.
    pub plan: Option<PlanFacts>,
    /// The highest revision that the machine has reported.
    pub reported_revision: Option<Revision>,
    /// The value of the retry annotation.
    pub retry: Option<String>,
    /// The revision in the cancel annotation.
    pub cancel: Option<Revision>,
    /// Differences from the spec of the control plane; empty for workers.
    pub changes: Vec<Change>,
    /// Whether etcd reports its member as healthy.
    pub is_heard_of: bool,
    /// Assumed to be up. Set only for planned changes, never for decisions that are executed.
    pub taken_as_up: bool,
}

/// The state of the hook that keeps the host of a machine until its member is removed from etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// There is none.
    #[default]
    None,
    /// The hook is set, and the deletion does not wait for it yet.
    Set,
    /// The deletion of the machine waits for this hook only.
    Awaited,
}

/// The facts about the plan of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFacts {
    /// Digest and revision.
    pub id: PlanId,
    /// Epoch of the manager that wrote it.
    pub epoch: Epoch,
    /// Digest of its inputs.
    pub inputs: String,
    /// When it expires.
    pub expires: Timestamp,
    /// Whether this plane has signed it for this machine. Otherwise another plan is written.
    pub sound: bool,
    /// Whether its gate is open.
    pub is_open: bool,
    /// The last revision that the machine is told to cancel.
    pub cancelled: Option<Revision>,
    /// Since when the Node is being drained for it.
    pub drain_since: Option<Timestamp>,
    /// What was recorded with it, for the next plan.
    pub record: Record,
    /// Its artifacts that may still be running: those of the previous version.
    pub programs: Vec<Artifact>,
    /// The program of the agent that it names.
    pub agent: Option<AgentProgram>,
    /// Its progress.
    pub progress: Progress,
}

/// The program of an agent, as the machine reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentFacts {
    /// Digest of the program that runs.
    pub sha256: Digest,
    /// Whether it has replaced another one and is not confirmed.
    pub on_trial: bool,
    /// The program that the agent has tried and that does not work on the machine.
    pub rejected: Option<Digest>,
}

/// The progress of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its end is not reported.
    InFlight,
    /// The machine waits at the gate.
    AtGate,
    /// The plan is applied.
    Applied,
    /// The machine has given up, and why.
    Failed(String),
}

impl MachineFacts {
    /// Why the machine waits for a maintenance window, and when that opens; nothing if it need not wait. A window is for planned
    /// changes of machines that work: healing, and machines that are broken or leave, do not wait.
    pub(crate) fn awaited_window(&self, now: Timestamp) -> Option<Closed> {
        let is_broken = self.is_unhealthy || self.healing.active.is_some() || self.is_known_lost();
        if is_broken || self.deleting {
            return None;
        }
        self.maintenance.closed(now)
    }

    /// Whether it is held at its gate because no window of its Host is open, whatever those of its cluster say.
    pub(crate) fn waits_for_host(&self, now: Timestamp) -> bool {
        let is_drained =
            self.is_cordoned() || self.plan.as_ref().is_some_and(|plan| plan.drain_since.is_some());
        self.is_held()
            && !is_drained
            && self.maintenance.is_host_closed(now)
            && self.awaited_window(now).is_some()
    }

    /// The name of its Node, which plans set to the name of the Machine.
    pub fn node_name(&self) -> &str {
        &self.name
    }

    /// Whether its plan is applied and its Node is Ready with the desired version. False while that is unknown.
    pub fn is_up(&self) -> bool {
        self.taken_as_up
            || self.is_applied()
                && self.has_node
                && self.is_ready()
                && self.version.is_some()
                && self.kubelet_version == self.version
    }

    /// Whether it is known not to be up. After a start of the manager no Node is known yet, which says nothing about
    /// a machine that has applied its plan.
    pub fn is_known_not_up(&self) -> bool {
        let only_node_is_unknown = self.is_applied()
            && self.kubelet_version == self.version
            && matches!(self.node, Knowledge::Unknown(_));
        !self.is_up() && !only_node_is_unknown
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

    /// Records that Capstan has uncordoned its Node.
    pub fn note_uncordoned(&mut self) {
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
    pub(crate) fn not_up(&self) -> Wait {
        match &self.node {
            Knowledge::Unknown(why) if self.has_node && self.is_applied() => {
                wait::node_known(self.node_name(), why)
            }
            Knowledge::Known(node) if !node.ready && self.has_node && self.is_applied() => {
                wait::ready(self.node_name())
            }
            _ => wait::up(&self.name),
        }
    }

    /// As if it had done what it was told.
    pub(crate) fn take_as_up(&mut self) {
        (self.taken_as_up, self.has_node) = (true, true);
        self.node = Knowledge::Known(NodeView { ready: true, ..NodeView::default() });
        self.kubelet_version.clone_from(&self.version);
    }

    /// Whether its plan is applied.
    pub fn is_applied(&self) -> bool {
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
        let is_member =
            |members: &Members| quorum::member_of(members, self.node_name(), &self.addresses).is_some();
        self.deleting && self.hook == Hook::None && etcd.is_known_and(|members| !is_member(members))
    }

    /// Whether it has never applied a plan and was never a Node, so that it cannot be a member of etcd that others need.
    pub(crate) fn is_joining(&self) -> bool {
        let first = |plan: &PlanFacts| {
            (plan.record.ran.is_none() || plan.record.first) && plan.progress != Progress::Applied
        };
        !self.has_node && self.plan.as_ref().is_some_and(first)
    }

    /// Whether it has given its plan up for good.
    pub(crate) fn is_given_up(&self) -> bool {
        self.has_failed() && self.plan.as_ref().is_some_and(|plan| plan.record.again_at().is_none())
    }

    /// Sort key: oldest first, then by name.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::VERSION;
    use super::*;

    #[test]
    fn up_means_applied_and_the_right_version() {
        let up = MachineFacts::server("a").up();
        assert!(up.is_up());
        assert!(!up.clone().with(|m| m.has_node = false).is_up());
        let lost = up.clone().lost();
        assert!(!lost.is_up() && lost.not_up().contains("to be Ready"));
        let unknown = up.clone().with(|m| m.node = Knowledge::unknown("no answer"));
        assert!(!unknown.is_up() && unknown.not_up().contains("no answer"));
        assert!(!unknown.is_known_not_up(), "what is unknown is no news");
        assert!(unknown.clone().with(|m| m.kubelet_version = None).is_known_not_up());
        assert!(up.clone().with(|m| m.node = fixtures::ready(false)).is_known_not_up());
        assert!(!up.clone().with(|m| m.kubelet_version = Some("v1.35.0".to_owned())).is_up());
        assert!(!up.clone().says(Progress::InFlight).is_up());
        assert_eq!(up.version.as_deref(), Some(VERSION));
    }
}
