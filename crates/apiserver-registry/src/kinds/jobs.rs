//! Jobs. They are only stored: no controller makes pods of them.

use serde_json::{Value, json};

use super::{
    super::{Env, Rules},
    core::{default_pods, default_to, object_in},
};
use crate::{object, selector::LabelSelector, status::Cause};

/// What a Job calls itself in the labels of its pods. The names without a prefix are older; clients use both.
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
/// The label that a generated selector consists of.
const SELECTED: &str = UID_LABELS[1];
const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
];
const IMMUTABLE: [&str; 6] =
    ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

pub(crate) const JOB: Rules = Rules {
    default,
    on_create: |job, env| {
        generate_selector(job, env);
        job["status"] = json!({});
    },
    validate: |job, old| {
        let mut causes = invalid_counts(job);
        causes.extend(invalid_pods(job));
        causes.extend(old.map(|old| forbidden_changes(job, old)).unwrap_or_default());
        causes
    },
    blank: || json!({"spec": {"template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
    generation: true,
    ..Rules::PLAIN
};

fn default(job: &mut Value) {
    let pod_labels = object::at(job, &["spec", "template", "metadata", "labels"]).cloned();
    let own = object::at(job, &["metadata", "labels"]).and_then(Value::as_object);
    if let Some(labels) = pod_labels.filter(|_| own.is_none_or(serde_json::Map::is_empty)) {
        object::metadata_mut(job).insert("labels".to_owned(), labels);
    }
    let Some(spec) = object_in(job, "spec") else { return };
    let is_set = |spec: &Value, field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    if !is_set(spec, "parallelism") {
        // Completions alone may be missing: then one pod that succeeds is enough.
        default_to(spec, "completions", 1.into());
    }
    let retries = if is_set(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    let replaced = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    for (field, value) in [
        ("parallelism", 1.into()),
        ("backoffLimit", retries.into()),
        ("completionMode", "NonIndexed".into()),
        ("suspend", false.into()),
        ("podReplacementPolicy", replaced.into()),
        ("manualSelector", false.into()),
    ] {
        default_to(spec, field, value);
    }
    if let Some(pods) = object_in(spec, "template").and_then(|template| object_in(template, "spec")) {
        default_pods(pods);
    }
}

fn is_manual(job: &Value) -> bool {
    object::at(job, &["spec", "manualSelector"]) == Some(&Value::Bool(true))
}

/// Selects the pods of this Job by its UID, so that no two Jobs share pods.
fn generate_selector(job: &mut Value, _: &Env<'_>) {
    if is_manual(job) {
        return;
    }
    let (name, uid) = (object::name(job).to_owned(), object::uid(job).to_owned());
    let own = object::at(job, &["metadata", "labels"]).cloned();
    let Some(spec) = object_in(job, "spec") else { return };
    let labels = object_in(spec, "template")
        .and_then(|template| object_in(template, "metadata"))
        .and_then(|metadata| object_in(metadata, "labels"));
    let Some(labels) = labels else { return };
    // Labels that the Job has from its pods stay equal to theirs.
    let are_shared = own.as_ref() == Some(labels);
    for (names, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for label in names {
            default_to(labels, label, value.as_str().into());
        }
    }
    let labels = labels.clone();
    let selected = object_in(spec, "selector").and_then(|selector| object_in(selector, "matchLabels"));
    if let Some(selected) = selected {
        default_to(selected, SELECTED, uid.into());
    }
    if are_shared {
        object::metadata_mut(job).insert("labels".to_owned(), labels);
    }
}

fn invalid_counts(job: &Value) -> Vec<Cause> {
    let negative = |field: &&str| {
        let number = object::at(job, &["spec", field]).filter(|number| number.as_i64() < Some(0))?;
        number.as_i64()?;
        Some(Cause::invalid(format!("spec.{field}"), number, "must be greater than or equal to 0"))
    };
    COUNTS.iter().filter_map(negative).collect()
}

fn invalid_pods(job: &Value) -> Vec<Cause> {
    let template = object::at(job, &["spec", "template"]).unwrap_or(&Value::Null);
    let labels = object::at(template, &["metadata", "labels"]).unwrap_or(&Value::Null);
    let at = "spec.template.metadata.labels";
    let mut causes = Vec::new();
    if !is_manual(job) {
        let expected = [(UID_LABELS, object::uid(job)), (NAME_LABELS, object::name(job))];
        for (names, value) in expected {
            let wrong = names.iter().filter(|label| object::text(labels, &[label]) != value);
            let detail = format!("must be {value:?}");
            causes.extend(wrong.map(|label| {
                let given = labels.get(*label).unwrap_or(&Value::Null);
                Cause::invalid(format!("{at}[{label}]"), given, &detail)
            }));
        }
    }
    let selector = object::at(job, &["spec", "selector"]);
    if selector.is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let parsed = selector.and_then(LabelSelector::of);
    if !parsed.is_some_and(|selector| selector.matches(template)) {
        causes.push(Cause::invalid(at, labels, "`selector` does not match template `labels`"));
    }
    if !matches!(object::text(template, &["spec", "restartPolicy"]), "OnFailure" | "Never") {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(Cause::required("spec.template.spec.restartPolicy", detail));
    }
    causes
}

fn forbidden_changes(job: &Value, old: &Value) -> Vec<Cause> {
    let of = |job: &Value, field: &str| object::at(job, &["spec", field]).cloned().unwrap_or_default();
    let has_changed = |field: &str| of(job, field) != of(old, field);
    let refuse = |field: &str| Cause::invalid(format!("spec.{field}"), &of(job, field), "field is immutable");
    let mut causes = Vec::new();
    // An indexed Job whose pods all run at once may grow and shrink.
    let is_elastic =
        of(job, "completionMode") == "Indexed" && of(job, "completions") == of(job, "parallelism");
    if has_changed("completions") && !is_elastic {
        causes.push(refuse("completions"));
    }
    causes.extend(IMMUTABLE.into_iter().filter(|field| has_changed(field)).map(refuse));
    // Nothing runs yet: schedulers of other projects choose where it will, before they resume the Job.
    let is_waiting = of(old, "suspend") == true && object::at(old, &["status", "startTime"]).is_none();
    if has_changed("template") && !is_waiting {
        causes.push(refuse("template"));
    }
    causes
}
