//! The two hand-offs of a MachinePool: bootstrap data, and infrastructure. Copies results of the providers into it. Pure.
//!
//! Other than those of a Machine, they may change at any time: bootstrap data gets another Secret, machines come and go, and
//! `infrastructureProvisioned` follows the provider.

use capstan_api::core::{MachineInitializationStatus, MachinePool};
use capstan_controller::{Error, Next, Result};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use std::time::Duration;

use crate::external::{Reading, field, flag, is_deleting};

/// Requeue while an object does not exist: no event of it can trigger the MachinePool that does not own it yet.
const UNTIL_IT_EXISTS: Duration = Duration::from_secs(5);

pub(in crate::machinepool) fn bootstrap(pool: &mut MachinePool, reading: &Reading) -> Result<Next> {
    let object = match reading {
        Reading::Found(object) => object,
        Reading::Missing => return Ok(Next::After(UNTIL_IT_EXISTS)),
        Reading::Unreadable => return Ok(Next::Changed),
        Reading::Unreferenced => {
            // The user provides the Secret.
            if pool.spec.template.spec.bootstrap.data_secret_name.is_some() {
                initialization(pool).bootstrap_data_secret_created = Some(true);
            }
            return Ok(Next::Changed);
        }
    };
    if is_deleting(object) {
        return Ok(Next::Changed);
    }
    if !flag(object, "/status/initialization/dataSecretCreated") {
        initialization(pool).bootstrap_data_secret_created = Some(false);
        return Ok(Next::Changed);
    }
    let name: Option<String> = field(object, "/status/dataSecretName");
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
        let what = "is empty although dataSecretCreated is true; the bootstrap provider must set it";
        Error::user(format!("{} status.dataSecretName", named(object)), what)
    })?;
    pool.spec.template.spec.bootstrap.data_secret_name = Some(name);
    initialization(pool).bootstrap_data_secret_created = Some(true);
    Ok(Next::Changed)
}

pub(in crate::machinepool) fn infrastructure(pool: &mut MachinePool, reading: &Reading) -> Result<Next> {
    let object = match reading {
        Reading::Found(object) => object,
        Reading::Missing if provisioned(pool) => {
            let reference = &pool.spec.template.spec.infrastructure_ref;
            let field = format!("MachinePool {} spec.template.spec.infrastructureRef", pool.name_any());
            let what =
                format!("{} {} has been deleted after being provisioned", reference.kind, reference.name);
            return Err(Error::user(field, what));
        }
        Reading::Missing => return Ok(Next::After(UNTIL_IT_EXISTS)),
        Reading::Unreadable | Reading::Unreferenced => return Ok(Next::Changed),
    };
    if is_deleting(object) {
        return Ok(Next::Changed);
    }
    // The contract asks for the first; upstream's core reads the second.
    let is_provisioned = flag(object, "/status/initialization/provisioned") || flag(object, "/status/ready");
    initialization(pool).infrastructure_provisioned = Some(is_provisioned);
    if !is_provisioned {
        return Ok(Next::Changed);
    }
    if let Some(replicas) = field(object, "/status/replicas") {
        pool.status.get_or_insert_default().replicas = Some(replicas);
    }
    let ids = provider_ids(object)?;
    // A provider that has machines and names none does not know them now. An empty list must not make Nodes be deleted.
    let replicas = pool.status.as_ref().and_then(|status| status.replicas);
    if !ids.is_empty() || replicas == Some(0) {
        pool.spec.provider_id_list = ids;
    }
    Ok(Next::Changed)
}

/// Whether the list of provider IDs says which machines the pool has: an empty one does only if none are wanted.
pub(in crate::machinepool) fn is_list_settled(pool: &MachinePool) -> bool {
    !pool.spec.provider_id_list.is_empty() || pool.spec.replicas == Some(0)
}

/// The kind of the infrastructure machines, if the provider makes an object for each machine.
pub(in crate::machinepool) fn machine_kind(infrastructure: &Reading) -> Option<String> {
    let kind: Option<String> = field(infrastructure.found()?, "/status/infrastructureMachineKind");
    kind.filter(|kind| !kind.is_empty())
}

fn provider_ids(object: &DynamicObject) -> Result<Vec<String>> {
    let listed: Vec<String> = match object.data.pointer("/spec/providerIDList") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => serde_json::from_value(list.clone()).map_err(|error| {
            let what = format!("is not a list of texts: {error}; the infrastructure provider must set it");
            Error::user(format!("{} spec.providerIDList", named(object)), what)
        })?,
    };
    Ok(listed.into_iter().filter(|id| !id.is_empty()).collect())
}

pub(in crate::machinepool) fn provisioned(pool: &MachinePool) -> bool {
    flags(pool).and_then(|flags| flags.infrastructure_provisioned).unwrap_or_default()
}

pub(in crate::machinepool) fn data_secret_created(pool: &MachinePool) -> bool {
    flags(pool).and_then(|flags| flags.bootstrap_data_secret_created).unwrap_or_default()
}

fn flags(pool: &MachinePool) -> Option<&MachineInitializationStatus> {
    pool.status.as_ref()?.initialization.as_ref()
}

fn initialization(pool: &mut MachinePool) -> &mut MachineInitializationStatus {
    pool.status.get_or_insert_default().initialization.get_or_insert_default()
}

fn named(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    format!("{kind} {}", object.name_any())
}
