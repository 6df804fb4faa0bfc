//! The state of the update of a Machine, and the request to the update hook. Pure.

use capstan_api::core::Machine;
use capstan_api::runtime::hooks::{CommonRequest, MachineObjects, UpdateMachineRequest};
use capstan_controller::in_place;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::provision::{data_secret_created, provisioned};
use crate::external::Reading;
use crate::names::machine::reasons;

/// Message of the condition `Updating`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) struct UpdateProgress {
    pub(in crate::machine) reason: &'static str,
    pub(in crate::machine) message: String,
}

impl UpdateProgress {
    /// The update is in progress, with the message of the hook.
    pub(in crate::machine) fn updating(said: Option<&str>) -> Self {
        let said = said.filter(|said| !said.is_empty()).map(|said| format!(": {said}")).unwrap_or_default();
        Self { reason: reasons::IN_PLACE_UPDATING, message: format!("In-place update in progress{said}") }
    }

    /// The update has failed, with the cause.
    pub(in crate::machine) fn failed(message: impl Into<String>) -> Self {
        Self { reason: reasons::IN_PLACE_UPDATE_FAILED, message: message.into() }
    }
}

/// The next action for the update of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Stage {
    /// There is no update, or another controller must act first.
    Nothing,
    /// The update is complete, and some annotations are left.
    CleanUp,
    /// The infrastructure machine does not exist.
    NoInfrastructure,
    /// The hook must be called.
    Call,
}

pub(in crate::machine) fn stage(machine: &Machine, infrastructure: &Reading, bootstrap: &Reading) -> Stage {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    if machine.metadata.deletion_timestamp.is_some() || !in_place::is_hook_pending(&machine.metadata) {
        return Stage::Nothing;
    }
    if !in_place::is_marked(&machine.metadata) {
        return Stage::CleanUp;
    }
    if !(provisioned(machine) && data_secret_created(machine) && has_node) {
        return Stage::Nothing;
    }
    let is_marked = |object: &DynamicObject| in_place::is_marked(&object.metadata);
    match (infrastructure, bootstrap) {
        (Reading::Missing | Reading::Unreferenced, _) => Stage::NoInfrastructure,
        (Reading::Unreadable, _) | (_, Reading::Unreadable) => Stage::Nothing,
        (Reading::Found(infrastructure), Reading::Found(config)) => match is_marked(infrastructure) {
            true if is_marked(config) => Stage::Call,
            _ => Stage::Nothing,
        },
        (Reading::Found(infrastructure), _) if is_marked(infrastructure) => Stage::Call,
        _ => Stage::Nothing,
    }
}

/// The desired state of the machine: specs only, without fields that extensions must not change.
pub(in crate::machine) fn request(
    machine: &Machine,
    infrastructure: &Reading,
    bootstrap: &Reading,
) -> Option<UpdateMachineRequest> {
    let mut bare = Machine::new(&machine.name_any(), machine.spec.clone());
    bare.metadata = ObjectMeta {
        name: machine.metadata.name.clone(),
        namespace: machine.namespace(),
        labels: machine.metadata.labels.clone(),
        annotations: machine.metadata.annotations.clone(),
        ..ObjectMeta::default()
    };
    let desired = MachineObjects {
        machine: bare,
        infrastructure_machine: sent(infrastructure.found()?),
        bootstrap_config: bootstrap.found().map(sent),
    };
    Some(UpdateMachineRequest { common: CommonRequest::default(), desired })
}

