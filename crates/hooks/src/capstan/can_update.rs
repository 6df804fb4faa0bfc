//! Which changes machines take in place: a pure function of both sides of a change.
//!
//! What the table says can be made in place is answered with patches that make the current side the desired one in
//! exactly those fields; core compares what remains. What cannot is refused by name as long as machines are not to be
//! replaced. Then nothing at all is to happen, which is what core makes of a failure.

use capstan_api::keep::ReplacePolicy;
use capstan_api::meta::labels;
use capstan_api::runtime::annotations::REPLACE_POLICY;
use capstan_api::runtime::hooks::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, CommonResponse, Patch, PatchType,
};
use capstan_distro::cost::{Change, Cost};
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::changes::{self, Names, Side};

/// How many machines a MachineDeployment wants, on its MachineSets.
const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
/// How many there may be during a rollout.
const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";

/// Patches that cover what can be made in place.
#[derive(Default)]
struct Covered {
    machine: Option<Patch>,
    config: Option<Patch>,
}

/// The judgement of a change.
#[derive(Default)]
pub struct Judgement {
    /// Every field that differs, and its cost. Empty for machines of other providers.
    pub changes: Vec<Change>,
    /// Why the change must not be made.
    pub refusal: Option<String>,
    covered: Covered,
}

impl Judgement {
    fn refused(changes: Vec<Change>, why: String) -> Self {
        Self { changes, refusal: Some(why), covered: Covered::default() }
    }

    fn common(&self) -> CommonResponse {
        self.refusal.as_ref().map_or_else(CommonResponse::success, CommonResponse::failure)
    }
}

/// The response for the machines of a MachineSet.
pub fn machine_set(request: &CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
    let judgement = judge_machine_set(request);
    CanUpdateMachineSetResponse {
        common: judgement.common(),
        machine_set_patch: judgement.covered.machine,
        infrastructure_machine_template_patch: None,
        bootstrap_config_template_patch: judgement.covered.config,
    }
}

/// The judgement behind the response for a MachineSet.
pub fn judge_machine_set(request: &CanUpdateMachineSetRequest) -> Judgement {
    let set = &request.desired.machine_set;
    let owner = match set.labels().get(labels::DEPLOYMENT_NAME) {
        Some(deployment) => format!("MachineDeployment {deployment}"),
        None => format!("MachineSet {}", set.name_any()),
    };
    let names = Names { owner: &owner, prefix: "spec.template.spec" };
    let (current, desired) = (Side::from(&request.current), Side::from(&request.desired));
    let surge = surge(set.annotations(), &owner);
    judge(current, desired, names, set.annotations(), surge)
}

/// The response for one machine.
pub fn machine(request: &CanUpdateMachineRequest) -> CanUpdateMachineResponse {
    let machine = &request.desired.machine;
    let owner = format!("Machine {}", machine.name_any());
    let names = Names { owner: &owner, prefix: "spec" };
    let (current, desired) = (Side::from(&request.current), Side::from(&request.desired));
    let judgement = judge(current, desired, names, machine.annotations(), None);
    CanUpdateMachineResponse {
        common: judgement.common(),
        machine_patch: judgement.covered.machine,
        infrastructure_machine_patch: None,
        bootstrap_config_patch: judgement.covered.config,
    }
}

/// Why machines might be replaced although the change can be made in place: core may make one more to begin with, and
/// then deletes one of those there are.
fn surge(annotations: &BTreeMap<String, String>, owner: &str) -> Option<Change> {
    let number = |key: &str| annotations.get(key).and_then(|text| text.parse::<i64>().ok());
    let (desired, most) = (number(DESIRED_REPLICAS)?, number(MAX_REPLICAS)?);
    (most > desired).then(|| {
        let why = "with a surge Cluster API may make another machine and delete one of these: set it to 0, and \
                   maxUnavailable to 1 or more";
        Change::new(format!("{owner} spec.rollout.strategy.rollingUpdate.maxSurge"), Cost::Replace, why)
    })
}

