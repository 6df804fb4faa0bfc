//! Writes plans.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{identity, owners, plans, secrets};
use capstan_distro::{RENDERER, Rendered};
use capstan_plan::{MachineIdentity, MachinePlan, Revision, SECRET_TYPE, SealedPlan};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;

use super::decide::LIFE;
use crate::certificates::Keys;
use crate::names::{PLAN_INPUTS, PLAN_RENDERER, PLAN_RESTART, PLAN_SETUP, plan_secret};
use crate::scope::Scope;

/// Binds what was rendered to a machine and a revision.
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
    plan.redact.clone_from(&rendered.redact);
    plan.seal().map_err(|error| wrong(&error))
}

/// Writes a plan in place of the one that was read, unless that has changed meanwhile.
#[expect(clippy::too_many_arguments, reason = "a plan, and all it is bound to")]
pub(crate) async fn plan(
    scope: &Scope<'_>,
    machine: &Machine,
    config: &CapstanConfig,
    id: &str,
    rendered: &Rendered,
    sealed: &SealedPlan,
    keys: &Keys,
    read: Option<&Secret>,
) -> Result<()> {
    let (machine_name, cluster) = (machine.name_any(), scope.cluster_name());
    let name = plan_secret(&machine_name);
    let mut secret = secrets::build(scope.namespace, &cluster, name.clone(), []);
    secret.type_ = Some(SECRET_TYPE.to_owned());
    let data = sealed.sign(&keys.signing).to_secret_data();
    secret.data = Some(data.into_iter().map(|(key, value)| (key, ByteString(value))).collect());
    secret.metadata.owner_references = owners::plain(machine).map(|owner| vec![owner]);
    secret.metadata.annotations = Some(BTreeMap::from([
        (identity::MACHINE_ID.to_owned(), id.to_owned()),
        (PLAN_INPUTS.to_owned(), rendered.fingerprint.whole.to_string()),
        (PLAN_RESTART.to_owned(), rendered.fingerprint.restart.to_string()),
        (PLAN_RENDERER.to_owned(), RENDERER.to_string()),
        (PLAN_SETUP.to_owned(), setup(machine, config)),
    ]));
    let api: Api<Secret> = scope.api();
    let doing = || format!("cannot write Secret {}/{name}", scope.namespace);
    match read {
        Some(read) => {
            secret.metadata.resource_version = read.resource_version();
            api.replace(&name, &PostParams::default(), &secret).await.doing(doing)?;
        }
        None => match api.create(&PostParams::default(), &secret).await {
            // Written by another replica, or somebody else's: looked at in the next round.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                return Err(Error::transient(
                    doing(),
                    "there is a Secret of that name that is no plan of this cluster",
                ));
            }
            made => _ = made.doing(doing)?,
        },
    }
    tracing::info!(machine = machine_name, plan = %sealed.id(), "plan written");
    Ok(())
}

/// Says on a plan that is kept which setup it stands for: one that is written differently and means the same, or
/// differs only in what no plan needs.
pub(crate) async fn stands_for(
    scope: &Scope<'_>,
    read: Option<&Secret>,
    machine: &Machine,
    config: &CapstanConfig,
) -> Result<()> {
    let (Some(read), setup) = (read, setup(machine, config)) else { return Ok(()) };
    if read.annotations().get(PLAN_SETUP) == Some(&setup) {
        return Ok(());
    }
    let name = read.name_any();
    let patch = json!({"metadata": {
        "resourceVersion": read.resource_version(), "annotations": {PLAN_SETUP: setup},
    }});
    let api: Api<Secret> = scope.api();
    let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map(|_| ()).doing(|| format!("cannot write Secret {}/{name}", scope.namespace))
}

fn setup(machine: &Machine, config: &CapstanConfig) -> String {
    plans::setup(machine.spec.version.as_deref().unwrap_or_default(), &config.spec)
}