fn sent(object: &DynamicObject) -> Value {
    let types = object.types.clone().unwrap_or_default();
    let mut metadata = json!({"name": object.name_any(), "namespace": object.namespace()});
    for (field, map) in [("labels", object.labels()), ("annotations", object.annotations())] {
        if !map.is_empty() {
            metadata[field] = json!(map);
        }
    }
    json!({
        "apiVersion": types.api_version, "kind": types.kind, "metadata": metadata,
        "spec": object.data.get("spec").cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::runtime::annotations::PENDING_HOOKS;
    use capstan_api::runtime::annotations::in_place::UPDATE_IN_PROGRESS;

    fn machine(annotations: &Value, change: impl FnOnce(&mut Value)) -> Machine {
        let mut value = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "n", "uid": "u", "annotations": annotations},
            "spec": {"clusterName": "c", "version": "v1.36.1", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "i", "kind": "Host", "name": "m"}},
            "status": {"nodeRef": {"name": "m"}, "initialization":
                {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true}},
        });
        change(&mut value);
        serde_json::from_value(value).expect("a Machine")
    }

    fn object(annotations: &Value) -> Reading {
        let value = json!({
            "apiVersion": "i/v1", "kind": "Host", "metadata": {"name": "m", "uid": "u", "annotations": annotations},
            "spec": {"size": 1}, "status": {"ready": true},
        });
        Reading::Found(Box::new(serde_json::from_value(value).expect("an object")))
    }

    #[test]
    fn the_hook_is_called_when_everything_is_marked() {
        let none = json!({});
        let marked = json!({UPDATE_IN_PROGRESS: ""});
        let pending = json!({PENDING_HOOKS: "UpdateMachine"});
        let both = json!({UPDATE_IN_PROGRESS: "", PENDING_HOOKS: "UpdateMachine"});
        let same = |_: &mut Value| {};
        let (good, bare) = (|| object(&marked), || object(&none));
        for (case, machine, infrastructure, bootstrap, expected) in [
            ("no update", machine(&none, same), good(), good(), Stage::Nothing),
            ("still being written", machine(&marked, same), good(), good(), Stage::Nothing),
            ("over", machine(&pending, same), bare(), good(), Stage::CleanUp),
            ("all marked", machine(&both, same), good(), good(), Stage::Call),
            ("no bootstrap config", machine(&both, same), good(), Reading::Unreferenced, Stage::Call),
            ("bootstrap config gone", machine(&both, same), good(), Reading::Missing, Stage::Call),
            ("config not marked", machine(&both, same), good(), bare(), Stage::Nothing),
            ("infrastructure not marked", machine(&both, same), bare(), good(), Stage::Nothing),
            ("infrastructure gone", machine(&both, same), Reading::Missing, good(), Stage::NoInfrastructure),
            ("unreadable", machine(&both, same), Reading::Unreadable, good(), Stage::Nothing),
            (
                "no node yet",
                machine(&both, |value| value["status"]["nodeRef"] = Value::Null),
                good(),
                good(),
                Stage::Nothing,
            ),
            (
                "not provisioned",
                machine(&both, |value| value["status"]["initialization"] = Value::Null),
                good(),
                good(),
                Stage::Nothing,
            ),
            (
                "on its way out",
                machine(&both, |value| {
                    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }),
                good(),
                good(),
                Stage::Nothing,
            ),
        ] {
            assert_eq!(stage(&machine, &infrastructure, &bootstrap), expected, "{case}");
        }
    }

    #[test]
    fn the_hook_sees_specs_and_nothing_more() {
        let machine = machine(&json!({"a": "b"}), |_| {});
        let asked = request(&machine, &object(&json!({})), &Reading::Missing).expect("something to ask");
        let asked = serde_json::to_value(asked).expect("JSON");
        let desired = &asked["desired"];
        assert_eq!(desired["machine"]["metadata"]["annotations"]["a"], "b");
        assert!(desired["machine"].get("status").is_none_or(Value::is_null), "{desired}");
        assert!(desired["machine"]["metadata"].get("uid").is_none(), "{desired}");
        assert_eq!(desired["infrastructureMachine"]["spec"]["size"], 1);
        assert!(desired["infrastructureMachine"].get("status").is_none(), "{desired}");
        assert!(desired.get("bootstrapConfig").is_none(), "{desired}");
        assert!(request(&machine, &Reading::Missing, &Reading::Missing).is_none());
    }
}
