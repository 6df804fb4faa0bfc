//! Merges the configuration that depends on a Host into the configuration of its machine. Pure.
//!
//! Layers, in ascending precedence: the CapstanConfig, the entries of its `spec.hostConfig` that select the Host, in their
//! order, and `spec.config` of the Host. The result is rendered as any CapstanConfig is: whatever changes a layer, is an
//! in-place change of the machine.

mod layer;
mod selector;

use capstan_api::bootstrap::{CapstanConfigSpec, HostConfig, HostConfigEntry, HostTaint};
use capstan_api::infrastructure::Host;
use std::collections::BTreeMap;
use std::fmt;

use crate::error::InputError;
pub(crate) use layer::taint_field;

/// A Host, as far as the configuration of its machine depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `spec.config`; empty if it is not set.
    pub config: HostConfig,
    /// `spec.windows`: the maintenance windows of its machine.
    pub windows: Vec<String>,
}

impl HostFacts {
    /// The facts about a Host.
    pub fn of(host: &Host) -> Self {
        Self {
            name: host.metadata.name.clone().unwrap_or_default(),
            labels: host.metadata.labels.clone().unwrap_or_default(),
            config: host.spec.config.clone().unwrap_or_default(),
            windows: host.spec.windows.clone(),
        }
    }
}

/// Where a value comes from, if not from the fields of the CapstanConfig for every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An entry of `spec.hostConfig`, by its name.
    Entry(String),
    /// `spec.config` of a Host, by the name of the Host.
    Host(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(name) => write!(f, "spec.hostConfig[{name}]"),
            Self::Host(name) => write!(f, "Host {name} spec.config"),
        }
    }
}

impl Origin {
    /// An error in a field of the layer, such as `settings.node-ip`.
    fn error(&self, field: &str, message: impl Into<String>) -> InputError {
        match self {
            Self::Entry(name) => InputError::new(format!("spec.hostConfig[{name}].config.{field}"), message),
            Self::Host(name) => InputError::of_host(name.clone(), format!("spec.config.{field}"), message),
        }
    }
}

/// Where a part of a value comes from; `None`: from the fields for every machine.
type Source = Option<Origin>;

/// The configuration of the machine on a Host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedConfig {
    /// The configuration, without `spec.hostConfig`.
    pub config: CapstanConfigSpec,
    /// Labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// Taints of the Node.
    pub taints: Vec<HostTaint>,
    /// The source of each entry of a list that several layers add to, or of the whole value. By field, in the words of a
    /// CapstanConfig. Fields that no layer has set are absent.
    sources: BTreeMap<String, Vec<Source>>,
}

/// Merges the layers for the machine on a Host. A machine that is on no Host has the configuration for every machine.
///
/// # Errors
/// If a layer that counts for this Host is invalid; the error names the field in its object.
pub fn merge(config: &CapstanConfigSpec, host: Option<&HostFacts>) -> Result<MergedConfig, InputError> {
    let mut merged = MergedConfig::alone(config);
    let Some(host) = host else { return Ok(merged) };
    for entry in &config.host_config {
        if selector::selects(entry, &host.labels)? {
            merged.add(&Origin::Entry(entry.name.clone()), &entry.config)?;
        }
    }
    merged.add(&Origin::Host(host.name.clone()), &host.config)?;
    Ok(merged)
}

/// The configuration of a machine for which one entry counts, whatever its Host.
pub(crate) fn with_entry(
    config: &CapstanConfigSpec,
    entry: &HostConfigEntry,
) -> Result<MergedConfig, InputError> {
    // Which Hosts there will be is not known: the selector must make sense for any.
    selector::selects(entry, &BTreeMap::new())?;
    let mut merged = MergedConfig::alone(config);
    merged.add(&Origin::Entry(entry.name.clone()), &entry.config)?;
    Ok(merged)
}

impl MergedConfig {
    /// The configuration for every machine.
    pub(crate) fn alone(config: &CapstanConfigSpec) -> Self {
        let config = CapstanConfigSpec { host_config: Vec::new(), ..config.clone() };
        Self { config, ..Self::default() }
    }

    /// Where the value of a field of the CapstanConfig comes from, for users. `None` if only from that field.
    pub fn origin(&self, field: &str) -> Option<String> {
        let origins = self.origins(field);
        let is_partial = self.sources_of(field).contains(&None);
        let config = is_partial.then(|| "the CapstanConfig".to_owned());
        let names: Vec<String> = config.into_iter().chain(origins.iter().map(ToString::to_string)).collect();
        (!origins.is_empty()).then(|| names.join(" and "))
    }

    /// The layers that the value of a field comes from, in ascending precedence.
    pub fn origins(&self, field: &str) -> Vec<&Origin> {
        let mut origins = Vec::new();
        for origin in self.sources_of(field).iter().flatten() {
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        origins
    }

    /// An error in a field of the merged configuration, with the field of the object that the value comes from.
    #[must_use]
    pub fn locate(&self, error: InputError) -> InputError {
        match self.sources_of(&error.field) {
            // Layers are checked before they are merged: the error is in the part for every machine, if there is one.
            [.., Some(origin)] if !self.sources_of(&error.field).contains(&None) => {
                origin.error(error.field.strip_prefix("spec.").unwrap_or(&error.field), error.message)
            }
            _ => error,
        }
    }

    /// The sources of the longest field that is this one or contains it.
    fn sources_of(&self, field: &str) -> &[Source] {
        let contains = |outer: &str| {
            field.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let found = self.sources.iter().filter(|(outer, _)| contains(outer));
        found.max_by_key(|(outer, _)| outer.len()).map_or(&[], |(_, sources)| sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::bootstrap::Setting;
    use serde_json::json;

    #[test]
    fn an_error_names_the_object_that_has_the_value() {
        let setting = |value: &str| BTreeMap::from([("node-ip".to_owned(), Setting(json!(value)))]);
        let host = |settings| HostFacts {
            name: "rack-1".to_owned(),
            config: HostConfig { settings, ..HostConfig::default() },
            ..HostFacts::default()
        };
        let config = CapstanConfigSpec { settings: setting("10.0.0.1"), ..CapstanConfigSpec::default() };
        let wrong = || InputError::new("spec.settings.node-ip", "is wrong");
        for (host, place) in [
            (host(BTreeMap::new()), "spec.settings.node-ip"),
            (host(setting("10.0.0.2")), "Host rack-1 spec.config.settings.node-ip"),
        ] {
            let merged = merge(&config, Some(&host)).expect("a configuration");
            assert_eq!(merged.locate(wrong()).place(), place);
            let other = InputError::new("spec.settings.node", "is wrong");
            assert_eq!(merged.locate(other.clone()), other, "a field with the same beginning");
        }
    }
}
