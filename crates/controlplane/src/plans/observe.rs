//! Reads plans that were written, and the Secrets that new plans need.

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_controller::error::Result;
use capstan_controller::secrets;
use capstan_distro::{RESTART_GATE, SecretFiles, secret_keys};
use capstan_plan::{
    MachineIdentity, OpenGates, PlanId, SecretData, SignedGates, SignedPlan, StepName, TrustedKeys,
};
use capstan_planner::facts::{PlanFacts, Progress};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::names::{DRAIN_SINCE, PLAN_INPUTS, PLAN_RECORD};
use crate::scope::Scope;

/// The plan in a Secret, without the report about it. A plan that cannot be parsed counts as none.
pub(crate) fn plan_facts(
    secret: &Secret,
    machine: &str,
    id: &str,
    keys: Option<&TrustedKeys>,
) -> Option<PlanFacts> {
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
        is_open: gates.as_ref().is_some_and(|gates| gates.is_open(signed.id(), &gate)),
        cancelled: gates.as_ref().and_then(OpenGates::cancelled),
        drain_since: annotation(DRAIN_SINCE).and_then(|text| text.parse().ok()),
        record: annotation(PLAN_RECORD).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        programs: verified.iter().flat_map(|plan| capstan_distro::programs(plan.plan()).cloned()).collect(),
        agent: verified.as_ref().and_then(|plan| plan.plan().agent.clone()),
        progress: Progress::InFlight,
    })
}

/// Whether the Secret that was read contains this plan.
pub(super) fn is_of(secret: &Secret, plan: PlanId) -> bool {
    SignedPlan::from_secret_data(&data_of(secret)).is_ok_and(|signed| signed.id() == plan)
}

/// The content of a Secret.
pub(super) fn data_of(secret: &Secret) -> SecretData {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

/// The content that a config refers to. Missing content is left out: the renderer names the field.
pub(super) async fn secret_files(scope: &Scope<'_>, config: &CapstanConfigSpec) -> Result<SecretFiles> {
    let (mut files, mut read) = (SecretFiles::new(), BTreeMap::new());
    for (name, key) in secret_keys(config) {
        let secret: &Option<Secret> = match read.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(scope.get(&name).await?),
        };
        if let Some(bytes) = secret.as_ref().and_then(|secret| secrets::get(secret, &key)) {
            files.insert((name, key), bytes.to_vec().into());
        }
    }
    Ok(files)
}
