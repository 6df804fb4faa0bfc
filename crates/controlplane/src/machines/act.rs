//! Creates, changes and deletes the machines of a control plane, one at a time.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{delete as remove, set};
use capstan_api::core::Machine;
use capstan_api::keep;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::patch::Patcher;
use capstan_controller::{Grounds, Knowledge, destroy};
use capstan_distro::Endpoint;
use capstan_planner::MachineFacts;
use capstan_planner::healing::Healing;
use capstan_planner::machines::{MachineStep, decide};
use capstan_planner::plans::Outcome;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

use super::build::{self, propagate};
use super::observe::{View, wanted};
use super::status::{healed_in_place, up_to_date};
use crate::names::{NEXT_MACHINE, REMEDIATION, UP_TO_DATE};
use crate::observe::machine::OWNER_REMEDIATED;
use crate::observe::{Machines, Observed};
use crate::scope::{Scope, replicas};
use crate::workload::Workload;

/// Decides about the machines of the control plane, and carries out the next step.
pub(crate) async fn step(
    seen: &mut Observed<'_>,
    endpoint: &Endpoint,
    workload: &impl Workload,
) -> Result<()> {
    let scope = seen.scope;
    let own: Vec<MachineFacts> = seen.own_facts();
    let remediated = scope.remediated();
    let too_many = own.iter().filter(|machine| !machine.deleting).count() > replicas(scope.owner).max(1);
    let volumes = match seen.initialized && too_many {
        true => workload.local_volumes(scope.namespace, &scope.cluster_name()).await,
        // No machine is deleted in this round, so the volumes are not listed.
        false => Knowledge::default(),
    };
    let view = View { etcd: &seen.etcd, volumes: &volumes, initialized: seen.initialized };
    let mut wanted = wanted(scope, &endpoint.host, view, remediated.as_ref());
    let exhausted = seen.healing.iter().filter(|(_, healing)| healing.is_exhausted());
    wanted.exhausted = exhausted.map(|(name, _)| name.clone()).collect();
    if wanted.may_replace && !wanted.exhausted.is_empty() {
        let template = &scope.owner.spec.machine_template.spec.infrastructure_ref;
        wanted.spare = scope.spare(Some(template)).await?;
    }
    seen.step = decide(&own, &wanted);
    act(scope, &seen.objects, &seen.step).await
}

/// Carries out a step.
async fn act(scope: &Scope<'_>, observed: &Machines, step: &MachineStep) -> Result<()> {
    if matches!(step, MachineStep::Create { .. } | MachineStep::Delete { .. } | MachineStep::Remediate { .. })
    {
        confirm(scope, observed).await?;
    }
    match step {
        MachineStep::Nothing | MachineStep::Wait(_) | MachineStep::Refuse(_) => Ok(()),
        MachineStep::Create { failure_domain } => create(scope, failure_domain.clone()).await,
        MachineStep::GiveUp(name) => give_up(scope, name).await,
        MachineStep::Delete { machine, grounds } => delete(scope, observed, machine, grounds).await,
        MachineStep::Remediate { machine, record, grounds } => {
            let record = serde_json::to_string(record)
                .map_err(|error| Error::transient(format!("cannot replace Machine {machine}"), error))?;
            scope.record(scope.owner, &[(REMEDIATION, Some(&record))]).await?;
            delete(scope, observed, machine, grounds).await
        }
        MachineStep::Update(name) => update(scope, observed, name).await,
    }
}

/// Verifies by a live read that the Machines are those that were observed: the cache may be old, and the next step
/// cannot be undone.
///
/// # Errors
/// If they differ. Then the decision is made again.
pub(crate) async fn confirm(scope: &Scope<'_>, observed: &Machines) -> Result<()> {
    let mark = |machine: &Machine| {
        (machine.name_any(), machine.uid(), machine.metadata.deletion_timestamp.is_some())
    };
    let mut live: Vec<_> = scope.machines_live().await?.iter().map(mark).collect();
    live.sort();
    if live.into_iter().eq(observed.machines.values().map(|machine| mark(machine))) {
        return Ok(());
    }
    let doing = format!("cannot continue with Cluster {}: its Machines have changed", scope.cluster_name());
    Err(Error::Conflict { doing })
}

