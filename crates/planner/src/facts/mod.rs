//! What decisions about machines are made from: the few facts that count, taken out of many objects.
//!
//! How they are read from API objects is not decided here. *Unknown* is a value of its own: see [`Knowledge`].

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod report;

use capstan_plan::{Artifact, Epoch, PlanId, Revision};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

use crate::change::Change;
use crate::etcd::{Members, quorum};
use crate::healing;
use crate::knowledge::Knowledge;
use crate::plans::Record;
use crate::wait::{self, Wait};

pub use report::{progress, reported_revision};

/// Names of volumes, by the Node that they are on.
pub type LocalVolumes = BTreeMap<String, Vec<String>>;

/// Nodes by their name.
pub type NodesByName = BTreeMap<String, NodeView>;

/// What is known of one Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its kubelet says that it takes pods.
    pub ready: bool,
    /// We keep new pods away from it.
    pub cordoned: bool,
    /// Identifies the time since the machine was started.
    pub boot_id: Option<String>,
}

/// What is known of etcd: its members, as a quorum of them says.
pub type EtcdView = Knowledge<Members>;

/// One machine of the cluster.
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
    /// Somebody asked that it goes first when there are too many.
    pub delete_first: bool,
    /// Its health check has failed.
    pub is_unhealthy: bool,
    /// Its health check has failed, and its owner is asked to act.
    pub is_ill: bool,
    /// It was asked for, and the health check has succeeded since: the owner takes the request back.
    pub has_recovered: bool,
    /// The user keeps it out of everything.
    pub is_kept_out: bool,
    /// The MachineDeployment or MachineSet that it belongs to, with which it shares a budget.
    pub group: Option<String>,
    /// Since when nothing was heard of its agent, if that is longer than the limit.
    pub silent_since: Option<Timestamp>,
    /// How far healing has come.
    pub healing: healing::Record,
    /// No step of healing has helped.
    pub is_beyond_healing: bool,
    /// Identity, once the bootstrap provider has given it.
    pub id: Option<String>,
    /// Identity at the infrastructure provider, once there is one.
    pub provider_id: Option<String>,
    /// The Kubernetes version that it should run.
    pub version: Option<String>,
    /// Where it is placed.
    pub failure_domain: Option<String>,
    /// Addresses that a connection could be made to.
    pub addresses: Vec<String>,
    /// Processor architecture, once the machine has said it.
    pub architecture: Option<String>,
    /// Its operating system, once it has said it.
    pub os_image: Option<String>,
    /// Whether it has ever become a Node.
    pub has_node: bool,
    /// Its Node. One that does not exist is not Ready.
    pub node: Knowledge<NodeView>,
    /// The user does not want pods to be moved away.
    pub never_drained: bool,
    /// For how long pods are moved away at most.
    pub drain_timeout: Option<SignedDuration>,
    /// The version that its kubelet says.
    pub kubelet_version: Option<String>,
    /// The hook that keeps its host until it has left etcd.
    pub hook: Hook,
    /// Since when its deletion waits for hooks.
    pub awaited_since: Option<Timestamp>,
    /// The plan it has.
    pub plan: Option<PlanFacts>,
    /// The highest revision that the machine has spoken of.
    pub reported_revision: Option<Revision>,
    /// What the user asks to be tried again.
    pub retry: Option<String>,
    /// What differs from what the control plane asks for; empty for workers.
    pub changes: Vec<Change>,
    /// Whether etcd says that its member on the machine is well.
    pub is_heard_of: bool,
    /// Taken to be up. Only where the future is thought through, never where something is done.
    pub taken_as_up: bool,
}

/// How it stands with the hook that keeps a machine's host until it has left etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
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
pub struct PlanFacts {
    /// Digest and revision.
    pub id: PlanId,
    /// The manager that wrote it.
    pub epoch: Epoch,
    /// What it was made from.
    pub inputs: String,
    /// Until when it may be carried out.
    pub expires: Timestamp,
    /// Signed by us, for this machine. Anything else is written anew.
    pub sound: bool,
    /// Whether its gate is open.
    pub is_open: bool,
    /// Since when pods are being moved away for it.
    pub drain_since: Option<Timestamp>,
    /// What was written down with it, for the next one.
    pub record: Record,
    /// The software in it that may still be running: of the version that ran before.
    pub programs: Vec<Artifact>,
    /// How it goes.
    pub progress: Progress,
}

/// How a plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
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
    /// The name of its Node: plans give it the name of the Machine.
    pub fn node_name(&self) -> &str {
        &self.name
    }

    /// Whether its plan has been carried out and its Node is Ready in the version it should have. Not while that is
    /// unknown.
    pub fn is_up(&self) -> bool {
        self.taken_as_up
            || self.is_applied()
                && self.has_node
                && self.is_ready()
                && self.version.is_some()
                && self.kubelet_version == self.version
    }

    /// Whether it is known not to be up. Right after a start of the manager no Node is known, and that is no news of a machine
    /// which has carried out its plan.
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

    /// We have let pods on its Node again.
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

    /// Whether its plan has been carried out.
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
