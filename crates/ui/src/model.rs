//! The data that pages show, ready to print.

use serde::Serialize;

use crate::action::{Action, Target};

/// Colour of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// The state is as desired.
    Good,
    /// In progress; no error.
    Waiting,
    /// A person must act.
    Bad,
    /// None of the other tones.
    #[default]
    Neutral,
}

/// A point in time, and how long ago it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Age {
    /// RFC 3339.
    pub at: String,
    /// Age, such as `5m`.
    pub text: String,
}

/// An object that waits, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Kind and name of the object that waits.
    pub object: String,
    /// Reason of its condition.
    pub reason: String,
    /// Message of its condition.
    pub message: String,
    /// Since when it waits.
    pub since: Option<Age>,
    /// The controller or person that must act.
    pub owner: String,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Since when.
    pub since: Option<Age>,
    /// Colour.
    pub tone: Tone,
}

/// The conditions of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConditionList {
    /// Kind and name of the object.
    pub object: String,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// A Kubernetes Event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When it happened last.
    pub last: Option<Age>,
    /// Kind and name of the object.
    pub object: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// How often it happened.
    pub count: i32,
    /// Colour.
    pub tone: Tone,
}

/// The part of a list that a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paging {
    /// Page, counted from 1.
    pub page: usize,
    /// Last page.
    pub last: usize,
    /// Rows on all pages.
    pub total: usize,
}

impl Paging {
    /// The paging and the range of rows for page `page` of `total` rows, with `size` rows on each page.
    pub fn of(total: usize, page: usize, size: usize) -> (Self, std::ops::Range<usize>) {
        let last = total.div_ceil(size).max(1);
        let page = page.clamp(1, last);
        let start = (page - 1) * size;
        (Self { page, last, total }, start..total.min(start + size))
    }
}

/// A count with a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// What is counted.
    pub label: String,
    /// How many.
    pub count: usize,
    /// Colour.
    pub tone: Tone,
}

/// An action that the user can start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Name of the action.
    pub action: &'static str,
    /// Text on the button.
    pub label: &'static str,
    /// The object that it applies to.
    pub target: Target,
}

impl Offer {
    /// Creates the offer of an action.
    pub fn new(action: Action, target: Target) -> Self {
        Self { action: action.name(), label: action.label(), target }
    }
}

/// The first page: clusters and hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fleet {
    /// Totals of all objects, without the filter.
    pub totals: Vec<Count>,
    /// One page of clusters.
    pub clusters: Vec<ClusterRow>,
    /// Which page.
    pub paging: Paging,
    /// Hosts by failure domain.
    pub domains: Vec<Domain>,
    /// What could not be read, with the reason.
    pub notices: Vec<String>,
}

/// A cluster as a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Desired version of Kubernetes.
    pub version: String,
    /// Phase.
    pub phase: String,
    /// Health in one word.
    pub health: String,
    /// Colour.
    pub tone: Tone,
    /// Ready control plane machines, such as `3/3`.
    pub servers: String,
    /// Ready workers.
    pub workers: String,
    /// Why it waits, if it does.
    pub waiting: Option<Waiting>,
}

/// Hosts of one failure domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Domain {
    /// Name; empty for hosts without one.
    pub name: String,
    /// Hosts by state.
    pub states: Vec<Count>,
    /// The first hosts of the domain.
    pub hosts: Vec<HostCell>,
    /// Number of hosts that are not listed.
    pub more: usize,
}

/// A host as a square.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostCell {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// State.
    pub state: String,
    /// Colour.
    pub tone: Tone,
}

/// One hand-off between controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HandOff {
    /// Name of the hand-off.
    pub what: String,
    /// `done`, `waiting` or `pending`.
    pub state: String,
    /// Kind and name of the object with the state.
    pub object: String,
    /// Why it waits.
    pub waiting: Option<Waiting>,
}

/// A line of the object tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeLine {
    /// Depth, from 0.
    pub depth: usize,
    /// Role, kind and name.
    pub name: String,
    /// Name of the Machine, if the line is one.
    pub machine: Option<String>,
    /// Name of the Host, if the line is one.
    pub host: Option<String>,
    /// Version of Kubernetes.
    pub version: String,
    /// Ready replicas of all replicas, such as `2/3`.
    pub ready: String,
    /// Up-to-date replicas.
    pub up_to_date: String,
    /// The condition that is shown, if the object has one.
    pub condition: Option<Condition>,
}