/// Creates a machine: records its name first, then creates the objects that it needs, and the Machine last, because
/// core acts on it at once.
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

/// Creates an object, unless an earlier attempt has created it.
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

/// Deletes the objects of a machine that is no longer wanted and whose Machine does not exist.
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

/// Deletes a Machine with the UID and resource version that were observed.
pub(crate) async fn delete(
    scope: &Scope<'_>,
    observed: &Machines,
    name: &str,
    grounds: &Grounds,
) -> Result<()> {
    let Some(machine) = observed.machines.get(name) else { return Ok(()) };
    destroy::delete::<Machine>(&scope.api(), &machine.metadata, grounds).await
}

/// Writes the desired state of a machine. The planner decides what happens to it.
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

/// Makes the Cluster an owner of the infrastructure template, so that a move includes it.
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

/// Removes the recorded name of a machine that exists already. Otherwise the next machine would be taken for it.
/// Returns whether it was removed.
pub(crate) async fn note_what_was_made(seen: &Observed<'_>) -> Result<bool> {
    let is_there = |name: &&str| seen.objects.machines.contains_key(*name);
    if seen.scope.begun().filter(is_there).is_none() {
        return Ok(false);
    }
    seen.scope.record(seen.scope.owner, &[(NEXT_MACHINE, None)]).await?;
    Ok(true)
}

/// Writes the conditions of every Machine, and updates those of the control plane with changes that cost nothing.
pub(crate) async fn sync(seen: &mut Observed<'_>) -> Result<()> {
    for machine in &mut seen.own {
        let name = machine.name_any();
        if let Some(facts) = seen.facts.iter().find(|facts| facts.name == name) {
            let healing = seen.healing.get(&name);
            *machine = sync_one(seen.scope, machine, facts, seen.plans.get(&name), healing).await?;
        }
    }
    for facts in seen.facts.iter().filter(|facts| !facts.control_plane) {
        let (machine, healing) = (seen.objects.machines.get(&facts.name), seen.healing.get(&facts.name));
        if let (Some(machine), Some(healing)) = (machine, healing) {
            write_healing_condition(seen.scope, machine, healing).await?;
        }
    }
    Ok(())
}

/// Propagates labels, annotations, gates, taints and deletion settings to a Machine, and sets `UpToDate`, as far as it
/// is known. Returns the Machine after the write.
async fn sync_one(
    scope: &Scope<'_>,
    machine: &Machine,
    facts: &MachineFacts,
    planned: Option<&Outcome>,
    healing: Option<&Healing>,
) -> Result<Machine> {
    let mut synced = machine.clone();
    if !facts.deleting {
        propagate(scope.owner, &scope.cluster_name(), &mut synced);
    }
    if let Some(condition) = up_to_date(facts, planned) {
        set(&mut synced, condition, scope.now);
    }
    if let Some(condition) = healing.and_then(|healing| healed_in_place(machine, healing)) {
        set(&mut synced, condition, scope.now);
    }
    if facts.has_recovered {
        // The owner must: the MachineHealthCheck sets the condition and never removes it.
        remove(&mut synced, OWNER_REMEDIATED);
    }
    let owned = [UP_TO_DATE, OWNER_REMEDIATED, keep::HEALED_IN_PLACE];
    Patcher::new(scope.api(), machine).finish(&synced, &owned).await?;
    Ok(synced)
}

/// Writes the progress of healing to a worker's Machine, where its owner and the user read it.
async fn write_healing_condition(scope: &Scope<'_>, machine: &Machine, healing: &Healing) -> Result<()> {
    let Some(condition) = healed_in_place(machine, healing) else { return Ok(()) };
    let mut updated = machine.clone();
    match set(&mut updated, condition, scope.now) {
        true => Patcher::new(scope.api(), machine).finish(&updated, &[keep::HEALED_IN_PLACE]).await,
        false => Ok(()),
    }
}
