//! The status of ValidatingAdmissionPolicies: which generation was checked, and where expressions do not fit the kinds that
//! the policy is about. Nothing else depends on it: a policy with warnings is enforced.

use std::{collections::BTreeSet, sync::Arc};

use capstan_apiserver_schema::admission::{Schemas, check_types};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    match_criteria::items,
    object,
    plane::Plane,
    policy::validating::POLICIES,
    registry::{Registry, Resource, Version, webhook::configuration::GROUP},
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing},
};

/// As many kinds as upstream checks for a rule.
const MOST_KINDS: usize = 10;

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    engine::run(plane, stopping, Checker { policies: GroupResource::new(GROUP, POLICIES) }).await;
}

struct Checker {
    policies: GroupResource,
}

impl Controller for Checker {
    /// The name of a policy.
    type Item = String;

    fn seed(&mut self, everything: &Listing) -> Vec<String> {
        let policies = everything.items.iter().filter(|stored| stored.key.resource == self.policies);
        policies.map(|stored| stored.key.name.clone()).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<String> {
        let key = &event.object.key;
        let is_ours = key.resource == self.policies && event.change != Change::Deleted;
        if is_ours { vec![key.name.clone()] } else { Vec::new() }
    }

    async fn process(&mut self, plane: &Arc<Plane>, name: &String) -> Result<Vec<String>> {
        let key = Key::new(self.policies.clone(), "", name);
        let Some(stored) = plane.store.get(&key) else { return Ok(Vec::new()) };
        let policy = stored.value.once();
        let number =
            |value: &Value, path: &[&str]| object::at(value, path).and_then(Value::as_i64).unwrap_or(0);
        let generation = number(&policy, &["metadata", "generation"]);
        let observed = |policy: &Value| number(policy, &["status", "observedGeneration"]);
        if observed(&policy) >= generation {
            return Ok(Vec::new());
        }
        let warnings = warnings(&plane.registry(), &policy);
        let checked = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
        engine::edit(plane, &key, object::uid(&policy), |value| {
            // A later generation is looked at by itself.
            if number(value, &["metadata", "generation"]) == generation {
                value["status"]["observedGeneration"] = generation.into();
                value["status"]["typeChecking"] = checked.clone();
            }
        })
        .await?;
        Ok(Vec::new())
    }
}

/// Everything in a policy that does not fit the types of its kinds.
fn warnings(registry: &Registry, policy: &Value) -> Vec<Value> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let kinds = kinds(registry, spec);
    let params = object::at(spec, &["paramKind"]).and_then(|kind| {
        let (group, version) = object::split_api_version(object::text(kind, &["apiVersion"]));
        registry.by_kind(group, object::text(kind, &["kind"]))?.version(version).cloned()
    });
    let params = params.as_ref().map(|version| version.schema.shape());
    let variables: Vec<(&str, &str)> = items(spec, "variables")
        .iter()
        .map(|variable| (object::text(variable, &["name"]), object::text(variable, &["expression"])))
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = object::text(validation, &[field]);
            if source.is_empty() {
                continue;
            }
            let mut found = Vec::new();
            for (resource, version) in &kinds {
                let schemas = Schemas { object: Some(version.schema.shape()), params };
                if let Err(why) = check_types(source, &variables, schemas) {
                    let (api_version, kind) = (resource.api_version(&version.name), &resource.kind);
                    found.push(format!("{api_version}, Kind={kind}: compilation failed: ERROR: {why}\n"));
                }
            }
            if !found.is_empty() {
                let at = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": at, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

/// The kinds that rules name without wildcards.
fn kinds(registry: &Registry, spec: &Value) -> Vec<(Arc<Resource>, Arc<Version>)> {
    let mut found = BTreeSet::new();
    let constraints = spec.get("matchConstraints").unwrap_or(&Value::Null);
    for rule in items(constraints, "resourceRules") {
        let texts = |field: &str| items(rule, field).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let resources: Vec<_> =
            texts("resources").into_iter().filter(|resource| !resource.contains(['*', '/'])).collect();
        for group in &groups {
            for version in &versions {
                let served = resources.iter().filter(|resource| {
                    registry.get(group, resource).is_some_and(|resource| resource.version(version).is_some())
                });
                found.extend(served.map(|resource| (*group, *version, *resource)));
            }
        }
    }
    let resolved = found.into_iter().take(MOST_KINDS).filter_map(|(group, version, resource)| {
        let resource = registry.get(group, resource)?;
        Some((Arc::clone(resource), Arc::clone(resource.version(version)?)))
    });
    resolved.collect()
}
