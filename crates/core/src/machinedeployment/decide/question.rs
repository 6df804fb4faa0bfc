//! Whether the Machines of one MachineSet can become Machines of another: the question to an extension, and what its
//! answer means. Pure.

use capstan_api::core::MachineSet;
use capstan_api::runtime::hooks::{
    CanUpdateMachineSetRequest, CanUpdateMachineSetResponse, CommonRequest, MachineSetObjects, ResponseStatus,
};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::super::names::MAX_REPLICAS;
use super::limits::Limits;
use crate::runtime::patches::{PatchError, applied};

/// The state that the answer depends on.
const TEMPLATE: &str = "/spec/template/spec";

/// Fields of a Machine's spec that are compared. The others never change, are the templates' matter, or are handed down
/// without an update.
const COMPARED: [&str; 2] = ["version", "failureDomain"];

/// A MachineSet and what its template refers to.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) set: MachineSet,
    pub(crate) infrastructure: DynamicObject,
    pub(crate) bootstrap: Option<DynamicObject>,
}

/// The question. `None` if there is nothing to ask: with a bootstrap template on one side only, no Machine of the one
/// can become a Machine of the other.
pub(crate) fn request(current: &Side, desired: &Side, limits: Limits) -> Option<CanUpdateMachineSetRequest> {
    if current.bootstrap.is_some() != desired.bootstrap.is_some() {
        return None;
    }
    let side = |side: &Side| MachineSetObjects {
        machine_set: sent(&side.set, limits),
        infrastructure_machine_template: sent_template(&side.infrastructure),
        bootstrap_config_template: side.bootstrap.as_ref().map(sent_template),
    };
    let common = CommonRequest::default();
    Some(CanUpdateMachineSetRequest { common, current: side(current), desired: side(desired) })
}

/// A MachineSet without what is not an extension's business. It says how many Machines there may be while they are
/// changed in place, which is less than a replacement may take.
fn sent(set: &MachineSet, limits: Limits) -> MachineSet {
    let mut bare = MachineSet::new(&set.name_any(), set.spec.clone());
    let mut annotations = set.annotations().clone();
    annotations.insert(MAX_REPLICAS.to_owned(), limits.in_place().most().to_string());
    bare.metadata = ObjectMeta {
        name: set.metadata.name.clone(),
        namespace: set.namespace(),
        labels: set.metadata.labels.clone(),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    bare
}

fn sent_template(template: &DynamicObject) -> Value {
    let types = template.types.clone().unwrap_or_default();
    let mut metadata = json!({"name": template.name_any(), "namespace": template.namespace()});
    for (field, map) in [("labels", template.labels()), ("annotations", template.annotations())] {
        if !map.is_empty() {
            metadata[field] = json!(map);
        }
    }
    json!({
        "apiVersion": types.api_version, "kind": types.kind, "metadata": metadata,
        "spec": template.data.get("spec").cloned().unwrap_or_default(),
    })
}

/// What remains different after the changes that the extension could make; nothing, if it could make them all.
pub(crate) fn remaining(
    request: &CanUpdateMachineSetRequest,
    response: &CanUpdateMachineSetResponse,
) -> Result<Vec<String>, PatchError> {
    let mut different = vec![];
    // A MachineSet is made of texts, numbers and maps with text keys: it can always be written.
    let value = |set: &MachineSet| serde_json::to_value(set).unwrap_or_default();
    let patched =
        applied(&value(&request.current.machine_set), response.machine_set_patch.as_ref(), TEMPLATE)?;
    let desired = value(&request.desired.machine_set);
    for field in COMPARED {
        let pointer = format!("{TEMPLATE}/{field}");
        if patched.pointer(&pointer) != desired.pointer(&pointer) {
            different.push(format!("MachineSet spec.template.spec.{field}"));
        }
    }
    let mut compare = |current: &Value, desired: &Value, patch| -> Result<(), PatchError> {
        let patched = applied(current, patch, TEMPLATE)?;
        if patched.pointer(TEMPLATE) != desired.pointer(TEMPLATE) {
            let kind = current.get("kind").and_then(Value::as_str).unwrap_or("template");
            different.push(format!("{kind} spec.template.spec"));
        }
        Ok(())
    };
    compare(
        &request.current.infrastructure_machine_template,
        &request.desired.infrastructure_machine_template,
        response.infrastructure_machine_template_patch.as_ref(),
    )?;
    if let (Some(current), Some(desired)) =
        (&request.current.bootstrap_config_template, &request.desired.bootstrap_config_template)
    {
        compare(current, desired, response.bootstrap_config_template_patch.as_ref())?;
    }
    Ok(different)
}

/// Whether an answer says something that counts until the question changes: it names changes, and they fit. An
/// extension that names none may only not know yet.
pub(crate) fn is_decision(
    request: &CanUpdateMachineSetRequest,
    response: &CanUpdateMachineSetResponse,
) -> bool {
    let patches = [
        &response.machine_set_patch,
        &response.infrastructure_machine_template_patch,
        &response.bootstrap_config_template_patch,
    ];
    response.common.status == ResponseStatus::Success
        && patches.into_iter().flatten().any(|patch| !patch.patch.0.is_empty())
        && remaining(request, response).is_ok()
}

#[cfg(test)]
#[path = "tests/question.rs"]
mod tests;
