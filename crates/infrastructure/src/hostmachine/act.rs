//! Writes of the HostMachine controller, and its calls to drivers. All are idempotent.

use capstan_api::infrastructure::{Host, HostClaim, HostMachine};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Result, finalizers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::decide::provider_id;
use super::status::{self, OWNED};
use crate::context::Infrastructure;
use crate::driver::{
    BootstrapData, BootstrapState, DriverError, FollowState, HandOver, HostKind, ResetState,
};
use crate::host::look;
use crate::names::hostmachine::FINALIZER;

/// Writes a new random claim ID, together with the finalizer.
pub(super) async fn choose_claim_id(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
) -> Result<HostMachine> {
    let mut finalizers = machine.finalizers().to_vec();
    if !finalizers::has(machine.meta(), FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let spec = json!({"claimID": new_claim_id()});
    write(infrastructure, machine, &json!({"finalizers": finalizers}), &spec).await
}

/// Whether a host that is about to be claimed responds now. The cached state of a real host may be old.
pub(super) async fn is_well(infrastructure: &Infrastructure, host: &Host) -> Result<bool> {
    Ok(HostKind::of(host) == HostKind::Simulated || look(infrastructure, host).await?.is_well)
}

/// Claims the host by compare and swap. Returns whether it was claimed.
pub(super) async fn claim(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
    cluster: Option<&str>,
) -> Result<bool> {
    let claim = HostClaim {
        id: machine.spec.claim_id.clone().unwrap_or_default(),
        machine_name: machine.name_any(),
        cluster_name: cluster.unwrap_or_default().to_owned(),
        since: Some(Time(infrastructure.now())),
    };
    match infrastructure.swap_host(host, &json!({"claim": claim}), "claim").await {
        Ok(_) => Ok(true),
        // Another machine was faster: reconcile again.
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes the claimed host into the spec.
pub(super) async fn record(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
) -> Result<HostMachine> {
    let (namespace, name) = (machine.namespace().unwrap_or_default(), host.name_any());
    let id = provider_id(&namespace, &name, claim_id(machine));
    let spec = json!({"hostName": name, "providerID": id});
    let written = write(infrastructure, machine, &json!({}), &spec).await?;
    infrastructure.report(machine, [status::recorded(host)]).await;
    Ok(written)
}

/// Releases a host that was claimed and not changed.
pub(super) async fn give_back(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
) -> Result<()> {
    infrastructure.swap_host(host, &json!({"claim": null}), "give back").await?;
    let (of_host, _) = status::given_back(machine, host, None);
    infrastructure.report(host, of_host).await;
    Ok(())
}

/// Releases a host after its reset, with the given patch of its spec.
pub(super) async fn release(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
    spec: &Value,
) -> Result<()> {
    infrastructure.swap_host(host, spec, "give back").await?;
    let quarantine = spec.pointer("/quarantine/message").and_then(Value::as_str);
    let (of_host, of_machine) = status::given_back(machine, host, quarantine);
    infrastructure.report(host, of_host).await;
    infrastructure.report(machine, [of_machine]).await;
    Ok(())
}

/// Has the host execute the bootstrap data, once for this claim.
pub(super) async fn bootstrap(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
    data: &BootstrapData,
) -> std::result::Result<BootstrapState, DriverError> {
    infrastructure.drivers.of(host)?.bootstrap(host, claim_id(machine), data).await
}

/// Hands the agent on the host over to a management plane.
pub(super) async fn follow(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
    hand_over: &HandOver,
) -> std::result::Result<FollowState, DriverError> {
    infrastructure.drivers.of(host)?.follow(host, claim_id(machine), hand_over).await
}

/// Has the host undo everything that was done under this claim.
pub(super) async fn reset(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    host: &Host,
) -> std::result::Result<ResetState, DriverError> {
    infrastructure.drivers.of(host)?.reset(host, claim_id(machine)).await
}

/// Writes the changes between `before` and `after`, with the conditions.
pub(super) async fn finish(
    infrastructure: &Infrastructure,
    before: &HostMachine,
    after: &HostMachine,
) -> Result<()> {
    let api = infrastructure.api::<HostMachine>(&before.namespace().unwrap_or_default());
    Patcher::new(api, before).finish(after, &OWNED).await
}

/// Changes metadata and spec by compare and swap.
async fn write(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    metadata: &Value,
    spec: &Value,
) -> Result<HostMachine> {
    let name = machine.name_any();
    let mut patch = json!({"metadata": metadata, "spec": spec});
    patch["metadata"]["resourceVersion"] = json!(machine.resource_version());
    infrastructure
        .api::<HostMachine>(&machine.namespace().unwrap_or_default())
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot write the claim of HostMachine {name}"))
}

fn claim_id(machine: &HostMachine) -> &str {
    machine.spec.claim_id.as_deref().unwrap_or_default()
}

/// A random claim ID with the entropy of a UUID.
fn new_claim_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
