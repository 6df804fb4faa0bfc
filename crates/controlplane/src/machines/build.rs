//! The three objects of a machine: Machine, CapstanConfig and infrastructure machine. Pure.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Bootstrap, Machine, MachineDeletionSpec, MachineSpec};
use capstan_api::meta::{ContractVersionedObjectReference, annotations, labels};
use capstan_controller::error::{Error, Result};
use capstan_controller::{names, owners};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::{ApiResource, ObjectMeta};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::names::{INFRASTRUCTURE_TEMPLATE, LEAVE_ETCD_HOOK};

type Map = BTreeMap<String, String>;

/// Labels of everything that belongs to a machine of the control plane.
pub(crate) fn labels_of(owner: &CapstanControlPlane, cluster: &str) -> Map {
    let template = owner.spec.machine_template.metadata.as_ref();
    let mut all = template.map(|metadata| metadata.labels.clone()).unwrap_or_default();
    all.insert(labels::CLUSTER_NAME.to_owned(), cluster.to_owned());
    all.insert(labels::CONTROL_PLANE.to_owned(), String::new());
    all.insert(labels::CONTROL_PLANE_NAME.to_owned(), names::label_value(&owner.name_any()));
    all
}

/// Annotations of everything that belongs to a machine of the control plane.
pub(crate) fn annotations_of(owner: &CapstanControlPlane) -> Map {
    let template = owner.spec.machine_template.metadata.as_ref();
    template.map(|metadata| metadata.annotations.clone()).unwrap_or_default()
}

fn meta(owner: &CapstanControlPlane, cluster: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: owner.namespace(),
        labels: Some(labels_of(owner, cluster)),
        annotations: Some(annotations_of(owner)),
        // Core makes the Machine the controller as soon as there is one; until then it goes with its maker.
        owner_references: owners::plain(owner).map(|owner| vec![owner]),
        ..Default::default()
    }
}

/// Annotation of copies with the name of their template.
pub(crate) fn template_name(template: &ContractVersionedObjectReference) -> String {
    format!("{}.{}/{}", template.kind, template.api_group, template.name)
}

pub(crate) fn config(owner: &CapstanControlPlane, cluster: &str, name: &str) -> CapstanConfig {
    let mut config = CapstanConfig::new(name, owner.spec.config.clone());
    config.metadata = meta(owner, cluster, name);
    let template = template_name(&owner.spec.machine_template.spec.infrastructure_ref);
    config.annotations_mut().insert(INFRASTRUCTURE_TEMPLATE.to_owned(), template);
    config
}

/// The kind that a template creates.
pub(crate) fn kind_of(template: &ContractVersionedObjectReference) -> Result<&str> {
    template.kind.strip_suffix("Template").filter(|kind| !kind.is_empty()).ok_or_else(|| {
        Error::user(
            "spec.machineTemplate.spec.infrastructureRef.kind",
            "must be the name of a kind that ends in Template",
        )
    })
}

pub(crate) fn infrastructure(
    owner: &CapstanControlPlane,
    cluster: &str,
    name: &str,
    template: &DynamicObject,
    resource: &ApiResource,
) -> Result<DynamicObject> {
    let reference = &owner.spec.machine_template.spec.infrastructure_ref;
    let source = &template.data["spec"]["template"];
    let Some(spec) = source.get("spec").filter(|spec| spec.is_object()) else {
        return Err(Error::user(
            format!("{} {}", reference.kind, reference.name),
            "has no spec.template.spec, which the Cluster API contract requires of a template: add it",
        ));
    };
    let mut object = DynamicObject::new(name, resource).data(json!({"spec": spec}));
    let inherited = |key: &str| -> Map {
        source["metadata"]
            .get(key)
            .and_then(|map| serde_json::from_value::<Map>(map.clone()).ok())
            .unwrap_or_default()
    };
    object.metadata = meta(owner, cluster, name);
    let (mut all_labels, mut all_annotations) = (inherited("labels"), inherited("annotations"));
    all_labels.append(object.labels_mut());
    all_annotations.append(object.annotations_mut());
    all_annotations.insert(annotations::CLONED_FROM_NAME.to_owned(), reference.name.clone());
    let group_kind = format!("{}.{}", reference.kind, reference.api_group);
    all_annotations.insert(annotations::CLONED_FROM_GROUP_KIND.to_owned(), group_kind);
    (*object.labels_mut(), *object.annotations_mut()) = (all_labels, all_annotations);
    Ok(object)
}

