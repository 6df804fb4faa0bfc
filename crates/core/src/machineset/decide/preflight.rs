//! Preflight checks before a Machine is created: the control plane is stable, and versions fit together. Pure.

use capstan_api::core::{Cluster, MachineSet};
use capstan_api::meta::StatusVersion;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use semver::Version;
use std::time::Duration;
use thiserror::Error;

use super::super::names::SKIP_PREFLIGHT_CHECKS;
use crate::external::field;

/// Pause before the next check, in case no event reports that the control plane is stable.
pub(crate) const RETRY: Duration = Duration::from_secs(15);

/// Workers may be so many minor versions behind.
const MOST_MINORS_BEHIND: u64 = 3;

const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

/// A version that cannot be parsed.
#[derive(Debug, Error)]
#[error("cannot parse version {0:?}")]
pub struct BadVersion(String);

/// Preflight checks to skip.
#[derive(Clone, Debug, Default)]
pub struct Skipped(Vec<String>);

impl Skipped {
    /// Reads the annotation of the MachineSet, or that of its bootstrap template.
    pub(in crate::machineset) fn of(set: &MachineSet, bootstrap: Option<&DynamicObject>) -> Self {
        let on_template = || bootstrap?.annotations().get(SKIP_PREFLIGHT_CHECKS);
        let skip = set.annotations().get(SKIP_PREFLIGHT_CHECKS).filter(|skip| !skip.is_empty());
        Self::parse(skip.or_else(on_template).map_or("", String::as_str))
    }

    /// Parses the value of the annotation.
    pub fn parse(annotation: &str) -> Self {
        Self(
            annotation
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
        )
    }

    /// Whether all checks are skipped.
    pub fn is_all(&self) -> bool {
        self.has("All")
    }

    fn has(&self, check: &str) -> bool {
        self.0.iter().any(|name| name == check || name == "All")
    }
}

/// The fields of the control plane that the checks use.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    called: String,
    version: String,
    /// What its machines run. Empty before the first one is up.
    running: Vec<String>,
}

impl ControlPlane {
    /// Reads a control plane; `None` if it has no version.
    pub fn read(object: &DynamicObject) -> Option<Self> {
        let kind = object.types.as_ref().map_or("ControlPlane", |types| &types.kind);
        let called = format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any());
        let version = field(object, "/spec/version")?;
        let mut running: Vec<String> = field::<Vec<StatusVersion>>(object, "/status/versions")
            .unwrap_or_default()
            .into_iter()
            .map(|entry| entry.version)
            .collect();
        if running.is_empty() {
            running.extend(field::<String>(object, "/status/version").filter(|version| !version.is_empty()));
        }
        Some(Self { called, version, running })
    }
}

/// Why no Machine may be created now, one sentence for each failed check.
pub fn failures(
    cluster: &Cluster,
    control_plane: &ControlPlane,
    set: &MachineSet,
    skipped: &Skipped,
) -> Result<Vec<String>, BadVersion> {
    let mut failures = vec![];
    let mut check = |name: &str, problem: Option<String>| {
        if let Some(problem) = problem.filter(|_| !skipped.has(name)) {
            failures.push(format!("{problem} ({name:?} preflight check failed)"));
        }
    };
    let theirs = parse(&control_plane.version)?;
    check("ControlPlaneIsStable", is_unstable(cluster, control_plane, &theirs)?);
    if let Some(version) = &set.spec.template.spec.version {
        let ours = parse(version)?;
        check("KubernetesVersionSkew", kubernetes_skew(&theirs, &ours));
        check("KubeadmVersionSkew", kubeadm_skew(set, &theirs, &ours));
        let is_behind = cluster.spec.topology.is_some() && *version != control_plane.version;
        let problem = || {
            format!(
                "MachineSet version ({version}) is not yet the same as the ControlPlane version ({}), waiting for \
                 version to be propagated to the MachineSet",
                control_plane.version
            )
        };
        check("ControlPlaneVersionSkew", is_behind.then(problem));
    }
    Ok(failures)
}

fn is_unstable(
    cluster: &Cluster,
    control_plane: &ControlPlane,
    version: &Version,
) -> Result<Option<String>, BadVersion> {
    let called = &control_plane.called;
    if let Some(topology) = &cluster.spec.topology {
        let step = cluster.annotations().get(UPGRADE_STEP).filter(|step| !step.is_empty());
        let is_current_step = step == Some(&control_plane.version);
        if topology.version != control_plane.version && !is_current_step {
            let next = step.unwrap_or(&topology.version);
            return Ok(Some(format!("{called} has a pending version upgrade to {next}")));
        }
    }
    if control_plane.running.is_empty() {
        return Ok(Some(format!("{called} is provisioning")));
    }
    for running in &control_plane.running {
        let running = parse(running)?;
        let other_build = running.build != version.build && running.cmp_precedence(version).is_eq();
        if *version > running || other_build {
            return Ok(Some(format!("{called} is upgrading")));
        }
    }
    Ok(None)
}

fn kubernetes_skew(theirs: &Version, ours: &Version) -> Option<String> {
    let policy = format!(
        "MachineSet version ({ours}) and ControlPlane version ({theirs}) do not conform to the kubernetes version \
         skew policy as MachineSet version is"
    );
    if ours.minor > theirs.minor {
        return Some(format!("{policy} higher than ControlPlane version"));
    }
    (ours.minor + MOST_MINORS_BEHIND < theirs.minor).then(|| {
        format!("{policy} more than {MOST_MINORS_BEHIND} minor versions older than the ControlPlane version")
    })
}

