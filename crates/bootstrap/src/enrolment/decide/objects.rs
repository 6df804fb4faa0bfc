//! The objects that grant a machine its rights, and the changes they need. Pure.

use capstan_api::access;
use capstan_api::meta::labels;
use capstan_controller::{identity, names::label_value};
use capstan_plan::heartbeat;
use serde_json::{Value, json};
use std::time::Duration;

use crate::names::Names;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> ResourceKind {
    ResourceKind { group, version, kind, plural }
}

const RBAC: &str = "rbac.authorization.k8s.io";
pub(crate) const SERVICE_ACCOUNT: ResourceKind = kind("", "v1", "ServiceAccount", "serviceaccounts");
pub(crate) const REPORT: ResourceKind =
    kind("agent.capstan.dev", "v1alpha1", "MachineReport", "machinereports");
pub(crate) const LEASE: ResourceKind = kind("coordination.k8s.io", "v1", "Lease", "leases");
pub(crate) const ROLE: ResourceKind = kind(RBAC, "v1", "Role", "roles");
pub(crate) const ROLE_BINDING: ResourceKind = kind(RBAC, "v1", "RoleBinding", "rolebindings");

/// A desired object: the fields that Capstan sets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) kind: ResourceKind,
    pub(crate) name: String,
    pub(crate) object: Value,
}

/// All objects that a machine needs to enrol and to work, except the ServiceAccount of its enrolment token. `owner`
/// owns them, so they are deleted with it, and the machine loses its rights. `interval` is that of the agent's heartbeats.
pub(crate) fn wanted(names: &Names, owner: &Value, interval: Duration) -> Vec<Wanted> {
    let (report, plan, lease, agent, enrol) =
        (names.report(), names.plan(), names.lease(), names.agent(), names.enrol());
    let account = names.account();
    let binding = |role: &str, account: &str| {
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": names.namespace});
        json!({"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role}, "subjects": [subject]})
    };
    let mut all: Vec<Wanted> = [
        (SERVICE_ACCOUNT, &account, no_pods()),
        (REPORT, &report, json!({"spec": {"machineName": names.machine, "machineID": names.machine_id}})),
        (LEASE, &lease, json!({})),
        (ROLE, &enrol, json!({"rules": access::enrolling_machine(&report)})),
        (ROLE_BINDING, &enrol, binding(&enrol, &names.enrolment_account())),
        (ROLE, &agent, json!({"rules": access::machine(&report, &plan, &lease)})),
        (ROLE_BINDING, &agent, binding(&agent, &account)),
    ]
    .into_iter()
    .map(|(kind, name, fields)| object(names, owner, kind, name, fields))
    .collect();
    for lease in all.iter_mut().filter(|wanted| wanted.kind == LEASE) {
        lease.object["metadata"]["annotations"][heartbeat::ANNOTATION] =
            interval.as_secs().to_string().into();
    }
    all
}

/// The ServiceAccount of the enrolment token, which is deleted when the machine has enrolled.
pub(crate) fn enrolment(names: &Names, owner: &Value) -> Wanted {
    object(names, owner, SERVICE_ACCOUNT, &names.enrolment_account(), no_pods())
}

/// No pod gets a token of the ServiceAccount automatically.
fn no_pods() -> Value {
    json!({"automountServiceAccountToken": false})
}

fn object(names: &Names, owner: &Value, kind: ResourceKind, name: &str, fields: Value) -> Wanted {
    let version = match kind.group {
        "" => kind.version.to_owned(),
        group => format!("{group}/{}", kind.version),
    };
    let mut object = json!({
        "apiVersion": version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": names.namespace,
            "labels": {labels::CLUSTER_NAME: label_value(&names.cluster)},
            "annotations": {identity::MACHINE_ID: names.machine_id},
            "ownerReferences": [owner],
        },
    });
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    Wanted { kind, name: name.to_owned(), object }
}

/// The comparison of an object with the desired one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The object is as desired.
    Keep,
    /// The object does not exist.
    Create,
    /// The object differs, and this patch corrects it.
    Repair(Value),
    /// The object belongs to an earlier machine of the name and must be deleted first.
    Remove,
    /// The object is being deleted, which must complete first.
    Leaving,
    /// The object does not belong to Capstan.
    InTheWay,
}

