//! The Machines of a MachinePool: one for each infrastructure machine that its provider has made. Pure.

use capstan_api::conditions::{NewCondition, reasons};
use capstan_api::core::{Bootstrap, Machine, MachinePool, MachineSpec};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::names::label_value;
use capstan_controller::{Knowledge, owners};
use capstan_text::Version;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::nodes::by_provider_id;
use crate::external::{field, is_deleting};
use crate::names::machine::types::UP_TO_DATE;

/// The Machine of one infrastructure machine.
#[derive(Clone, Debug)]
pub(in crate::machinepool) struct Wanted {
    /// The Machine as it was read, if it is known.
    pub(in crate::machinepool) current: Option<Machine>,
    /// The Machine as it should be.
    pub(in crate::machinepool) desired: Machine,
}

/// The Machines that should be there for these infrastructure machines. Their provider deletes them.
pub(in crate::machinepool) fn wanted(
    pool: &MachinePool,
    kind: &str,
    infrastructure: &[Arc<DynamicObject>],
    machines: &[Machine],
    nodes: &Knowledge<Vec<Arc<Node>>>,
) -> Vec<Wanted> {
    let nodes = match nodes {
        Knowledge::Known(nodes) => by_provider_id(nodes),
        Knowledge::Unknown(_) => HashMap::new(),
    };
    let of_kind = machines.iter().filter(|machine| machine.spec.infrastructure_ref.kind == kind);
    let by_reference: HashMap<&str, &Machine> =
        of_kind.map(|machine| (machine.spec.infrastructure_ref.name.as_str(), machine)).collect();
    let mut wanted = Vec::new();
    for object in infrastructure {
        let name = object.name_any();
        let current = by_reference.get(name.as_str()).copied();
        if current.is_none() && is_deleting(object) {
            continue;
        }
        let mut desired = machine(pool, kind, &name);
        desired.spec.version = version(object, &nodes);
        if let Some(current) = current {
            desired.metadata.name = Some(current.name_any());
            desired = adopting(&desired, current);
        }
        wanted.push(Wanted { current: current.cloned(), desired });
    }
    wanted
}

/// The same for a Machine that is there already. The UID keeps a Machine that was deleted meanwhile from being made again. The
/// version of a machine stays while its Node is not there.
pub(in crate::machinepool) fn adopting(desired: &Machine, present: &Machine) -> Machine {
    let mut desired = desired.clone();
    desired.metadata.uid = present.uid();
    desired.spec.version = desired.spec.version.or_else(|| present.spec.version.clone());
    desired
}

fn machine(pool: &MachinePool, kind: &str, name: &str) -> Machine {
    let template = pool.spec.template.metadata.clone().unwrap_or_default();
    let mut all_labels = template.labels;
    all_labels.insert(labels::POOL_NAME.to_owned(), label_value(&pool.name_any()));
    all_labels.insert(labels::CLUSTER_NAME.to_owned(), pool.spec.cluster_name.clone());
    let spec = MachineSpec {
        cluster_name: pool.spec.cluster_name.clone(),
        // The bootstrap data is that of the whole pool.
        bootstrap: Bootstrap { config_ref: None, data_secret_name: Some(String::new()) },
        infrastructure_ref: ContractVersionedObjectReference {
            api_group: pool.spec.template.spec.infrastructure_ref.api_group.clone(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        },
        version: None,
        provider_id: None,
        failure_domain: None,
        min_ready_seconds: None,
        readiness_gates: Vec::new(),
        deletion: None,
        taints: Vec::new(),
    };
    let mut machine = Machine::new(name, spec);
    machine.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: pool.namespace(),
        labels: Some(all_labels),
        annotations: Some(template.annotations),
        owner_references: owners::controller(pool).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    machine
}

/// The version of the kubelet, if the Node of the machine is there and its version is one that a Machine can have.
fn version(object: &DynamicObject, nodes: &HashMap<&str, &Arc<Node>>) -> Option<String> {
    let id: String = field(object, "/spec/providerID")?;
    let info = nodes.get(id.as_str())?.status.as_ref()?.node_info.as_ref()?;
    Version::parse_with_v(&info.kubelet_version).map(|_| info.kubelet_version.clone())
}

/// Whether an object has the labels by which a provider says that it belongs to the pool.
pub(in crate::machinepool) fn is_labelled(pool: &MachinePool, of: &BTreeMap<String, String>) -> bool {
    of.get(labels::POOL_NAME) == Some(&label_value(&pool.name_any()))
        && of.get(labels::CLUSTER_NAME) == Some(&pool.spec.cluster_name)
}

/// Whether a Machine belongs to the pool: the pool controls it, or nothing does and it has the labels.
pub(in crate::machinepool) fn belongs(pool: &MachinePool, machine: &Machine) -> bool {
    match owners::controller_of(&machine.metadata) {
        Some(_) => owners::is_controlled_by(&machine.metadata, pool),
        None => is_labelled(pool, machine.labels()),
    }
}

/// Whether a Machine is that of the same machine of the pool.
pub(in crate::machinepool) fn stands_for(pool: &MachinePool, present: &Machine, desired: &Machine) -> bool {
    belongs(pool, present) && present.spec.infrastructure_ref == desired.spec.infrastructure_ref
}

/// The condition `UpToDate`: a provider changes a pool by replacing its machines, so each one that stays is up to date.
pub(in crate::machinepool) fn up_to_date(machine: &Machine) -> NewCondition {
    match machine.metadata.deletion_timestamp.is_some() {
        false => NewCondition::new(UP_TO_DATE, true, reasons::UP_TO_DATE),
        true => {
            NewCondition::new(UP_TO_DATE, false, reasons::NOT_UP_TO_DATE).message("Machine is being deleted")
        }
    }
}
