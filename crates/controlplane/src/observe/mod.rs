//! Reads every object of a cluster that plans and machines are decided from.

pub(crate) mod groups;
pub(crate) mod healing;
pub(crate) mod machine;

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Machine, MachineDeployment};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::cache::Cached;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::plans::report;
use capstan_controller::secrets::Purpose;
use capstan_controller::spare::{self, Spare};
use capstan_controller::{Knowledge, owners};
use capstan_distro::cost::{Setup, field};
use capstan_distro::{Change, Cost, RESTART_GATE, Subject, classify};
use capstan_plan::{MachineIdentity, OpenGates, SECRET_TYPE, SignedGates, SignedPlan, StepName, TrustedKeys};
use capstan_planner::budget::Budgets;
use capstan_planner::facts::{self, MachineFacts, NodesByName, PlanFacts};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use crate::certificates::NEEDED;
use crate::machines::template_name;
use crate::names::{DRAIN_SINCE, INFRASTRUCTURE_TEMPLATE, PLAN_INPUTS, PLAN_RECORD, plan_secret};
use crate::planner::data_of;
use crate::scope::Scope;
use groups::Replacements;

/// The Secrets of the cluster.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) by_purpose: BTreeMap<Purpose, Secret>,
    pub(crate) plans: BTreeMap<String, Arc<Secret>>,
}

/// The Machines of the cluster and what belongs to them, by the Machine's name.
#[derive(Default)]
pub(crate) struct Machines {
    pub(crate) machines: BTreeMap<String, Arc<Machine>>,
    pub(crate) configs: BTreeMap<String, Arc<CapstanConfig>>,
    pub(crate) reports: BTreeMap<String, Arc<MachineReport>>,
    /// Machines whose agent was not heard of for longer than the limit, and since when.
    pub(crate) silent: BTreeMap<String, Timestamp>,
    /// What each group of workers may do without.
    pub(crate) budgets: Budgets,
    /// Whether and how workers are replaced.
    pub(crate) replacements: Replacements,
}

impl Scope<'_> {
    pub(crate) async fn secrets(&self) -> Result<Secrets> {
        let cluster = self.cluster_name();
        let labelled = self.caches.beside_clusters::<Secret>(self.namespace);
        let mut found = Secrets::default();
        for secret in labelled.of_cluster(self.namespace, &cluster).await? {
            if secret.type_.as_deref() == Some(SECRET_TYPE) {
                found.plans.insert(secret.name_any(), secret);
            } else if let Some(purpose) = purpose_of(&secret.name_any(), &cluster) {
                found.by_purpose.insert(purpose, Arc::unwrap_or_clone(secret));
            }
        }
        // What users bring may have no label.
        for purpose in NEEDED.into_iter().chain([Purpose::Kubeconfig]) {
            if found.by_purpose.contains_key(&purpose) {
                continue;
            }
            if let Some(secret) = labelled.get(self.namespace, &purpose.secret_name(&cluster)).await? {
                found.by_purpose.insert(purpose, Arc::unwrap_or_clone(secret));
            }
        }
        Ok(found)
    }

    pub(crate) async fn machines(&self) -> Result<Machines> {
        let machines = by_name(self.of_cluster::<Machine>().await?);
        let mut by_name_of_config = by_name(self.of_cluster::<CapstanConfig>().await?);
        let mut configs = BTreeMap::new();
        for (name, machine) in &machines {
            let Some(reference) = machine.spec.bootstrap.config_ref.as_ref() else { continue };
            if reference.kind != "CapstanConfig" || reference.api_group != "bootstrap.cluster.x-k8s.io" {
                continue;
            }
            let config = match by_name_of_config.remove(&reference.name) {
                Some(config) => Some(config),
                // Core has not labelled it yet.
                None => self.caches.of::<CapstanConfig>().get(self.namespace, &reference.name).await?,
            };
            configs.extend(config.map(|config| (name.clone(), config)));
        }
        let reports = by_name(self.of_cluster::<MachineReport>().await?);
        let deployments = self.of_cluster::<MachineDeployment>().await?;
        let (budgets, replacements) = (groups::budgets(&deployments), Replacements::of(&deployments));
        let limit = healing::ladder(self.owner.spec.healing.as_ref()).silent_after;
        if self.contacts.is_due(self.namespace, &self.cluster_name(), self.now) {
            self.contacts.heard(self.namespace, &self.cluster_name(), &self.leases().await?, self.now);
        }
        let silent = self.contacts.silent(self.namespace, &self.cluster_name(), limit, self.now);
        Ok(Machines { machines, configs, reports, silent, budgets, replacements })
    }

    /// Where another machine would come from, by its infrastructure template.
    pub(crate) async fn spare(
        &self,
        template: Option<&ContractVersionedObjectReference>,
    ) -> Result<Knowledge<Spare>> {
        let Some(reference) = template else {
            return Ok(Knowledge::unknown(
                "no MachineDeployment says from which template the machine is made",
            ));
        };
        Ok(match self.externals.get(reference, self.namespace).await? {
            Some(template) => spare::of(&template),
            None => Knowledge::Unknown(format!("there is no {} {}", reference.kind, reference.name)),
        })
    }

    async fn of_cluster<K>(&self) -> Result<Vec<Arc<K>>>
    where
        K: Cached + Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.caches.of::<K>().of_cluster(self.namespace, &self.cluster_name()).await
    }

    /// The Machines as the API server has them, for whoever is about to delete one.
    pub(crate) async fn machines_live(&self) -> Result<Vec<Machine>> {
        self.list().await
    }

    /// Agents renew their Leases too often for a watch to pay.
    async fn leases(&self) -> Result<Vec<Lease>> {
        self.list().await
    }

    async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let mine = ListParams::default().labels(&format!("{}={}", labels::CLUSTER_NAME, self.cluster_name()));
        let list = self.api::<K>().list(&mine).await;
        Ok(list.doing(|| format!("cannot list {} of Cluster {}", K::plural(&()), self.cluster_name()))?.items)
    }
}