/// A revision of a MachineDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Number.
    pub number: i64,
    /// Name of the MachineSet.
    pub set: String,
    /// Version of Kubernetes.
    pub version: String,
    /// When it was created.
    pub created: Option<Age>,
    /// Number of its Machines.
    pub replicas: i32,
    /// Whether it is the desired revision.
    pub current: bool,
}

/// A machine in a rollout that is in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RolloutMachineRow {
    /// Name of the Machine.
    pub machine: String,
    /// `failed`, `now`, `next`, `later` or `held`.
    pub turn: String,
    /// What the machine does or waits for.
    pub doing: String,
    /// Since when.
    pub since: Option<Age>,
    /// Colour.
    pub tone: Tone,
}

/// The last change of a machine: the plan that was written for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineChange {
    /// Name of the Machine.
    pub machine: String,
    /// What the plan changes.
    pub change: String,
    /// When the plan was written.
    pub written: Option<Age>,
    /// How far the agent is with it.
    pub state: String,
    /// When the agent ended its last step.
    pub ended: Option<Age>,
    /// Colour.
    pub tone: Tone,
}

/// The rollouts of a control plane or of a MachineDeployment: the one in progress, and earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rollout {
    /// Kind and name of the object.
    pub object: String,
    /// Progress; empty if no rollout is in progress.
    pub progress: String,
    /// Since when it is in progress.
    pub since: Option<Age>,
    /// Why it does not continue, as its controller says; empty if it does.
    pub waits: String,
    /// The machines that are not up to date, in the order of their turns.
    pub turns: Vec<RolloutMachineRow>,
    /// The last change of each machine, the newest first.
    pub changes: Vec<MachineChange>,
    /// Number of changes that are not listed.
    pub changes_more: usize,
    /// Revisions of a MachineDeployment, the newest first.
    pub revisions: Vec<Revision>,
}

/// One cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterPage {
    /// The cluster.
    pub row: ClusterRow,
    /// Endpoint of its API server.
    pub endpoint: String,
    /// Machines by version of Kubernetes.
    pub versions: Vec<Count>,
    /// The machine whose hand-offs are shown.
    pub machine: Option<String>,
    /// Its hand-offs.
    pub handoffs: Vec<HandOff>,
    /// The chain from the cluster to the object that waits.
    pub chain: Vec<Waiting>,
    /// All objects.
    pub tree: Vec<TreeLine>,
    /// Number of lines that are not listed.
    pub tree_more: usize,
    /// Conditions of the cluster and its control plane.
    pub conditions: Vec<ConditionList>,
    /// Newest first.
    pub events: Vec<Event>,
    /// Rollouts of its control plane and of its MachineDeployments.
    pub rollouts: Vec<Rollout>,
    /// Actions that the user can start.
    pub offers: Vec<Offer>,
}

/// A step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanStep {
    /// Name.
    pub name: String,
    /// `done`, `running`, `failed` or `pending`.
    pub state: String,
}

/// The plan of a machine, and how far the agent is with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanProgress {
    /// Revision.
    pub revision: i64,
    /// Digest, shortened.
    pub digest: String,
    /// Phase that the agent reports.
    pub phase: String,
    /// Colour.
    pub tone: Tone,
    /// Steps in order.
    pub steps: Vec<PlanStep>,
    /// Attempts at the current step.
    pub attempts: i32,
    /// The agent's message about it.
    pub message: String,
    /// End of the standard output of the current step.
    pub stdout: String,
    /// End of its standard error.
    pub stderr: String,
    /// Bytes of output that the agent has dropped.
    pub omitted: i64,
    /// Newest revision that was applied completely.
    pub applied: Option<i64>,
    /// What the plan changes on the machine; empty if unknown.
    pub change: String,
    /// When the plan was written.
    pub written: Option<Age>,
    /// Plans that were replaced, newest first.
    pub earlier: Vec<EarlierPlan>,
}

/// A plan that another one has replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EarlierPlan {
    /// Revision.
    pub revision: u64,
    /// What the plan changed on the machine.
    pub change: String,
    /// When it was written.
    pub written: Option<Age>,
    /// How it ended.
    pub ending: String,
    /// Colour.
    pub tone: Tone,
}

/// The agent's ledger: changes on a machine that a reset undoes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerView {
    /// Number of items.
    pub total: i64,
    /// The newest items, the last one first.
    pub items: Vec<LedgerLine>,
}

