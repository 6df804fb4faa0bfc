//! ClusterClasses.

use super::{class_in_use, class_patches, class_variables, compatibility, words};
use crate::field;
use crate::names;
use crate::upgrade::{Order, order, parse};
use capstan_api::core::{
    Cluster, ClusterClass, ClusterClassTemplateReference, MachineTaint, TaintEffect, WorkersClass,
};
use capstan_apiserver_schema::FieldError;
use std::collections::BTreeSet;

/// A class before a change, and the clusters that use it.
#[derive(Clone, Copy, Debug)]
pub struct ClassChange<'a> {
    /// The class before.
    pub old: &'a ClusterClass,
    /// All clusters of the class.
    pub clusters: &'a [Cluster],
}

/// All errors of a class.
pub fn class(class: &ClusterClass, change: Option<ClassChange<'_>>) -> Vec<FieldError> {
    let none = WorkersClass::default();
    let workers = class.spec.workers.as_ref().unwrap_or(&none);
    let mut errors = templates(class, workers);
    errors.extend(unique(workers));
    errors.extend(settings(class, workers));
    errors.extend(naming(class, workers));
    errors.extend(class_variables::check(&class.spec.variables));
    errors.extend(class_patches::check(class));
    errors.extend(versions(&class.spec.kubernetes_versions));
    if let Some(change) = change {
        errors.extend(compatibility::classes(change.old, class));
        errors.extend(class_in_use::check(class, change));
    }
    errors
}

fn templates(class: &ClusterClass, workers: &WorkersClass) -> Vec<FieldError> {
    let (infrastructure, control_plane) = (&class.spec.infrastructure, &class.spec.control_plane);
    let mut references: Vec<(String, &ClusterClassTemplateReference)> = vec![
        ("spec.infrastructure".to_string(), &infrastructure.template_ref),
        ("spec.controlPlane".to_string(), &control_plane.template_ref),
    ];
    if let Some(machines) = &control_plane.machine_infrastructure {
        references.push(("spec.controlPlane.machineInfrastructure".to_string(), &machines.template_ref));
    }
    for (i, one) in workers.machine_deployments.iter().enumerate() {
        let at = field::entry("spec.workers.machineDeployments", i);
        references.push((field::child(&at, "bootstrap"), &one.bootstrap.template_ref));
        references.push((field::child(&at, "infrastructure"), &one.infrastructure.template_ref));
    }
    for (i, one) in workers.machine_pools.iter().enumerate() {
        let at = field::entry("spec.workers.machinePools", i);
        references.push((field::child(&at, "bootstrap"), &one.bootstrap.template_ref));
        references.push((field::child(&at, "infrastructure"), &one.infrastructure.template_ref));
    }
    references.into_iter().flat_map(|(at, one)| reference(one, &field::child(&at, "templateRef"))).collect()
}

fn reference(reference: &ClusterClassTemplateReference, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if reference.name.is_empty() {
        errors.push(field::required(&field::child(at, "name"), "name of a template"));
    }
    if reference.kind.strip_suffix("Template").is_none_or(str::is_empty) {
        let why = "must be the kind of a template, which ends with Template";
        errors.push(field::invalid(&field::child(at, "kind"), reference.kind.as_str(), why));
    }
    let at = field::child(at, "apiVersion");
    match reference.api_version.matches('/').count() {
        _ if reference.api_version.is_empty() => {
            errors.push(field::required(&at, "group and version of a template"));
        }
        0 | 1 => {}
        _ => {
            errors.push(field::invalid(&at, reference.api_version.as_str(), "must be a group and a version"));
        }
    }
    errors
}

fn unique(workers: &WorkersClass) -> Vec<FieldError> {
    let deployments = workers.machine_deployments.iter().map(|one| one.class.as_str());
    let pools = workers.machine_pools.iter().map(|one| one.class.as_str());
    let mut errors = repeated(deployments, "spec.workers.machineDeployments", "class");
    errors.extend(repeated(pools, "spec.workers.machinePools", "class"));
    errors
}

/// Errors of entries of a list whose names were used before.
pub(super) fn repeated<'a>(names: impl Iterator<Item = &'a str>, at: &str, name: &str) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let again = names.enumerate().filter(|(_, one)| !seen.insert(*one));
    again
        .map(|(i, one)| {
            let path = field::child(&field::entry(at, i), name);
            field::invalid(&path, one, format!("must be unique: an entry before is {one:?}, too"))
        })
        .collect()
}