/// Compares an object with the desired one.
pub(crate) fn verdict(wanted: &Wanted, found: Option<&Value>) -> Verdict {
    let Some(found) = found else { return Verdict::Create };
    let id = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations")?;
        annotations.get(identity::MACHINE_ID).and_then(Value::as_str).map(str::to_owned)
    };
    // A report says in its spec whose it is: it may have been there before it had annotations.
    let spoken = |object: &Value| {
        object.pointer("/spec/machineID").and_then(Value::as_str).map(str::to_owned).or_else(|| id(object))
    };
    match spoken(found) {
        None => return Verdict::InTheWay,
        owner if owner != spoken(&wanted.object) => return Verdict::Remove,
        _ if found.pointer("/metadata/deletionTimestamp").is_some() => return Verdict::Leaving,
        _ => {}
    }
    match missing(&wanted.object, found) {
        None => Verdict::Keep,
        Some(mut patch) => {
            let version = found.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            if let Some(patch) = patch.as_object_mut() {
                let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
                metadata["resourceVersion"] = version;
            }
            Verdict::Repair(patch)
        }
    }
}

/// The merge patch that adds what is missing. Other fields are kept.
fn missing(wanted: &Value, found: &Value) -> Option<Value> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let differs = |(key, value): (&String, &Value)| {
                let patch = match found.get(key) {
                    Some(found) => missing(value, found)?,
                    None if value.as_object().is_some_and(serde_json::Map::is_empty) => return None,
                    None => value.clone(),
                };
                Some((key.clone(), patch))
            };
            let patch: serde_json::Map<String, Value> = wanted.iter().filter_map(differs).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            let same = wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| missing(wanted, found).is_none());
            (!same).then(|| Value::Array(wanted.clone()))
        }
        _ if wanted == found => None,
        _ => Some(wanted.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            namespace: "default".to_owned(),
            cluster: "c".to_owned(),
            config: "web-0-config".to_owned(),
            machine: "web-0".to_owned(),
            machine_id: "id-0".to_owned(),
        }
    }

    fn all() -> Vec<Wanted> {
        let owner = json!({"apiVersion": "v1", "kind": "CapstanConfig", "name": "web-0-config", "uid": "1"});
        let mut all = wanted(&names(), &owner, heartbeat::DEFAULT);
        all.push(enrolment(&names(), &owner));
        all
    }

    #[test]
    fn a_machine_may_touch_three_objects_and_nothing_else() {
        let all = all();
        let rules = |name: &str| {
            let role = all.iter().find(|object| object.kind == ROLE && object.name == name);
            role.map(|role| role.object["rules"].clone()).unwrap_or_default()
        };
        let rule = |group: &str, resource: &str, name: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": verbs});
        let (look, change) = (&["get", "list", "watch"], &["get", "update", "patch"]);
        let own = [
            rule("agent.capstan.dev", "machinereports", "web-0", look),
            rule("agent.capstan.dev", "machinereports/status", "web-0", change),
        ];
        assert_eq!(rules("web-0-config-enrol"), json!(own));
        let [report, status] = own;
        let plan = rule("", "secrets", "web-0-plan", look);
        let lease = rule("coordination.k8s.io", "leases", "web-0-agent", change);
        assert_eq!(rules("web-0-config-agent"), json!([plan, report, status, lease]));
        let subjects: Vec<_> = all
            .iter()
            .filter(|object| object.kind == ROLE_BINDING)
            .map(|binding| (&binding.object["roleRef"]["name"], &binding.object["subjects"][0]["name"]))
            .collect();
        let names = ["web-0-config-enrol", "web-0-config-agent"].map(Value::from);
        let users = ["web-0-config.enrol.machine.capstan.dev", "web-0-config.agent.machine.capstan.dev"];
        let users = users.map(Value::from);
        assert_eq!(subjects, [(&names[0], &users[0]), (&names[1], &users[1])]);
        for object in &all {
            assert_eq!(object.object["metadata"]["ownerReferences"][0]["uid"], "1", "{}", object.name);
        }
    }

    #[test]
    fn what_is_there_is_kept_mended_removed_or_in_the_way() {
        for wanted in all() {
            assert_eq!(verdict(&wanted, None), Verdict::Create);
            let mut found = wanted.object.clone();
            found["metadata"]["uid"] = json!("7");
            found["metadata"]["resourceVersion"] = json!("8");
            found["more"] = json!({"of": "it"});
            assert_eq!(verdict(&wanted, Some(&found)), Verdict::Keep, "{}", wanted.name);

            let mut moved = found.clone();
            moved["metadata"]["ownerReferences"] = json!([]);
            let owners = wanted.object["metadata"]["ownerReferences"].clone();
            let patch = json!({"metadata": {"ownerReferences": owners, "resourceVersion": "8"}});
            assert_eq!(verdict(&wanted, Some(&moved)), Verdict::Repair(patch));

            let mut leaving = found.clone();
            leaving["metadata"]["deletionTimestamp"] = json!("2026-11-15T00:00:00Z");
            assert_eq!(verdict(&wanted, Some(&leaving)), Verdict::Leaving);

            let mut former = found.clone();
            former["metadata"]["annotations"][identity::MACHINE_ID] = json!("id-9");
            if former.get("spec").is_some() {
                former["spec"]["machineID"] = json!("id-9");
            }
            assert_eq!(verdict(&wanted, Some(&former)), Verdict::Remove);

            let mut strange = found;
            strange["metadata"]["annotations"] = json!({});
            strange.as_object_mut().expect("an object").remove("spec");
            assert_eq!(verdict(&wanted, Some(&strange)), Verdict::InTheWay);
        }
    }

    #[test]
    fn rights_that_were_widened_are_narrowed_again() {
        let role = all().into_iter().find(|object| object.kind == ROLE).expect("a Role");
        let mut found = role.object.clone();
        found["rules"][0]["resourceNames"] = json!([]);
        let Verdict::Repair(patch) = verdict(&role, Some(&found)) else { panic!("not mended") };
        assert_eq!(patch["rules"], role.object["rules"]);
    }

    #[test]
    fn what_the_machine_wrote_and_what_was_recorded_is_left_alone() {
        let all = all();
        let report = all.iter().find(|object| object.kind == REPORT).expect("a report");
        let mut found = report.object.clone();
        found["spec"]["enrolledKey"] = json!("abc");
        found["status"] = json!({"phase": "Applied"});
        assert_eq!(verdict(report, Some(&found)), Verdict::Keep);
        let lease = all.iter().find(|object| object.kind == LEASE).expect("a Lease");
        let mut found = lease.object.clone();
        found["spec"] = json!({"holderIdentity": "x"});
        assert_eq!(verdict(lease, Some(&found)), Verdict::Keep);
    }

    #[test]
    fn a_lease_with_another_interval_is_changed() {
        let all = all();
        let lease = all.iter().find(|object| object.kind == LEASE).expect("a Lease");
        let mut found = lease.object.clone();
        found["metadata"]["annotations"][heartbeat::ANNOTATION] = json!("120");
        found["metadata"]["resourceVersion"] = json!("8");
        let annotations = json!({heartbeat::ANNOTATION: "20"});
        let patch = json!({"metadata": {"annotations": annotations, "resourceVersion": "8"}});
        assert_eq!(verdict(lease, Some(&found)), Verdict::Repair(patch));
    }
}