pub(crate) fn machine(
    owner: &CapstanControlPlane,
    cluster: &str,
    name: &str,
    failure_domain: Option<String>,
) -> Result<Machine> {
    let template = &owner.spec.machine_template.spec;
    let reference = |kind: &str, group: &str| ContractVersionedObjectReference {
        kind: kind.to_owned(),
        name: name.to_owned(),
        api_group: group.to_owned(),
    };
    let spec = MachineSpec {
        cluster_name: cluster.to_owned(),
        bootstrap: Bootstrap {
            config_ref: Some(reference("CapstanConfig", "bootstrap.cluster.x-k8s.io")),
            data_secret_name: None,
        },
        infrastructure_ref: reference(
            kind_of(&template.infrastructure_ref)?,
            &template.infrastructure_ref.api_group,
        ),
        version: Some(owner.spec.version.clone()),
        provider_id: None,
        failure_domain,
        min_ready_seconds: None,
        readiness_gates: Vec::new(),
        deletion: None,
        taints: Vec::new(),
    };
    let mut machine = Machine::new(name, spec);
    machine.metadata = meta(owner, cluster, name);
    machine.metadata.owner_references = owners::controller(owner).map(|owner| vec![owner]);
    propagate(owner, cluster, &mut machine);
    Ok(machine)
}

/// The fields that existing Machines get at once and that cost nothing.
pub(crate) fn propagate(owner: &CapstanControlPlane, cluster: &str, machine: &mut Machine) {
    let template = &owner.spec.machine_template.spec;
    machine.labels_mut().extend(labels_of(owner, cluster));
    machine.annotations_mut().extend(annotations_of(owner));
    // Before it is a member of etcd, so that it can never be deleted without leaving etcd first.
    machine.annotations_mut().insert(LEAVE_ETCD_HOOK.to_owned(), String::new());
    machine.spec.readiness_gates.clone_from(&template.readiness_gates);
    machine.spec.deletion = deletion(template.deletion.as_ref(), machine.spec.deletion.as_ref());
    machine.spec.taints.clone_from(&template.taints);
}

/// The timeouts of the template. The one for the Node is filled in by admission if it is unset, and stays then: to remove it would
/// be a write that changes nothing.
fn deletion(
    template: Option<&MachineDeletionSpec>,
    current: Option<&MachineDeletionSpec>,
) -> Option<MachineDeletionSpec> {
    let kept = current.and_then(|current| current.node_deletion_timeout_seconds);
    if template.is_none() && kept.is_none() {
        return None;
    }
    let mut deletion = template.cloned().unwrap_or_default();
    deletion.node_deletion_timeout_seconds = deletion.node_deletion_timeout_seconds.or(kept);
    Some(deletion)
}

/// The name of a new machine.
pub(crate) fn name(owner: &CapstanControlPlane, cluster: &str, random: &str) -> Result<String> {
    let Some(template) = owner.spec.machine_naming.as_ref().and_then(|naming| naming.template.as_deref())
    else {
        return Ok(names::with_suffix(&owner.name_any(), random));
    };
    let field = "spec.machineNaming.template";
    let mut name = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (variable, after) =
            after.split_once("}}").ok_or_else(|| Error::user(field, "has a {{ without its }}"))?;
        name.push_str(before);
        name.push_str(match variable.trim() {
            ".cluster.name" => cluster,
            ".capstanControlPlane.name" => owner.metadata.name.as_deref().unwrap_or_default(),
            ".random" => random,
            _ => {
                let known = ".cluster.name, .capstanControlPlane.name and .random";
                return Err(Error::user(field, format!("has an unknown variable; there are {known}")));
            }
        });
        rest = after;
    }
    name.push_str(rest);
    let label = name.len() <= 63
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        && name.bytes().next().is_some_and(|c| c != b'-')
        && !name.ends_with('-');
    match label && name.contains(random) {
        true => Ok(name),
        false => Err(Error::user(
            field,
            "must contain {{ .random }} and give a DNS label of at most 63 characters",
        )),
    }
}