/// Rollouts, health checks, taints and metadata.
fn settings(class: &ClusterClass, workers: &WorkersClass) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let control_plane = &class.spec.control_plane;
    let at = "spec.controlPlane";
    if let Some(check) = &control_plane.health_check {
        let at = field::child(at, "healthCheck");
        errors.extend(words::startup(check.checks.as_ref(), &at));
        let trigger = check.remediation.as_ref().and_then(|remediation| remediation.trigger_if.as_ref());
        let most = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
        errors.extend(words::amount(
            most,
            &field::child(&at, "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
        ));
        if control_plane.machine_infrastructure.is_none() {
            errors.push(field::forbidden(
                &at,
                "needs spec.controlPlane.machineInfrastructure: without it there are no Machines",
            ));
        }
    }
    errors.extend(taints(&control_plane.taints, &field::child(at, "taints")));
    errors.extend(words::metadata(control_plane.metadata.as_ref(), &field::child(at, "metadata")));
    for one in &workers.machine_deployments {
        let at = field::entry("spec.workers.machineDeployments", &one.class);
        let strategy = one.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
        let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        errors.extend(words::rolling_update(limits, &field::child(&at, "rollout.strategy")));
        if let Some(check) = &one.health_check {
            let at = field::child(&at, "healthCheck");
            errors.extend(words::startup(check.checks.as_ref(), &at));
            if let Some(remediation) = &check.remediation {
                let at = field::child(&at, "remediation");
                let trigger = remediation.trigger_if.as_ref();
                let most = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
                errors
                    .extend(words::amount(most, &field::child(&at, "triggerIf.unhealthyLessThanOrEqualTo")));
                errors.extend(words::amount(
                    remediation.max_in_flight.as_ref(),
                    &field::child(&at, "maxInFlight"),
                ));
            }
        }
        errors.extend(taints(&one.taints, &field::child(&at, "taints")));
        errors.extend(words::metadata(one.metadata.as_ref(), &field::child(&at, "metadata")));
    }
    for one in &workers.machine_pools {
        let at = field::entry("spec.workers.machinePools", &one.class);
        errors.extend(taints(&one.taints, &field::child(&at, "taints")));
        errors.extend(words::metadata(one.metadata.as_ref(), &field::child(&at, "metadata")));
    }
    errors
}

/// Taints that Cluster API, Kubernetes or cloud providers set, so that topologies cannot.
fn is_reserved(key: &str) -> bool {
    matches!(
        key,
        "node.cluster.x-k8s.io/uninitialized"
            | "node.cluster.x-k8s.io/outdated-revision"
            // Deprecated since Kubernetes 1.24.
            | "node-role.kubernetes.io/master"
    ) || key.starts_with("node.cloudprovider.kubernetes.io/")
        || (key.starts_with("node.kubernetes.io/") && key != "node.kubernetes.io/out-of-service")
}

/// Errors of taints that others set, or that appear twice.
pub fn taints(taints: &[MachineTaint], at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, TaintEffect)> = Vec::new();
    for (i, taint) in taints.iter().enumerate() {
        let at = field::entry(at, i);
        let key = taint.key.as_str();
        if is_reserved(key) {
            let why = "is reserved for controllers of Kubernetes or Cluster API";
            errors.push(field::invalid(&field::child(&at, "key"), key, why));
        }
        if seen.contains(&(key, taint.effect)) {
            errors.push(field::invalid(&at, key, "must be unique by key and effect"));
        }
        seen.push((key, taint.effect));
    }
    errors
}

/// Templates of names, which must make valid names.
fn naming(class: &ClusterClass, workers: &WorkersClass) -> Vec<FieldError> {
    let template = |naming: &Option<capstan_api::core::ClassNamingSpec>| {
        naming.as_ref().and_then(|naming| naming.template.clone())
    };
    let mut templates = vec![
        ("spec.infrastructure".to_string(), template(&class.spec.infrastructure.naming), None),
        ("spec.controlPlane".to_string(), template(&class.spec.control_plane.naming), None),
    ];
    for one in &workers.machine_deployments {
        let at = field::entry("spec.workers.machineDeployments", &one.class);
        templates.push((at, template(&one.naming), Some(("machineDeployment", "name"))));
    }
    for one in &workers.machine_pools {
        let at = field::entry("spec.workers.machinePools", &one.class);
        templates.push((at, template(&one.naming), Some(("machinePool", "name"))));
    }
    let mut errors = Vec::new();
    for (at, template, sample) in templates {
        let Some(template) = template else { continue };
        let at = field::child(&at, "naming.template");
        match names::from_template(&template, "cluster", sample, &mut || 0_u64) {
            Ok(name) if words::is_subdomain(&name) => {}
            Ok(name) => {
                let why = format!("makes names such as {name:?}, which are not names of objects");
                errors.push(field::invalid(&at, template, why));
            }
            Err(error) => errors.push(field::invalid(&at, template, error.to_string())),
        }
    }
    errors
}

/// Versions must be sorted, without gaps between minor versions.
fn versions(versions: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut before: Option<semver::Version> = None;
    for (i, text) in versions.iter().enumerate() {
        let at = field::entry("spec.kubernetesVersions", i);
        let Ok(version) = parse(text) else {
            errors.push(field::invalid(&at, text.as_str(), "must be a semantic version"));
            continue;
        };
        if let Some(before) = &before {
            if matches!(order(&version, before), Order::Less | Order::Equal) {
                errors.push(field::invalid(&at, text.as_str(), format!("must be newer than v{before}")));
            }
            if version.minor != before.minor && version.minor != before.minor + 1 {
                let next = before.minor + 1;
                let why = format!("must have minor version {} or {next}: upgrades skip none", before.minor);
                errors.push(field::invalid(&at, text.as_str(), why));
            }
        }
        before = Some(version);
    }
    errors
}