fn by_name<K: kube::ResourceExt>(objects: Vec<Arc<K>>) -> BTreeMap<String, Arc<K>> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}

fn purpose_of(name: &str, cluster: &str) -> Option<Purpose> {
    NEEDED.into_iter().chain([Purpose::Kubeconfig]).find(|purpose| purpose.secret_name(cluster) == name)
}

impl Machines {
    /// Whether the Machine belongs to the control plane.
    pub(crate) fn is_of(machine: &Machine, owner: &CapstanControlPlane) -> bool {
        owners::is_controlled_by(&machine.metadata, owner)
    }

    /// The facts that decisions are made from. Without `keys` no plan can be told from a forged one.
    pub(crate) fn facts(
        &self,
        owner: &CapstanControlPlane,
        plans: &BTreeMap<String, Arc<Secret>>,
        keys: Option<&TrustedKeys>,
        nodes: &Knowledge<NodesByName>,
    ) -> Vec<MachineFacts> {
        let nodes = believable(nodes, self.machines.values().map(Arc::as_ref));
        let one = |machine: &Arc<Machine>| {
            let name = machine.name_any();
            let config = self.configs.get(&name).map(Arc::as_ref);
            let mut facts = machine::of(machine, config);
            facts.control_plane = Self::is_of(machine, owner);
            if let Some(config) = config.filter(|_| facts.control_plane) {
                facts.changes = changes(owner, machine, config);
            }
            let told = facts.id.as_ref().and_then(|id| report(self.reports.get(&name)?, &name, id));
            facts.reported_revision = told.as_ref().and_then(facts::reported_revision);
            let about = told.as_ref().and_then(|told| told.facts.as_ref());
            facts.architecture = about.and_then(|about| about.architecture.clone());
            facts.os_image = about.and_then(|about| about.os_image.clone());
            facts.node = nodes.clone().map(|nodes| nodes.get(&name).cloned().unwrap_or_default());
            facts.silent_since = self.silent.get(&name).copied();
            if let (Some(secret), Some(id)) = (plans.get(&plan_secret(&name)), &facts.id) {
                facts.plan = plan(secret, &name, id, keys).map(|mut plan| {
                    plan.progress = facts::progress(plan.id, told.as_ref());
                    plan
                });
            }
            facts
        };
        self.machines.values().map(one).collect()
    }
}