/// The patch that makes the spec match the control plane; `None` if it matches.
pub(crate) fn config_patch(owner: &CapstanControlPlane, config: &CapstanConfig) -> Result<Option<Value>> {
    let value = |spec| {
        serde_json::to_value(spec)
            .map_err(|error| Error::transient("cannot serialise a CapstanConfig", error))
    };
    let difference =
        capstan_controller::merge::difference(&value(&config.spec)?, &value(&owner.spec.config)?);
    Ok(difference.map(|spec| json!({"spec": spec})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(change: impl FnOnce(&mut Value)) -> CapstanControlPlane {
        let mut object = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
            "metadata": {"name": "cp", "namespace": "default", "uid": "1"},
            "spec": {
                "version": "v1.36.0+k3s1",
                "machineTemplate": {
                    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                    "spec": {"infrastructureRef": {
                        "kind": "HostMachineTemplate", "name": "t", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
                },
            },
        });
        change(&mut object);
        serde_json::from_value(object).expect("a control plane")
    }

    #[test]
    fn the_three_objects_belong_together() {
        let owner = owner(|_| ());
        let machine = machine(&owner, "c", "cp-x", Some("rack-1".to_owned())).expect("a Machine");
        assert_eq!(machine.spec.infrastructure_ref.kind, "HostMachine");
        assert_eq!(machine.spec.failure_domain.as_deref(), Some("rack-1"));
        assert_eq!(machine.labels()["cluster.x-k8s.io/control-plane"], "");
        assert_eq!(machine.labels()["team"], "a");
        assert!(owners::is_controlled_by(&machine.metadata, &owner));
        let config = config(&owner, "c", "cp-x");
        assert_eq!(
            config.annotations()[INFRASTRUCTURE_TEMPLATE],
            "HostMachineTemplate.infrastructure.cluster.x-k8s.io/t"
        );
        assert!(owners::controller_of(&config.metadata).is_none());

        let resource = ApiResource::erase::<capstan_api::infrastructure::HostMachine>(&());
        let template = json!({
            "apiVersion": "x/v1", "kind": "HostMachineTemplate", "metadata": {"name": "t"},
            "spec": {"template": {"metadata": {"labels": {"rack": "1", "team": "z"}}, "spec": {"hostName": "h"}}},
        });
        let template: DynamicObject = serde_json::from_value(template).expect("a template");
        let infra = infrastructure(&owner, "c", "cp-x", &template, &resource).expect("a machine");
        assert_eq!(infra.data["spec"], json!({"hostName": "h"}));
        assert_eq!((infra.labels()["rack"].as_str(), infra.labels()["team"].as_str()), ("1", "a"));
        assert_eq!(infra.annotations()["cluster.x-k8s.io/cloned-from-name"], "t");
    }

    #[test]
    fn a_timeout_that_admission_has_filled_in_stays() {
        for (template, current, expected) in [
            (json!(null), json!(null), json!(null)),
            (
                json!(null),
                json!({"nodeDeletionTimeoutSeconds": 10}),
                json!({"nodeDeletionTimeoutSeconds": 10}),
            ),
            (
                json!({"nodeDrainTimeoutSeconds": 60}),
                json!({"nodeDeletionTimeoutSeconds": 10, "nodeVolumeDetachTimeoutSeconds": 5}),
                json!({"nodeDeletionTimeoutSeconds": 10, "nodeDrainTimeoutSeconds": 60}),
            ),
            (
                json!({"nodeDeletionTimeoutSeconds": 20}),
                json!({"nodeDeletionTimeoutSeconds": 10}),
                json!({"nodeDeletionTimeoutSeconds": 20}),
            ),
        ] {
            let owner =
                owner(|object| object["spec"]["machineTemplate"]["spec"]["deletion"] = template.clone());
            let mut machine = machine(&owner, "c", "cp-x", None).expect("a Machine");
            machine.spec.deletion = serde_json::from_value(current).expect("timeouts");
            propagate(&owner, "c", &mut machine);
            let expected: Option<MachineDeletionSpec> = serde_json::from_value(expected).expect("timeouts");
            assert_eq!(machine.spec.deletion, expected, "{template}");
        }
    }

    #[test]
    fn names_follow_the_template_or_are_refused() {
        let named = |template: &str| {
            let owner = owner(|object| object["spec"]["machineNaming"] = json!({"template": template}));
            name(&owner, "c", "abcde").ok()
        };
        assert_eq!(name(&owner(|_| ()), "c", "abcde").ok().as_deref(), Some("cp-abcde"));
        assert_eq!(named("{{ .cluster.name }}-{{.random}}").as_deref(), Some("c-abcde"));
        assert_eq!(named("x-{{ .capstanControlPlane.name }}-{{ .random }}").as_deref(), Some("x-cp-abcde"));
        for bad in ["fixed", "{{ .random", "{{ .other }}-{{ .random }}", "-{{ .random }}", "A{{ .random }}"] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }
}
