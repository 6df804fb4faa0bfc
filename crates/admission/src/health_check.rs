//! MachineHealthChecks.

use crate::object;
use crate::selector::{self, Selector};
use capstan_api::core::MachineHealthCheck;
use capstan_api::meta::labels;
use capstan_topology::validation::words;
use capstan_topology::{FieldError, field};
use serde_json::Value;

/// How long a Node may take to appear, in seconds.
const NODE_STARTUP_TIMEOUT: i32 = 600;

pub(crate) fn default(check: &mut Value) -> Vec<FieldError> {
    object::set_cluster_label(check);
    object::set_default(check, &["spec", "checks"], "nodeStartupTimeoutSeconds", NODE_STARTUP_TIMEOUT);
    Vec::new()
}

pub(crate) fn validate(check: &MachineHealthCheck, selector: &Selector) -> Vec<FieldError> {
    let mut errors = selector::errors(selector, "spec.selector");
    let cluster = &check.spec.cluster_name;
    if let Some(other) = selector.match_labels.get(labels::CLUSTER_NAME).filter(|other| *other != cluster) {
        let at = field::entry("spec.selector.matchLabels", labels::CLUSTER_NAME);
        let why = format!("cannot select Machines of another cluster than spec.clusterName, {cluster:?}");
        errors.push(field::invalid(&at, other.as_str(), why));
    }
    let trigger = check.spec.remediation.as_ref().and_then(|remediation| remediation.trigger_if.as_ref());
    let most = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
    errors.extend(words::amount(most, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"));
    errors
}