/// One item of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerLine {
    /// Kind of item.
    pub kind: String,
    /// Path, or step name of a command.
    pub name: String,
    /// What a reset does with the item.
    pub reset: String,
}

/// A probe of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Name.
    pub name: String,
    /// Whether it succeeds.
    pub healthy: bool,
    /// Result of the probe.
    pub message: String,
    /// Since when.
    pub since: Option<Age>,
}

/// A property of a machine or host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Label.
    pub label: String,
    /// Value.
    pub value: String,
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachinePage {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Cluster.
    pub cluster: String,
    /// Claimed host, if any.
    pub host: Option<String>,
    /// Version of Kubernetes.
    pub version: String,
    /// Phase.
    pub phase: String,
    /// Colour.
    pub tone: Tone,
    /// Name of the Node, once it has registered.
    pub node: String,
    /// Hand-offs, in order.
    pub handoffs: Vec<HandOff>,
    /// Its plan.
    pub plan: Option<PlanProgress>,
    /// Probes.
    pub probes: Vec<Probe>,
    /// Facts that the machine reports.
    pub facts: Vec<Fact>,
    /// The agent's ledger.
    pub ledger: Option<LedgerView>,
    /// Last contact with the agent.
    pub contact: Option<Age>,
    /// Conditions of the Machine and the objects behind it.
    pub conditions: Vec<ConditionList>,
    /// Newest first.
    pub events: Vec<Event>,
    /// Actions that the user can start.
    pub offers: Vec<Offer>,
}

/// The inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hosts {
    /// One page of hosts.
    pub hosts: Vec<HostRow>,
    /// Which page.
    pub paging: Paging,
    /// All hosts by state.
    pub states: Vec<Count>,
    /// What could not be read, with the reason.
    pub notices: Vec<String>,
}

/// A host as a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// State.
    pub state: String,
    /// Colour.
    pub tone: Tone,
    /// Address.
    pub address: String,
    /// Failure domain.
    pub domain: String,
    /// Cluster of the machine that has claimed it.
    pub cluster: String,
    /// Name of that machine.
    pub machine: String,
    /// Reason why the host is not usable.
    pub reason: String,
    /// The problem with its remedy.
    pub problem: String,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostPage {
    /// The host.
    pub row: HostRow,
    /// Facts that the host reports.
    pub facts: Vec<Fact>,
    /// Its conditions.
    pub conditions: Vec<ConditionList>,
    /// Newest first.
    pub events: Vec<Event>,
    /// Actions that the user can start.
    pub offers: Vec<Offer>,
}

/// The effects of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Summary in one sentence.
    pub summary: String,
    /// Colour.
    pub tone: Tone,
    /// Machines, in the order in which they change.
    pub machines: Vec<PreviewMachine>,
    /// Objects of the manifests.
    pub objects: Vec<PreviewObject>,
    /// What a controller would reject.
    pub refusals: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// The effect on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreviewMachine {
    /// Name.
    pub name: String,
    /// Owner.
    pub owner: String,
    /// The outcome, such as `restart`.
    pub outcome: String,
    /// Colour.
    pub tone: Tone,
    /// Position in the order, counted from 1.
    pub step: Option<usize>,
    /// Whether the Machine stays and keeps its host.
    pub kept: bool,
    /// Fields that cause the change.
    pub fields: Vec<PreviewField>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// The effect on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreviewObject {
    /// Kind and name.
    pub name: String,
    /// `create`, `change`, `unchanged` or `refused`.
    pub action: String,
    /// Colour.
    pub tone: Tone,
    /// Fields that would change.
    pub fields: Vec<PreviewField>,
    /// Why the API server would reject it.
    pub refusals: Vec<String>,
}

/// A field that would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreviewField {
    /// Path.
    pub field: String,
    /// Current value.
    pub from: Option<String>,
    /// Value after the change.
    pub to: Option<String>,
    /// Cost class.
    pub cost: String,
    /// Reason for the cost.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_outside_the_list_is_the_nearest_one() {
        for (total, page, expected, range) in [
            (0, 1, 1, 0..0),
            (120, 1, 1, 0..50),
            (120, 3, 3, 100..120),
            (120, 99, 3, 100..120),
            (120, 0, 1, 0..50),
        ] {
            let (paging, rows) = Paging::of(total, page, 50);
            assert_eq!((paging.page, rows), (expected, range), "{total} {page}");
        }
    }
}
