//! Writes of a MachinePool: owners, Machines, Nodes, deletions. All are idempotent.

use capstan_api::conditions::set;
use capstan_api::core::{Machine, MachinePool};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::apply::Applier;
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Grounds, Result, destroy};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use std::sync::Arc;

use super::decide::machines::{self, Wanted};
use super::decide::{nodes, ownership};
use super::observe::Observed;
use crate::Core;
use crate::external::{self, Reading};
use crate::names::events;
use crate::names::machine::types::UP_TO_DATE;

/// Providers ignore an object that has no MachinePool as owner.
pub(super) async fn claim(core: &Core, pool: &MachinePool, observed: &Observed) -> Result<()> {
    let namespace = pool.namespace().unwrap_or_default();
    let spec = &pool.spec.template.spec;
    let references = [
        (spec.bootstrap.config_ref.as_ref(), &observed.bootstrap),
        (Some(&spec.infrastructure_ref), &observed.infrastructure),
    ];
    for (reference, reading) in references {
        if let (Some(reference), Reading::Found(object)) = (reference, reading) {
            let owners = ownership::owners_with(pool, object)?;
            external::claim(core, reference, &namespace, object, &owners, &pool.spec.cluster_name).await?;
        }
    }
    Ok(())
}

/// Makes the Machine of an infrastructure machine as it should be. Gives it if it was not known before.
pub(super) async fn apply_machine(
    core: &Core,
    applier: &Applier,
    pool: &MachinePool,
    wanted: &Wanted,
) -> Result<Option<Machine>> {
    let api = core.api::<Machine>(&pool.namespace().unwrap_or_default());
    if let Some(current) = &wanted.current {
        applier.apply(&api, Some(current), &wanted.desired).await?;
        return Ok(None);
    }
    let name = wanted.desired.name_any();
    // An apply would change a Machine with this name that is not of the pool.
    let present = api.get_opt(&name).await.doing(|| format!("cannot read Machine {name}"))?;
    if let Some(present) = present {
        if !machines::stands_for(pool, &present, &wanted.desired) {
            let field = format!("Machine {}/{name}", pool.namespace().unwrap_or_default());
            let what = format!(
                "is not of MachinePool {}, whose machine {name} needs a Machine with this name; delete or rename one of them",
                pool.name_any()
            );
            return Err(Error::user(field, what));
        }
        let desired = machines::adopting(&wanted.desired, &present);
        let applied = applier.apply(&api, Some(&present), &desired).await?;
        return Ok(Some(applied.unwrap_or(present)));
    }
    match applier.apply(&api, None, &wanted.desired).await {
        Ok(made) => {
            let message = format!("created Machine {name}");
            core.publish_event(pool, Tone::Normal, events::CREATED, &message).await;
            Ok(made)
        }
        Err(error) => {
            let message = format!("cannot create Machine {name}: {}", chain(&error));
            core.publish_event(pool, Tone::Warning, events::NOT_CREATED, &message).await;
            Err(error)
        }
    }
}

/// Sets the condition `UpToDate` of a Machine: the provider replaces the machines of a pool.
pub(super) async fn judge_machine(core: &Core, machine: &mut Machine) -> Result<()> {
    let before = machine.clone();
    if !set(machine, machines::up_to_date(&before), core.now()) {
        return Ok(());
    }
    let api = core.api::<Machine>(&before.namespace().unwrap_or_default());
    Patcher::new(api, &before).finish(machine, &[UP_TO_DATE]).await
}

/// Writes annotations and taints of a Node if they differ from the desired ones.
pub(super) async fn write_node(core: &Core, pool: &MachinePool, node: &Node) -> Result<()> {
    let Some(patch) = nodes::patch(pool, node) else { return Ok(()) };
    let (api, name) = (Api::<Node>::all(workload(core, pool).await?), node.name_any());
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot write Node {name}"))?;
    Ok(())
}

/// Deletes these Nodes, each by the UID that was read.
pub(super) async fn delete_nodes(
    core: &Core,
    pool: &MachinePool,
    retired: &[Arc<Node>],
    why: &str,
) -> Result<()> {
    if retired.is_empty() {
        return Ok(());
    }
    let api = Api::<Node>::all(workload(core, pool).await?);
    for node in retired {
        destroy::delete(&api, &node.metadata, &Grounds::asked(why)).await?;
    }
    Ok(())
}

/// Asks for the deletion of an object that the pool refers to.
pub(super) async fn delete_object(
    core: &Core,
    pool: &MachinePool,
    reference: &ContractVersionedObjectReference,
) -> Result<()> {
    external::delete(core, reference, &pool.namespace().unwrap_or_default()).await
}

async fn workload(core: &Core, pool: &MachinePool) -> Result<Client> {
    let namespace = pool.namespace().unwrap_or_default();
    let client = core.remotes.client(&namespace, &pool.spec.cluster_name).await?;
    client.ok_or_else(|| {
        let doing = format!("cannot write Nodes of MachinePool {namespace}/{}", pool.name_any());
        Error::transient(doing, "there is no connection to the workload cluster")
    })
}
