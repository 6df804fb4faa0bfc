//! MachineDeployments.

use crate::selector::Selector;
use crate::{object, replicas, template};
use capstan_api::core::MachineDeployment;
use capstan_api::meta::labels;
use capstan_topology::FieldError;
use capstan_topology::validation::words;
use serde_json::Value;

const STRATEGY: &[&str] = &["spec", "rollout", "strategy"];
const LIMITS: &[&str] = &["spec", "rollout", "strategy", "rollingUpdate"];
const ROLLING_UPDATE: &str = "RollingUpdate";

pub(crate) fn default(deployment: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    object::set_cluster_label(deployment);
    let errors = replicas::default(deployment, old);
    object::set_default(deployment, STRATEGY, "type", ROLLING_UPDATE);
    if object::text(deployment, &[STRATEGY, &["type"]].concat()) == ROLLING_UPDATE {
        object::set_default(deployment, LIMITS, "maxSurge", 1);
        object::set_default(deployment, LIMITS, "maxUnavailable", 0);
    }
    let name = object::text(deployment, &["metadata", "name"]).to_owned();
    template::default_selector(deployment, labels::DEPLOYMENT_NAME, &name);
    let cluster = object::text(deployment, &["spec", "clusterName"]).to_owned();
    if !cluster.is_empty() {
        object::set(deployment, &["spec", "selector", "matchLabels"], labels::CLUSTER_NAME, cluster.as_str());
        template::set_label(deployment, labels::CLUSTER_NAME, &cluster);
    }
    object::set_version_prefix(deployment, &["spec", "template", "spec"], "version");
    errors
}

pub(crate) fn validate(deployment: &MachineDeployment, selector: &Selector) -> Vec<FieldError> {
    let spec = &deployment.spec;
    let mut errors = Vec::from_iter(template::name_as_label(deployment.metadata.name.as_deref()));
    errors.extend(template::selected(selector, &spec.template));
    errors.extend(template::skipped_checks(deployment.metadata.annotations.as_ref()));
    let strategy = spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    errors.extend(words::rolling_update(limits, "spec.rollout.strategy"));
    let in_flight = spec.remediation.as_ref().and_then(|remediation| remediation.max_in_flight.as_ref());
    errors.extend(words::amount(in_flight, "spec.remediation.maxInFlight"));
    errors.extend(template::naming(spec.machine_naming.as_ref()));
    errors.extend(template::taints_of_workers(&spec.template.spec.taints, "spec.template.spec.taints"));
    errors.extend(template::metadata(&spec.template));
    errors
}
