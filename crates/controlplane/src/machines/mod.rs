//! The machines of a control plane: made, changed in place, and taken away, one at a time.

mod build;
pub(crate) mod leave;
mod sync;

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{Grounds, destroy};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

pub(crate) use build::{propagate, template_name};
pub(crate) use sync::{sync, tell_healing};

use capstan_planner::machines::Step;

use crate::names::{NEXT_MACHINE, REMEDIATION};
use crate::observe::Machines;
use crate::scope::Scope;

/// Carries out the next step.
pub(crate) async fn act(scope: &Scope<'_>, observed: &Machines, step: &Step) -> Result<()> {
    if matches!(step, Step::Create { .. } | Step::Delete { .. } | Step::Remediate { .. }) {
        confirm(scope, observed).await?;
    }
    match step {
        Step::Nothing | Step::Wait(_) | Step::Refuse(_) => Ok(()),
        Step::Create { failure_domain } => create(scope, failure_domain.clone()).await,
        Step::GiveUp(name) => give_up(scope, name).await,
        Step::Delete { machine, grounds } => delete(scope, observed, machine, grounds).await,
        Step::Remediate { machine, record, grounds } => {
            let record = serde_json::to_string(record)
                .map_err(|error| Error::transient(format!("cannot replace Machine {machine}"), error))?;
            scope.record(scope.owner, &[(REMEDIATION, Some(&record))]).await?;
            delete(scope, observed, machine, grounds).await
        }
        Step::Update(name) => update(scope, observed, name).await,
    }
}

/// Asks the API server whether the Machines are those that were seen. Memory may be a moment old, and what comes next
/// cannot be taken back.
///
/// # Errors
/// If they are not: what was decided is decided anew.
pub(crate) async fn confirm(scope: &Scope<'_>, observed: &Machines) -> Result<()> {
    let mark = |machine: &Machine| {
        (machine.name_any(), machine.uid(), machine.metadata.deletion_timestamp.is_some())
    };
    let mut live: Vec<_> = scope.machines_live().await?.iter().map(mark).collect();
    live.sort();
    if live.into_iter().eq(observed.machines.values().map(|machine| mark(machine))) {
        return Ok(());
    }
    let doing = format!("cannot go on with Cluster {}: its Machines have changed", scope.cluster_name());
    Err(Error::Conflict { doing })
}

/// Makes a machine: its name is written down first, then what it needs, and the Machine itself last, because core acts
/// on it at once.
async fn create(scope: &Scope<'_>, failure_domain: Option<String>) -> Result<()> {
    let (owner, cluster) = (scope.owner, scope.cluster_name());
    let reference = &owner.spec.machine_template.spec.infrastructure_ref;
    let template = scope.externals.get(reference, scope.namespace).await?.ok_or_else(|| {
        Error::user(
            "spec.machineTemplate.spec.infrastructureRef",
            format!("there is no {} {}: make it, or name another one", reference.kind, reference.name),
        )
    })?;
    let kind = scope.externals.resource(&reference.api_group, build::kind_of(reference)?).await?;

    let mut recorded = owner.clone();
    let name = match scope.begun() {
        Some(name) => name.to_owned(),
        None => {
            let name = build::name(owner, &cluster, &(scope.suffix)())?;
            recorded = scope.record(owner, &[(NEXT_MACHINE, Some(&name))]).await?;
            name
        }
    };
    let infrastructure = build::infrastructure(owner, &cluster, &name, &template, &kind)?;
    let machine = build::machine(owner, &cluster, &name, failure_domain)?;
    let config: Api<CapstanConfig> = scope.api();
    make(&config, &build::config(owner, &cluster, &name), "CapstanConfig").await?;
    let api: Api<DynamicObject> = Api::namespaced_with(scope.client().clone(), scope.namespace, &kind);
    make(&api, &infrastructure, &kind.kind).await?;
    make(&scope.api::<Machine>(), &machine, "Machine").await?;
    scope.record(&recorded, &[(NEXT_MACHINE, None)]).await?;
    Ok(())
}

/// Makes an object, unless it was made in an earlier try.
async fn make<K>(api: &Api<K>, object: &K, kind: &str) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let name = object.name_any();
    let doing = || format!("cannot make {kind} {name}");
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let there = api.get(&name).await.doing(doing)?;
            match there.meta().deletion_timestamp.is_some() {
                true => Err(Error::transient(doing(), "one of that name is still being deleted")),
                false => Ok(()),
            }
        }
        made => made.map(|_| ()).doing(doing),
    }
}

/// Takes back what was made for a machine that is not wanted any more.
async fn give_up(scope: &Scope<'_>, name: &str) -> Result<()> {
    let reference = &scope.owner.spec.machine_template.spec.infrastructure_ref;
    let kind = scope.externals.resource(&reference.api_group, build::kind_of(reference)?).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(scope.client().clone(), scope.namespace, &kind);
    let grounds = Grounds::asked("no Machine was made for it, and none is wanted");
    destroy::delete_by_name(&api, name, &grounds).await?;
    destroy::delete_by_name::<CapstanConfig>(&scope.api(), name, &grounds).await?;
    scope.record(scope.owner, &[(NEXT_MACHINE, None)]).await?;
    Ok(())
}

/// Deletes a Machine as it was seen.
pub(crate) async fn delete(
    scope: &Scope<'_>,
    observed: &Machines,
    name: &str,
    grounds: &Grounds,
) -> Result<()> {
    let Some(machine) = observed.machines.get(name) else { return Ok(()) };
    destroy::delete::<Machine>(&scope.api(), &machine.metadata, grounds).await
}

/// Tells a machine what it should be now. What becomes of that is the planner's.
async fn update(scope: &Scope<'_>, observed: &Machines, name: &str) -> Result<()> {
    if let Some(config) = observed.configs.get(name)
        && let Some(patch) = build::config_patch(scope.owner, config)?
    {
        scope.patch::<CapstanConfig>(&config.name_any(), &patch).await?;
    }
    let version = &scope.owner.spec.version;
    if observed.machines.get(name).is_some_and(|machine| machine.spec.version.as_ref() != Some(version)) {
        scope.patch::<Machine>(name, &json!({"spec": {"version": version}})).await?;
    }
    Ok(())
}

/// Makes the Cluster an owner of the infrastructure template, so that a move takes it along.
pub(crate) async fn own_template(scope: &Scope<'_>) -> Result<()> {
    let reference = &scope.owner.spec.machine_template.spec.infrastructure_ref;
    let Some(template) = scope.externals.get(reference, scope.namespace).await? else { return Ok(()) };
    let mut meta = template.metadata.clone();
    let Some(owner) = capstan_controller::owners::plain(scope.cluster) else { return Ok(()) };
    if !capstan_controller::owners::ensure(&mut meta, &owner) {
        return Ok(());
    }
    let api = scope.externals.api(reference, scope.namespace).await?;
    let patch = json!({"metadata": {
        "resourceVersion": template.resource_version(),
        "ownerReferences": meta.owner_references,
    }});
    api.patch(&reference.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot own {} {}", reference.kind, reference.name))?;
    Ok(())
}
