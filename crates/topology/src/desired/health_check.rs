//! MachineHealthChecks: whether there is one, and what it checks.

use super::Names;
use crate::metadata::{self, OWNED};
use crate::object;
use capstan_api::core::{ClassHealthCheck, MachineHealthCheckChecks, TopologyHealthCheck};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How long a Node may take to appear, in seconds, unless it is set.
const NODE_STARTUP: i32 = 600;

/// Checks and remediation.
pub(super) struct Checked<Remediation> {
    checks: Option<MachineHealthCheckChecks>,
    remediation: Option<Remediation>,
}

/// What to check: as the topology says, or as the class says. `None` if neither says something, or the topology says that
/// there is no health check.
pub(super) fn chosen<Remediation: Clone + Serialize>(
    topology: Option<&TopologyHealthCheck<Remediation>>,
    class: Option<&ClassHealthCheck<Remediation>>,
) -> Option<Checked<Remediation>> {
    let of_topology = topology.and_then(|one| defined(one.checks.as_ref(), one.remediation.as_ref()));
    let of_class = class.and_then(|one| defined(one.checks.as_ref(), one.remediation.as_ref()));
    let is_enabled = topology.and_then(|one| one.enabled).unwrap_or(true);
    of_topology.or(of_class).filter(|_| is_enabled)
}

/// Checks and remediation, if one of them says something.
fn defined<Remediation: Clone + Serialize>(
    checks: Option<&MachineHealthCheckChecks>,
    remediation: Option<&Remediation>,
) -> Option<Checked<Remediation>> {
    let says = |value: Option<Value>| value.is_some();
    let is_defined = says(checks.and_then(object::some)) || says(remediation.and_then(object::some));
    is_defined.then(|| Checked { checks: checks.cloned(), remediation: remediation.cloned() })
}

impl<Remediation: Serialize> Checked<Remediation> {
    /// The health check of the machines of an object, with the name of that object.
    pub(super) fn object(
        self,
        of: &Value,
        selector: &BTreeMap<String, String>,
        cluster: &Names<'_>,
    ) -> Value {
        let mut checks = self.checks.unwrap_or_default();
        checks.node_startup_timeout_seconds.get_or_insert(NODE_STARTUP);
        let mut labels = BTreeMap::new();
        metadata::own(&mut labels, cluster.name);
        let mut made = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineHealthCheck",
            "metadata": {
                "name": object::name(of),
                "namespace": cluster.namespace,
                "labels": labels,
                "ownerReferences": [cluster.owner()],
            },
            "spec": {
                "clusterName": cluster.name,
                "selector": {"matchLabels": selector},
                "checks": checks,
            },
        });
        let mut remediation = self.remediation.as_ref().and_then(object::some);
        // That is a field of the MachineDeployment.
        if let Some(Value::Object(fields)) = &mut remediation {
            fields.shift_remove("maxInFlight");
        }
        let remediation = remediation.filter(|remediation| !object::is_empty(remediation));
        object::set_some(&mut made, &["spec", "remediation"], remediation);
        made
    }
}

/// The labels of machines of a managed cluster, with one more.
pub(super) fn selector(label: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(OWNED.to_string(), String::new()), (label.to_string(), value.to_string())])
}
