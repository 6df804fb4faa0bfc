//! What differs between a machine as it is and as it should become, field by field, and what each costs. Pure.

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_api::core::MachineSpec;
use capstan_api::runtime::hooks::{MachineObjects, MachineSetObjects};
use capstan_distro::Role;
use capstan_distro::cost::{Change, Cost, Setup, Subject, changes, classify};
use serde_json::{Value, json};

/// Group of the bootstrap configs that are ours.
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";

/// One side of a change. Templates and the objects made from them differ only in where their specs stand.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) machine: &'a MachineSpec,
    pub(super) config: Option<&'a Value>,
    pub(super) infrastructure: &'a Value,
}

impl<'a> From<&'a MachineSetObjects> for Side<'a> {
    fn from(objects: &'a MachineSetObjects) -> Self {
        Self {
            machine: &objects.machine_set.spec.template.spec,
            config: objects.bootstrap_config_template.as_ref(),
            infrastructure: &objects.infrastructure_machine_template,
        }
    }
}

impl<'a> From<&'a MachineObjects> for Side<'a> {
    fn from(objects: &'a MachineObjects) -> Self {
        Self {
            machine: &objects.machine.spec,
            config: objects.bootstrap_config.as_ref(),
            infrastructure: &objects.infrastructure_machine,
        }
    }
}

/// How the fields of both sides are called.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    /// Kind and name of what a user changes.
    pub(super) owner: &'a str,
    /// Where specs stand, as a path with dots.
    pub(super) prefix: &'static str,
}

impl Names<'_> {
    /// The same as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        format!("/{}", self.prefix.replace('.', "/"))
    }

    pub(super) fn of_machine(&self, field: &str) -> String {
        format!("{} {}.{field}", self.owner, self.prefix)
    }

    /// A field that the table calls `spec.…`, in the object that it stands in.
    fn of_object(&self, object: &Value, field: &str) -> String {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let field = field.strip_prefix("spec.").unwrap_or(field);
        format!("{} {} {}.{field}", text("/kind"), text("/metadata/name"), self.prefix)
    }
}

/// Whether a machine was set up by Capstan: others are none of our business.
pub(super) fn is_ours(config: Option<&Value>) -> bool {
    let text =
        |field: &str| config.and_then(|config| config.get(field)).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == BOOTSTRAP && matches!(text("kind"), "CapstanConfig" | "CapstanConfigTemplate")
}

/// The setup in an object.
fn config_of(object: &Value, names: Names<'_>) -> Result<CapstanConfigSpec, Box<Change>> {
    let spec = object.pointer(&names.pointer()).cloned().unwrap_or_default();
    let spec = if spec.is_null() { Value::Object(serde_json::Map::new()) } else { spec };
    serde_json::from_value(spec).map_err(|_| {
        let why = "is not what this version of Capstan knows";
        Box::new(Change::new(names.of_object(object, "spec"), Cost::Refused, why))
    })
}

/// Every difference of a machine that was set up by Capstan.
pub(super) fn between(current: Side<'_>, desired: Side<'_>, names: Names<'_>) -> Vec<Change> {
    let (Some(old), Some(new)) = (current.config, desired.config.filter(|config| is_ours(Some(config))))
    else {
        let why = "a machine cannot go from one bootstrap provider to another";
        return vec![Change::new(names.of_machine("bootstrap.configRef"), Cost::Replace, why)];
    };
    let (old_config, new_config) = match (config_of(old, names), config_of(new, names)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(change), _) | (_, Err(change)) => return vec![*change],
    };
    let version = |side: Side<'_>| side.machine.version.clone().unwrap_or_default();
    let (old_version, new_version) = (version(current), version(desired));
    let mut changes = classify(
        Setup { version: &old_version, config: &old_config },
        Setup { version: &new_version, config: &new_config },
    );
    let is_refused = changes.iter().any(|change| change.cost == Cost::Refused);
    if old_config != new_config
        && !is_refused
        && let Err(impossible) = capstan_distro::check(&new_config, Role::Worker)
    {
        changes.push(impossible.into());
    }
    for change in &mut changes {
        change.field = match change.field.as_str() {
            "spec.version" => names.of_machine("version"),
            field => names.of_object(new, field),
        };
    }
    if current.machine.failure_domain != desired.machine.failure_domain {
        changes.push(Change::new(
            names.of_machine("failureDomain"),
            Cost::Replace,
            "a machine stays where it is",
        ));
    }
    changes.extend(infrastructure(current.infrastructure, desired.infrastructure, names));
    changes
}

/// A host is claimed once, by what was asked for then.
fn infrastructure(current: &Value, desired: &Value, names: Names<'_>) -> Vec<Change> {
    let pointer = names.pointer();
    let spec = |object: &Value| json!({"spec": object.pointer(&pointer)});
    let mut changes = changes(Subject::HostMachine, &spec(current), &spec(desired));
    for change in &mut changes {
        change.field = names.of_object(desired, &change.field);
    }
    changes
}
