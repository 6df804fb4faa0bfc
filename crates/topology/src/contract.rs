//! What the contract of control plane providers says: where fields are, and what a status means.

use crate::object;
use crate::upgrade::{self, Order};
use serde_json::{Value, json};

/// The version of the contract that a control plane provider implements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contract {
    /// `v1beta1`: full references, timeouts as durations, fields of machines beside their metadata.
    V1Beta1,
    /// `v1beta2`.
    #[default]
    V1Beta2,
}

const MACHINES: [&str; 2] = ["spec", "machineTemplate"];

pub(crate) const VERSION: &[&str] = &["spec", "version"];
pub(crate) const REPLICAS: &[&str] = &["spec", "replicas"];
pub(crate) const ROLLOUT_AFTER: &[&str] = &["spec", "rollout", "after"];
pub(crate) const MACHINE_LABELS: &[&str] = &[MACHINES[0], MACHINES[1], "metadata", "labels"];
pub(crate) const MACHINE_ANNOTATIONS: &[&str] = &[MACHINES[0], MACHINES[1], "metadata", "annotations"];

/// Fields of a control plane that the topology sets and patches cannot change, in both versions of the contract.
pub(crate) const PRESERVED: &[&[&str]] = &[
    &["spec", "machineTemplate", "metadata"],
    &["spec", "machineTemplate", "readinessGates"],
    &["spec", "machineTemplate", "spec", "readinessGates"],
    &["spec", "machineTemplate", "taints"],
    &["spec", "machineTemplate", "spec", "taints"],
    &["spec", "machineTemplate", "infrastructureRef"],
    &["spec", "machineTemplate", "spec", "infrastructureRef"],
    &["spec", "machineTemplate", "nodeDrainTimeout"],
    &["spec", "machineTemplate", "nodeVolumeDetachTimeout"],
    &["spec", "machineTemplate", "nodeDeletionTimeout"],
    &["spec", "machineTemplate", "spec", "deletion", "nodeDrainTimeoutSeconds"],
    &["spec", "machineTemplate", "spec", "deletion", "nodeVolumeDetachTimeoutSeconds"],
    &["spec", "machineTemplate", "spec", "deletion", "nodeDeletionTimeoutSeconds"],
    REPLICAS,
    VERSION,
    ROLLOUT_AFTER,
];

impl Contract {
    /// The path of a field of the machines.
    pub(crate) fn of_machines(self, field: &str) -> Vec<&str> {
        match self {
            Contract::V1Beta1 => vec![MACHINES[0], MACHINES[1], field],
            Contract::V1Beta2 => vec![MACHINES[0], MACHINES[1], "spec", field],
        }
    }

    /// Sets a timeout of the deletion of machines, in seconds: `drain`, `volume` or `node`.
    pub(crate) fn set_timeout(self, control_plane: &mut Value, timeout: Timeout, seconds: Option<i32>) {
        let Some(seconds) = seconds else { return };
        let name = match timeout {
            Timeout::Drain => "nodeDrainTimeout",
            Timeout::VolumeDetach => "nodeVolumeDetachTimeout",
            Timeout::Deletion => "nodeDeletionTimeout",
        };
        match self {
            Contract::V1Beta1 => {
                object::set(control_plane, &self.of_machines(name), json!(duration(seconds)));
            }
            Contract::V1Beta2 => {
                let name = format!("{name}Seconds");
                let mut path = self.of_machines("deletion");
                path.push(&name);
                object::set(control_plane, &path, json!(seconds));
            }
        }
    }
}

/// Timeouts of the deletion of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Drain,
    VolumeDetach,
    Deletion,
}

/// Seconds as Go writes a duration: `1h0m30s`.
fn duration(seconds: i32) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// The versions in the status of a control plane, oldest first. Older providers have one.
fn status_versions(control_plane: &Value) -> Vec<&str> {
    let versions = object::get(control_plane, &["status", "versions"]).and_then(Value::as_array);
    let versions: Vec<&str> =
        versions.into_iter().flatten().map(|version| object::text(version, &["version"])).collect();
    if !versions.is_empty() {
        return versions;
    }
    Some(object::text(control_plane, &["status", "version"]))
        .filter(|text| !text.is_empty())
        .into_iter()
        .collect()
}

/// Whether the control plane is created for the first time: it has no version in its status yet.
pub fn is_provisioning(control_plane: &Value) -> bool {
    status_versions(control_plane).first().is_none_or(|version| version.is_empty())
}

/// Whether a version in the status is behind that of the spec, or another build of it.
///
/// # Errors
/// If a version cannot be read.
pub fn is_upgrading(control_plane: &Value) -> Result<bool, upgrade::UpgradeError> {
    let wanted = upgrade::parse(object::text(control_plane, VERSION))?;
    for version in status_versions(control_plane) {
        let order = upgrade::order(&wanted, &upgrade::parse(version)?);
        if matches!(order, Order::Greater | Order::Different) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (90, "1m30s"), (3600, "1h0m0s"), (7325, "2h2m5s")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn the_status_says_whether_a_control_plane_is_upgrading() {
        let of = |status: Value| json!({"spec": {"version": "v1.31.0+k3s2"}, "status": status});
        for (status, provisioning, upgrading) in [
            (json!({}), true, false),
            (json!({"version": ""}), true, false),
            (json!({"version": "v1.31.0+k3s2"}), false, false),
            (json!({"version": "v1.30.0"}), false, true),
            (json!({"version": "v1.31.0+k3s1"}), false, true),
            (json!({"versions": [{"version": "v1.30.0"}, {"version": "v1.31.0+k3s2"}]}), false, true),
            (json!({"versions": [{"version": "v1.31.0+k3s2"}], "version": "v1.30.0"}), false, false),
        ] {
            let control_plane = of(status);
            assert_eq!(is_provisioning(&control_plane), provisioning, "{control_plane}");
            assert_eq!(is_upgrading(&control_plane), Ok(upgrading), "{control_plane}");
        }
    }
}
