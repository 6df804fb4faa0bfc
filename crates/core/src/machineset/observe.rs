//! Reads what decisions about a MachineSet are made from. Reads only.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet, MachineTemplateSpec};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result, owners};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{Selector, SelectorExt as _};

use super::decide::desired::clone_reference;
use super::decide::is_deleting;
use super::decide::leftovers::OwnedClone;
use crate::Core;

/// Where Machines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// From the cache.
    Memory,
    /// Live, from the API server.
    Server,
}

/// The templates that a MachineSet or a MachineDeployment refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    pub(crate) bootstrap: Option<DynamicObject>,
    pub(crate) infrastructure: Option<DynamicObject>,
    /// Kinds that a reference names and that do not exist.
    pub(crate) missing: Vec<String>,
}

/// The MachineDeployment above, if the MachineSet is part of one.
pub(super) async fn owner(core: &Core, set: &MachineSet) -> Result<Option<MachineDeployment>> {
    let Some(name) = set.labels().get(labels::DEPLOYMENT_NAME) else { return Ok(None) };
    let namespace = set.namespace().unwrap_or_default();
    match core.caches.of::<MachineDeployment>().get(&namespace, name).await? {
        Some(owner) => Ok(Some(owner.as_ref().clone())),
        // It may be deleted before its MachineSets.
        None if is_deleting(set) => Ok(None),
        None => {
            let doing = format!("cannot reconcile MachineSet {}", set.name_any());
            Err(Error::transient(doing, format!("its MachineDeployment {name} does not exist")))
        }
    }
}

/// Both templates.
pub(crate) async fn templates(
    core: &Core,
    cluster: &Cluster,
    template: &MachineTemplateSpec,
) -> Result<Templates> {
    let namespace = cluster.namespace().unwrap_or_default();
    let mut found = Templates::default();
    if let Some(reference) = &template.spec.bootstrap.config_ref {
        found.bootstrap = core.externals.get(reference, &namespace).await?;
        found.missing.extend(found.bootstrap.is_none().then(|| reference.kind.clone()));
    }
    let reference = &template.spec.infrastructure_ref;
    found.infrastructure = core.externals.get(reference, &namespace).await?;
    found.missing.extend(found.infrastructure.is_none().then(|| reference.kind.clone()));
    Ok(found)
}

/// The Machines that the MachineSet selects and that have no other controller.
pub(super) async fn machines(core: &Core, set: &MachineSet, from: From) -> Result<Vec<Machine>> {
    let namespace = set.namespace().unwrap_or_default();
    let selector = selector(&set.spec.selector, "MachineSet", &set.name_any())?;
    let mut machines: Vec<Machine> = match from {
        From::Memory => {
            // By cluster, because there may be many of them. Core labels every Machine with its cluster.
            let all = core.caches.of::<Machine>().of_cluster(&namespace, &set.spec.cluster_name).await?;
            let ours = all.iter().filter(|machine| selector.matches(machine.labels()));
            ours.map(|machine| machine.as_ref().clone()).collect()
        }
        From::Server => {
            let api: Api<Machine> = core.api(&namespace);
            let listed = api.list(&ListParams::default().labels_from(&selector)).await;
            listed.doing(|| "cannot list Machines".to_owned())?.items
        }
    };
    machines.retain(|machine| {
        owners::controller_of(&machine.metadata).is_none() || owners::is_controlled_by(&machine.metadata, set)
    });
    Ok(machines)
}

/// What the MachineSet owns of the kinds that it clones. From memory.
pub(super) async fn clones(core: &Core, set: &MachineSet) -> Result<Vec<OwnedClone>> {
    let (namespace, uid) = (set.namespace().unwrap_or_default(), set.uid().unwrap_or_default());
    let spec = &set.spec.template.spec;
    let mut clones = vec![];
    for template in spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref]) {
        for metadata in core.externals.owned(&clone_reference(template, ""), &namespace, &uid).await? {
            let name = metadata.name.as_deref().unwrap_or_default();
            clones.push(OwnedClone { reference: clone_reference(template, name), metadata });
        }
    }
    Ok(clones)
}

/// The control plane that new Machines would join.
pub(super) async fn control_plane(
    core: &Core,
    set: &MachineSet,
    reference: &ContractVersionedObjectReference,
) -> Result<DynamicObject> {
    let namespace = set.namespace().unwrap_or_default();
    let found = core.externals.get(reference, &namespace).await?;
    found.ok_or_else(|| {
        let doing = format!("cannot check {} {namespace}/{}", reference.kind, reference.name);
        Error::transient(doing, "it does not exist")
    })
}

/// The Cluster that an object belongs to.
pub(crate) async fn cluster_of(core: &Core, namespace: &str, name: &str) -> Result<Cluster> {
    match core.caches.of::<Cluster>().get(namespace, name).await? {
        Some(cluster) => Ok(cluster.as_ref().clone()),
        None => Err(Error::transient(format!("cannot read Cluster {namespace}/{name}"), "there is none")),
    }
}

/// A selector that selects something, for lists.
pub(crate) fn selector(selector: &LabelSelector, kind: &str, name: &str) -> Result<Selector> {
    let field = || format!("{kind} {name} spec.selector");
    let selector =
        Selector::try_from(selector.clone()).map_err(|problem| Error::user(field(), problem.to_string()))?;
    match selector.selects_all() {
        true => Err(Error::user(field(), "is empty: say which objects belong here")),
        false => Ok(selector),
    }
}