fn kubeadm_skew(set: &MachineSet, theirs: &Version, ours: &Version) -> Option<String> {
    let config = set.spec.template.spec.bootstrap.config_ref.as_ref()?;
    let is_kubeadm =
        config.kind == "KubeadmConfigTemplate" && config.api_group == "bootstrap.cluster.x-k8s.io";
    (is_kubeadm && ours.minor != theirs.minor).then(|| {
        format!(
            "MachineSet version ({ours}) and ControlPlane version ({theirs}) do not conform to kubeadm version skew \
             policy as kubeadm only supports joining with the same major+minor version as the control plane"
        )
    })
}

fn parse(version: &str) -> Result<Version, BadVersion> {
    let parsed = capstan_text::Version::parse(version).ok_or_else(|| BadVersion(version.to_owned()))?;
    // Upstream's messages have no leading v.
    Ok(parsed.into_semver())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine_set;
    use serde_json::{Value, json};

    fn control_plane(version: &str, status: &Value) -> ControlPlane {
        let object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "Cp",
            "metadata": {"name": "cp", "namespace": "ns"}, "spec": {"version": version}, "status": status});
        ControlPlane::read(&serde_json::from_value(object).expect("a test value")).expect("a test value")
    }

    fn cluster(fields: &Value) -> Cluster {
        let mut value = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "ns"}, "spec": {}});
        crate::machineset::fixtures::merge(&mut value, fields);
        serde_json::from_value(value).expect("a test value")
    }

    fn topology(version: &str) -> Value {
        json!({"spec": {"topology": {"classRef": {"name": "class"}, "version": version}}})
    }

    #[test]
    fn the_control_plane_must_stand_still() {
        let running = |versions: &[&str]| {
            let versions: Vec<_> = versions.iter().map(|v| json!({"version": v, "replicas": 1})).collect();
            json!({ "versions": versions })
        };
        for (cluster_fields, version, status, expected) in [
            (json!({}), "v1.34.0", json!({}), "Cp ns/cp is provisioning"),
            (json!({}), "v1.34.0", json!({"version": ""}), "Cp ns/cp is provisioning"),
            (json!({}), "v1.34.0", json!({"version": "v1.34.0"}), ""),
            (json!({}), "v1.34.0", running(&["v1.34.0", "v1.33.9"]), "Cp ns/cp is upgrading"),
            (json!({}), "v1.34.0", running(&["v1.34.0"]), ""),
            (json!({}), "v1.34.0+k3s2", running(&["v1.34.0+k3s1"]), "Cp ns/cp is upgrading"),
            (json!({}), "v1.34.0", running(&["v1.34.1"]), ""),
            (
                topology("v1.35.0"),
                "v1.34.0",
                running(&["v1.34.0"]),
                "Cp ns/cp has a pending version upgrade to v1.35.0",
            ),
            (topology("v1.34.0"), "v1.34.0", running(&["v1.34.0"]), ""),
        ] {
            let set = machine_set("ms", 1, &json!({}));
            let skipped = Skipped::parse("KubernetesVersionSkew, ControlPlaneVersionSkew");
            let control_plane = control_plane(version, &status);
            let failures =
                failures(&cluster(&cluster_fields), &control_plane, &set, &skipped).expect("a test value");
            let expected: Vec<_> = [expected]
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| format!("{text} (\"ControlPlaneIsStable\" preflight check failed)"))
                .collect();
            assert_eq!(failures, expected, "{version} {control_plane:?}");
        }
    }

    #[test]
    fn versions_must_fit() {
        for (ours, theirs, kind, failing) in [
            ("v1.34.0", "v1.34.5", "ConfigTemplate", vec![]),
            ("v1.35.0", "v1.34.5", "ConfigTemplate", vec!["KubernetesVersionSkew"]),
            ("v1.31.0", "v1.34.5", "ConfigTemplate", vec![]),
            ("v1.30.9", "v1.34.5", "ConfigTemplate", vec!["KubernetesVersionSkew"]),
            ("v1.33.0", "v1.34.5", "KubeadmConfigTemplate", vec!["KubeadmVersionSkew"]),
            ("v1.34.0", "v1.34.5", "KubeadmConfigTemplate", vec![]),
        ] {
            let fields = json!({"spec": {"template": {"spec": {
                "version": ours, "bootstrap": {"configRef": {"kind": kind}}}}}});
            let set = machine_set("ms", 1, &fields);
            let control_plane = control_plane(theirs, &json!({"version": theirs}));
            let failed = failures(&cluster(&json!({})), &control_plane, &set, &Skipped::default())
                .expect("a test value");
            let names: Vec<&str> = failed.iter().filter_map(|text| text.split('"').nth(1)).collect();
            assert_eq!(names, failing, "{ours} {theirs} {kind}");
            assert!(Skipped::parse("All").is_all());
            let none = failures(&cluster(&json!({})), &control_plane, &set, &Skipped::parse("All"))
                .expect("a test value");
            assert!(none.is_empty());
        }
    }
}
