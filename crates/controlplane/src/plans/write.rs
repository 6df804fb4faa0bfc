//! Writes plans, and opens their gates.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{identity, owners, plans, secrets};
use capstan_distro::{RENDERER, RESTART_GATE, Rendered};
use capstan_plan::{
    MachineIdentity, MachinePlan, OpenGates, PlanId, Revision, SECRET_TYPE, SealedPlan, StepName,
};
use capstan_planner::facts::PlanFacts;
use capstan_planner::plans::{LIFE, Record};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::BTreeMap;

use crate::certificates::Keys;
use crate::names::{
    DRAIN_SINCE, PLAN_INPUTS, PLAN_RECORD, PLAN_RENDERER, PLAN_RESTART, PLAN_SETUP, plan_secret,
};
use crate::scope::Scope;

/// Binds a rendered plan to a machine and a revision.
pub(crate) fn seal(
    rendered: &Rendered,
    machine: &str,
    id: &str,
    revision: Revision,
    keys: &Keys,
    now: Timestamp,
) -> Result<SealedPlan> {
    let name = || format!("Machine {machine}");
    let wrong =
        |error: &dyn std::fmt::Display| Error::user(name(), format!("its plan cannot be written: {error}"));
    let identity = MachineIdentity {
        name: machine.parse().map_err(|error| wrong(&error))?,
        machine_id: id.parse().map_err(|error| wrong(&error))?,
    };
    let expires =
        now.checked_add(LIFE).map_err(|error| Error::transient("cannot count on the clock", error))?;
    let expires = Timestamp::from_second(expires.as_second())
        .map_err(|error| Error::transient("cannot count on the clock", error))?;
    let mut plan = MachinePlan::new(identity, revision, keys.epoch, expires);
    plan.steps.clone_from(&rendered.steps);
    plan.probes.clone_from(&rendered.probes);
    plan.periodic.clone_from(&rendered.periodic);
    plan.repair_windows.clone_from(&rendered.repair_windows);
    plan.host_windows.clone_from(&rendered.host_windows);
    plan.redact.clone_from(&rendered.redact);
    plan.agent.clone_from(&rendered.agent);
    plan.seal().map_err(|error| wrong(&error))
}

/// A plan that is about to be written.
pub(crate) struct NewPlan<'a> {
    /// Identity of the machine.
    pub(crate) id: &'a str,
    pub(crate) config: &'a CapstanConfig,
    pub(crate) rendered: &'a Rendered,
    pub(crate) sealed: &'a SealedPlan,
    pub(crate) record: &'a Record,
    /// Whether its gate is open from the beginning.
    pub(crate) is_open: bool,
}

/// Replaces the plan that was read, unless it has changed since. Returns the setup of the new plan.
pub(crate) async fn plan(
    scope: &Scope<'_>,
    machine: &Machine,
    plan: &NewPlan<'_>,
    keys: &Keys,
    read: Option<&Secret>,
) -> Result<String> {
    let (machine_name, cluster) = (machine.name_any(), scope.cluster_name());
    let name = plan_secret(&machine_name);
    let mut secret = secrets::build(scope.namespace, &cluster, name.clone(), []);
    secret.type_ = Some(SECRET_TYPE.to_owned());
    let mut data = plan.sealed.sign(&keys.signing).to_secret_data();
    data.extend(keys.successions.to_secret_data());
    if plan.is_open {
        data.extend(open(plan.sealed.id()).seal(&keys.signing).to_secret_data());
    }
    secret.data = Some(data.into_iter().map(|(key, value)| (key, ByteString(value))).collect());
    secret.metadata.owner_references = owners::plain(machine).map(|owner| vec![owner]);
    let doing = || format!("cannot write Secret {}/{name}", scope.namespace);
    let record = serde_json::to_string(plan.record).map_err(|error| Error::transient(doing(), error))?;
    let (fingerprint, setup) = (&plan.rendered.fingerprint, setup(machine, plan.config));
    secret.metadata.annotations = Some(BTreeMap::from([
        (identity::MACHINE_ID.to_owned(), plan.id.to_owned()),
        (PLAN_INPUTS.to_owned(), fingerprint.whole.to_string()),
        (PLAN_RESTART.to_owned(), fingerprint.restart.to_string()),
        (PLAN_RECORD.to_owned(), record),
        (PLAN_RENDERER.to_owned(), RENDERER.to_string()),
        (PLAN_SETUP.to_owned(), setup.clone()),
    ]));
    let api: Api<Secret> = scope.api();
    match read {
        Some(read) => {
            secret.metadata.resource_version = read.resource_version();
            api.replace(&name, &PostParams::default(), &secret).await.doing(doing)?;
        }
        None => match api.create(&PostParams::default(), &secret).await {
            // Another replica has written it, or it belongs to another owner: the next reconcile reads it.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                return Err(Error::transient(
                    doing(),
                    "there is a Secret of that name that is no plan of this cluster",
                ));
            }
            made => _ = made.doing(doing)?,
        },
    }
    tracing::info!(machine = machine_name, plan = %plan.sealed.id(), "plan written");
    Ok(setup)
}