fn judge(
    current: Side<'_>,
    desired: Side<'_>,
    names: Names<'_>,
    annotations: &BTreeMap<String, String>,
    surge: Option<Change>,
) -> Judgement {
    if !changes::is_ours(current.config) {
        return Judgement::default();
    }
    let policy = match ReplacePolicy::of(annotations) {
        Ok(policy) => policy,
        Err(problem) => return Judgement::refused(vec![], format!("{} {problem}", names.owner)),
    };
    let mut changes = changes::between(current, desired, names);
    changes.extend(surge.filter(|_| policy == ReplacePolicy::Never));
    let fields_with = |cost: Cost| -> Vec<String> {
        changes.iter().filter(|change| change.cost == cost).map(ToString::to_string).collect()
    };
    let (impossible, replacing) = (fields_with(Cost::Refused), fields_with(Cost::Replace));
    if !impossible.is_empty() {
        return Judgement::refused(changes, impossible.join("; "));
    }
    if !replacing.is_empty() && policy == ReplacePolicy::Never {
        let why = format!(
            "machines are kept ({REPLACE_POLICY} is Never), and this would replace them: {}",
            replacing.join("; ")
        );
        return Judgement::refused(changes, why);
    }
    let covered = covered(current, desired, names, &changes);
    Judgement { changes, refusal: None, covered }
}

/// Patches for what is cheaper than another machine.
fn covered(current: Side<'_>, desired: Side<'_>, names: Names<'_>, changes: &[Change]) -> Covered {
    let in_place =
        |field: &str| changes.iter().any(|change| change.field == field && change.cost < Cost::Replace);
    let machine = in_place(&names.of_machine("version")).then(|| {
        let version = desired.machine.version.clone();
        let spec =
            names.prefix.rsplit('.').fold(json!({"version": version}), |inner, key| json!({key: inner}));
        patch(PatchType::JSONMergePatch, &spec)
    });
    let config = match (current.config, desired.config) {
        (Some(old), Some(new)) => config_patch(old, new, names, changes),
        _ => None,
    };
    Covered { machine, config }
}

fn config_patch(old: &Value, new: &Value, names: Names<'_>, changes: &[Change]) -> Option<Patch> {
    let pointer = names.pointer();
    let (before, after) = (old.pointer(&pointer)?, new.pointer(&pointer)?);
    if before == after {
        return None;
    }
    let inside = format!(" {}.", names.prefix);
    let stuck = changes.iter().filter(|change| change.cost >= Cost::Replace);
    let stuck = stuck.filter_map(|change| change.field.split_once(&inside)).map(|(_, field)| field);
    let reached = reachable(before, after, stuck);
    Some(patch(PatchType::JSONPatch, &json!([{"op": "add", "path": pointer, "value": reached}])))
}

/// What becomes of a setup if these fields stay as they are. A list counts as one thing.
fn reachable<'a>(before: &Value, after: &Value, stuck: impl Iterator<Item = &'a str>) -> Value {
    let mut reached = after.clone();
    for field in stuck {
        let list = field.split_once('[').map_or(field, |(list, _)| list);
        let (outer, key) = match list.split_once('.') {
            Some((outer, key)) => (Some(outer), key),
            None => (None, list),
        };
        let kept = outer.map_or(Some(before), |outer| before.get(outer)).and_then(|fields| fields.get(key));
        let place = match outer {
            None => reached.as_object_mut(),
            Some(outer) => reached.get_mut(outer).and_then(Value::as_object_mut),
        };
        match (place, kept) {
            (Some(fields), Some(kept)) => _ = fields.insert(key.to_owned(), kept.clone()),
            (Some(fields), None) => _ = fields.remove(key),
            // The map around it is gone on the other side, and with it this field: so the map stays.
            (None, Some(kept)) => reached[outer.unwrap_or(key)] = json!({key: kept}),
            (None, None) => {}
        }
    }
    reached
}

fn patch(patch_type: PatchType, patch: &Value) -> Patch {
    Patch { patch_type, patch: ByteString(patch.to_string().into_bytes()) }
}

#[cfg(test)]
#[path = "tests/can_update.rs"]
mod tests;
