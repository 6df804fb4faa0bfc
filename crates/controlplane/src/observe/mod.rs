//! The observations of one reconcile: objects, and the facts that decisions are made from. Does not write.

mod facts;
pub(crate) mod groups;
pub(crate) mod hosts;
pub(crate) mod machine;
mod objects;

use capstan_api::core::Machine;
use capstan_controller::error::Result;
use capstan_controller::{Knowledge, Next};
use capstan_plan::TrustedKeys;
use capstan_planner::ending::Ending;
use capstan_planner::facts::{EtcdView, MachineFacts, NodesByName};
use capstan_planner::healing::Healing;
use capstan_planner::machines::MachineStep;
use capstan_planner::plans::{AgentUpgrades, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use facts::maintenance;
pub(crate) use objects::{Machines, Secrets};

use crate::certificates::{Keys, Replacement};
use crate::scope::Scope;
use crate::workload::Workload;

/// Resync of a control plane that waits: watches trigger reconciles, but no event reports a silent agent.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Requeue while an initialized API server does not respond.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// What one reconcile has observed so far, and what its phases have decided. The status is computed from it at the end.
pub(crate) struct Observed<'a> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) secrets: Secrets,
    pub(crate) objects: Machines,
    /// Machines of the control plane after the writes of this reconcile.
    pub(crate) own: Vec<Machine>,
    pub(crate) facts: Vec<MachineFacts>,
    nodes: Knowledge<NodesByName>,
    pub(crate) etcd: EtcdView,
    /// Machines that are being deleted and must stay for now, with the reason.
    pub(crate) held: BTreeMap<String, String>,
    /// Why certificates are missing; `None` if they exist.
    pub(crate) certificates: Option<String>,
    /// The progress of a plan key replacement, if the user has requested one.
    pub(crate) plan_key: Option<Replacement>,
    pub(crate) step: MachineStep,
    /// The progress of healing, by machine.
    pub(crate) healing: BTreeMap<String, Healing>,
    pub(crate) plans: BTreeMap<String, Outcome>,
    /// How far the roll-out of agents has come; `None` if the plans were not decided.
    pub(crate) agents: Option<AgentUpgrades>,
    pub(crate) initialized: bool,
    /// Whether the API server of the workload cluster responds.
    pub(crate) api_responds: bool,
    pub(crate) ending: Option<Ending>,
    /// When to reconcile again.
    pub(crate) next: Next,
}

impl<'a> Observed<'a> {
    pub(crate) fn new(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            secrets: Secrets::default(),
            objects: Machines::default(),
            own: Vec::new(),
            facts: Vec::new(),
            nodes: Knowledge::default(),
            etcd: EtcdView::unknown("it was not asked"),
            held: BTreeMap::new(),
            certificates: Some("Waiting for the infrastructure of the Cluster".to_owned()),
            plan_key: None,
            step: MachineStep::Nothing,
            healing: BTreeMap::new(),
            plans: BTreeMap::new(),
            agents: None,
            initialized: scope.is_initialized(),
            api_responds: false,
            ending: None,
            next: Next::After(LONGEST_WAIT),
        }
    }

    /// Reads every object of the cluster, and its Nodes if there may be any.
    pub(crate) async fn read(&mut self, workload: &impl Workload) -> Result<()> {
        let scope = self.scope;
        self.objects = scope.machines().await?;
        self.secrets = scope.secrets().await?;
        if self.initialized {
            self.nodes = workload.nodes(scope.namespace, &scope.cluster_name()).await;
        }
        self.look(None);
        Ok(())
    }

    /// Reads only the Machines, which is enough for a deletion.
    pub(crate) async fn read_machines(&mut self) -> Result<()> {
        self.objects = self.scope.machines().await?;
        self.look(None);
        Ok(())
    }

    /// Reads the facts from the objects. Without `keys` a forged plan cannot be detected.
    pub(crate) fn look(&mut self, keys: Option<&Keys>) {
        let trusted: Option<TrustedKeys> = keys.map(|keys| [keys.signing.public()].into_iter().collect());
        let (owner, plans) = (self.scope.owner, &self.secrets.plans);
        self.facts = self.objects.facts(owner, plans, trusted.as_ref(), &self.nodes);
        capstan_planner::etcd::hear_of(&mut self.facts, &self.etcd);
        let own = |machine: &&Machine| Machines::is_of(machine, self.scope.owner);
        self.own = self.objects.machines.values().map(Arc::as_ref).filter(own).cloned().collect();
    }

    /// The facts of the machines of the control plane.
    pub(crate) fn own_facts(&self) -> Vec<MachineFacts> {
        self.facts.iter().filter(|facts| facts.control_plane).cloned().collect()
    }

    /// Reconciles again at once: the next step is decided from new reads.
    pub(crate) fn again(&mut self) {
        self.next = Next::After(Duration::ZERO);
    }

    /// Reconciles again soon, at the latest.
    pub(crate) fn soon(&mut self) {
        self.next = self.next.or(Next::After(SOON));
    }
}