/// The open gate of a plan.
fn open(plan: PlanId) -> OpenGates {
    let gate: StepName = RESTART_GATE.parse().expect("the name of a step");
    OpenGates::new(plan, [gate])
}

/// Opens the gate of the plan in a Secret, unless that has changed since it was read.
pub(crate) async fn open_gate(scope: &Scope<'_>, read: &Secret, plan: &PlanFacts, keys: &Keys) -> Result<()> {
    let gates = open(plan.id);
    put_gates(scope, read, plan.cancelled.into_iter().fold(gates, OpenGates::cancelling), keys).await
}

/// Cancels plans up to this revision, unless the Secret has changed since it was read.
pub(crate) async fn cancel(
    scope: &Scope<'_>,
    read: &Secret,
    plan: &PlanFacts,
    revision: Revision,
    keys: &Keys,
) -> Result<()> {
    let gates = if plan.is_open { open(plan.id) } else { OpenGates::none(plan.id) };
    put_gates(scope, read, gates.cancelling(revision), keys).await
}

async fn put_gates(scope: &Scope<'_>, read: &Secret, gates: OpenGates, keys: &Keys) -> Result<()> {
    let data: BTreeMap<String, ByteString> = gates
        .seal(&keys.signing)
        .to_secret_data()
        .into_iter()
        .map(|(key, value)| (key, ByteString(value)))
        .collect();
    let patch = json!({"metadata": {"resourceVersion": read.resource_version()}, "data": data});
    scope.patch::<Secret>(&read.name_any(), &patch).await.map(|_| ())
}

/// Signs the plan in a Secret again, if an earlier key has signed it, unless the Secret has changed since it was read.
pub(crate) async fn sign_again(
    scope: &Scope<'_>,
    read: &Secret,
    machine: &str,
    keys: &Keys,
) -> Result<Option<Secret>> {
    let Some(data) = super::signature::signed_again(read, machine, keys) else { return Ok(None) };
    let data: BTreeMap<String, ByteString> =
        data.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
    let patch = json!({"metadata": {"resourceVersion": read.resource_version()}, "data": data});
    scope.patch::<Secret>(&read.name_any(), &patch).await.map(Some)
}

/// Records since when the Node is being drained for the plan in a Secret.
pub(crate) async fn drain_since(scope: &Scope<'_>, read: &Secret) -> Result<()> {
    let patch = json!({"metadata": {
        "resourceVersion": read.resource_version(),
        "annotations": {DRAIN_SINCE: scope.now.to_string()},
    }});
    scope.patch::<Secret>(&read.name_any(), &patch).await.map(|_| ())
}

/// Records the setup on a plan that is kept, because the new one differs only in its form or in fields that no plan
/// needs. Returns that setup.
pub(crate) async fn stands_for(
    scope: &Scope<'_>,
    read: Option<&Secret>,
    machine: &Machine,
    config: &CapstanConfig,
) -> Result<String> {
    let setup = setup(machine, config);
    if let Some(read) = read.filter(|read| read.annotations().get(PLAN_SETUP) != Some(&setup)) {
        let patch = json!({"metadata": {
            "resourceVersion": read.resource_version(), "annotations": {PLAN_SETUP: setup},
        }});
        scope.patch::<Secret>(&read.name_any(), &patch).await?;
    }
    Ok(setup)
}

fn setup(machine: &Machine, config: &CapstanConfig) -> String {
    plans::setup(machine.spec.version.as_deref().unwrap_or_default(), &config.spec)
}