/// An empty list of Nodes says nothing about Machines that have become Nodes: an API server that has lost all of them, or
/// has not read them yet, knows no more than one that does not answer.
fn believable<'a>(
    nodes: &'a Knowledge<NodesByName>,
    mut machines: impl Iterator<Item = &'a Machine>,
) -> Knowledge<&'a NodesByName> {
    let has_node =
        |machine: &Machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    match nodes.is_known_and(BTreeMap::is_empty) && machines.any(has_node) {
        true => Knowledge::unknown("the workload cluster lists no Nodes, and Machines have had some"),
        false => nodes.as_ref(),
    }
}

/// The plan in a Secret. One that cannot be read counts as none.
fn plan(secret: &Secret, machine: &str, id: &str, keys: Option<&TrustedKeys>) -> Option<PlanFacts> {
    let data = data_of(secret);
    let signed = SignedPlan::from_secret_data(&data).ok()?;
    let ours = MachineIdentity { name: machine.parse().ok()?, machine_id: id.parse().ok()? };
    let verified = keys.and_then(|keys| signed.verify(keys, &ours).ok());
    let annotation = |key: &str| secret.annotations().get(key);
    let gate: StepName = RESTART_GATE.parse().ok()?;
    let gates = SignedGates::from_secret_data(&data).ok().flatten();
    let gates = gates.zip(keys).and_then(|(gates, keys)| OpenGates::verify(&gates, keys, signed.id()).ok());
    Some(PlanFacts {
        id: signed.id(),
        epoch: verified.as_ref().map(|plan| plan.plan().epoch).unwrap_or_default(),
        inputs: annotation(PLAN_INPUTS).cloned().unwrap_or_default(),
        expires: verified.as_ref().map(|plan| plan.plan().expires).unwrap_or_default(),
        sound: verified.is_some(),
        is_open: gates.is_some_and(|gates| gates.is_open(signed.id(), &gate)),
        drain_since: annotation(DRAIN_SINCE).and_then(|text| text.parse().ok()),
        record: annotation(PLAN_RECORD).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        programs: verified.iter().flat_map(|plan| capstan_distro::programs(plan.plan()).cloned()).collect(),
        progress: facts::Progress::InFlight,
    })
}

/// What differs between a machine and what its control plane asks for, in the fields of the control plane.
fn changes(owner: &CapstanControlPlane, machine: &Machine, config: &CapstanConfig) -> Vec<Change> {
    let old = Setup { version: machine.spec.version.as_deref().unwrap_or_default(), config: &config.spec };
    let new = Setup { version: &owner.spec.version, config: &owner.spec.config };
    let mut changes = classify(old, new);
    for change in changes.iter_mut().filter(|change| change.field != "spec.version") {
        change.field = change.field.replacen("spec.", "spec.config.", 1);
    }
    let template = template_name(&owner.spec.machine_template.spec.infrastructure_ref);
    if config.annotations().get(INFRASTRUCTURE_TEMPLATE).is_some_and(|made_from| *made_from != template) {
        let path = "spec.machineTemplate.spec.infrastructureRef";
        let why = field(Subject::ControlPlane, path).map_or("", |field| field.why);
        changes.push(Change::new(path, Cost::Replace, why));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_planner::facts::NodeView;
    use serde_json::json;

    #[test]
    fn a_list_without_any_node_is_no_news_of_machines_that_were_nodes() {
        let machine = |status: &serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                    "kind": "HostMachine", "name": "m", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
                "status": status,
            }))
            .expect("a Machine")
        };
        let (old, new) = (machine(&json!({"nodeRef": {"name": "m"}})), machine(&json!({})));
        let (none, some) = (NodesByName::new(), NodesByName::from([("x".to_owned(), NodeView::default())]));
        let is_believed = |nodes: &NodesByName, machines: &[&Machine]| {
            believable(&Knowledge::Known(nodes.clone()), machines.iter().copied()).is_known_and(|_| true)
        };
        assert!(!is_believed(&none, &[&new, &old]));
        assert!(is_believed(&none, &[&new]), "nobody has become a Node yet");
        assert!(is_believed(&some, &[&new, &old]));
        assert!(!believable(&Knowledge::default(), [&new].into_iter()).is_known_and(|_| true));
    }
}
