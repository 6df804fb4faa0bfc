//! Lays one layer over the layers below it. Pure.
//!
//! Each rule is associative, so it does not matter which of three layers are merged first:
//!
//! | field | rule |
//! |---|---|
//! | arguments of a component, such as `kubelet-arg` | an argument replaces those of the same name |
//! | `tls-san` | names are added |
//! | other settings | replaced as a whole |
//! | files, labels, taints | replaced by path, key, key and effect |

use capstan_api::bootstrap::{HostConfig, HostTaint, Setting};
use serde_json::Value;
use std::collections::BTreeSet;

use super::{MergedConfig, Origin, Source};
use crate::error::InputError;
use crate::k3s::{self, Merging};

/// Labels that describe the machine; the kubelet sets them back.
const OF_KUBELET: [&str; 3] = ["kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"];

impl MergedConfig {
    /// Lays a layer over what was merged.
    pub(super) fn add(&mut self, origin: &Origin, layer: &HostConfig) -> Result<(), InputError> {
        check(origin, layer)?;
        for (key, setting) in &layer.settings {
            self.add_setting(origin, key, setting);
        }
        for file in &layer.files {
            match self.config.files.iter_mut().find(|below| below.path == file.path) {
                Some(below) => below.clone_from(file),
                None => self.config.files.push(file.clone()),
            }
            self.replaced(format!("spec.files[{}]", file.path), origin);
        }
        for (key, value) in &layer.labels {
            self.labels.insert(key.clone(), value.clone());
            self.replaced(format!("labels.{key}"), origin);
        }
        for taint in &layer.taints {
            match self.taints.iter_mut().find(|below| is_same(below, taint)) {
                Some(below) => below.clone_from(taint),
                None => self.taints.push(taint.clone()),
            }
            self.replaced(taint_field(taint), origin);
        }
        Ok(())
    }

    fn add_setting(&mut self, origin: &Origin, key: &str, Setting(value): &Setting) {
        let field = format!("spec.settings.{key}");
        let merging = k3s::merging(key);
        if merging == Merging::Replace {
            self.config.settings.insert(key.to_owned(), Setting(value.clone()));
            return self.replaced(field, origin);
        }
        let above: Entries = entries(value).into_iter().map(|entry| (entry, Some(origin.clone()))).collect();
        let Some(Setting(below)) = self.config.settings.get(key) else {
            self.sources.insert(field, sources(&above));
            self.config.settings.insert(key.to_owned(), Setting(value.clone()));
            return;
        };
        let known = self.sources.get(&field).map(Vec::as_slice).unwrap_or_default();
        let known = known.iter().cloned().chain(std::iter::repeat(None));
        let below: Entries = entries(below).into_iter().zip(known).collect();
        let merged = match merging {
            Merging::Arguments => with_arguments(below, above),
            Merging::Union | Merging::Replace => with_names(below, above),
        };
        self.sources.insert(field, sources(&merged));
        let merged = merged.into_iter().map(|(entry, _)| entry).collect();
        self.config.settings.insert(key.to_owned(), Setting(Value::Array(merged)));
    }

    fn replaced(&mut self, field: String, origin: &Origin) {
        self.sources.insert(field, vec![Some(origin.clone())]);
    }
}

/// Entries of a list, each with its source.
type Entries = Vec<(Value, Source)>;

fn sources(entries: &[(Value, Source)]) -> Vec<Source> {
    entries.iter().map(|(_, source)| source.clone()).collect()
}

/// The taint in the words of a plan.
pub(crate) fn taint_field(taint: &HostTaint) -> String {
    format!("taints[{}:{:?}]", taint.key, taint.effect)
}

fn is_same(one: &HostTaint, other: &HostTaint) -> bool {
    one.key == other.key && one.effect == other.effect
}

/// The entries of a setting that may be one value or a list.
fn entries(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(entries) => entries.clone(),
        other => vec![other.clone()],
    }
}

fn with_arguments(below: Entries, above: Entries) -> Entries {
    // k3s adds the value of `name+=value` and `name-=value` to what there is.
    let replaced: BTreeSet<String> =
        above.iter().map(|(entry, _)| argument(entry)).filter(|name| !name.ends_with(['+', '-'])).collect();
    let stays = |(entry, _): &(Value, Source)| {
        let name = argument(entry);
        !replaced.contains(name.trim_end_matches(['+', '-']))
    };
    below.into_iter().filter(stays).chain(above).collect()
}

/// The name of an argument, as in `max-pods=110`.
fn argument(entry: &Value) -> String {
    let text = entry.as_str().unwrap_or_default();
    text.split('=').next().unwrap_or_default().trim_start_matches('-').to_owned()
}

fn with_names(mut below: Entries, above: Entries) -> Entries {
    let is_new = |(name, _): &(Value, Source)| below.iter().all(|(other, _)| other != name);
    let new: Entries = above.into_iter().filter(is_new).collect();
    below.extend(new);
    below
}

/// Whether a layer may be laid over a configuration.
fn check(origin: &Origin, layer: &HostConfig) -> Result<(), InputError> {
    for (key, Setting(value)) in &layer.settings {
        if let Some(why) = k3s::refused_for_one_machine(key, value) {
            return Err(origin.error(&format!("settings.{key}"), why));
        }
    }
    for (key, value) in &layer.labels {
        let why = if OF_KUBELET.contains(&key.as_str()) {
            "is set by the kubelet: take it out"
        } else if !is_label_key(key) {
            "is not the key of a label: write it like example.com/rack"
        } else if !is_label_value(value) {
            "is not the value of a label: use at most 63 letters, digits, dashes, dots and underscores"
        } else {
            continue;
        };
        return Err(origin.error(&format!("labels.{key}"), why));
    }
    match layer.taints.iter().find(|taint| !is_label_key(&taint.key)) {
        Some(taint) => {
            Err(origin
                .error(&taint_field(taint), "is not the key of a taint: write it like example.com/rack"))
        }
        None => Ok(()),
    }
}

fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_subdomain)
}

fn is_label_value(value: &str) -> bool {
    let is_inside = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let is_end = |c: Option<u8>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(is_inside)
        && is_end(value.bytes().next())
        && is_end(value.bytes().last())
}

fn is_subdomain(text: &str) -> bool {
    let is_inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(is_inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_argument_replaces_those_of_the_same_name() {
        let list = |words: &[&str]| words.iter().map(|word| (json!(word), None)).collect::<Entries>();
        for (below, above, expected) in [
            (&["max-pods=110", "v=2"][..], &["max-pods=50"][..], &["v=2", "max-pods=50"][..]),
            (&["--max-pods=110"], &["max-pods=50"], &["max-pods=50"]),
            (&["a=1", "a=2"], &["b=1"], &["a=1", "a=2", "b=1"]),
            (&["gates=A=true"], &["gates+=B=true"], &["gates=A=true", "gates+=B=true"]),
            (&["gates=A=true", "gates+=B=true"], &["gates=C=true"], &["gates=C=true"]),
            (&[], &["a=1"], &["a=1"]),
        ] {
            assert_eq!(with_arguments(list(below), list(above)), list(expected), "{below:?} {above:?}");
        }
    }

    #[test]
    fn keys_and_values_are_those_of_kubernetes() {
        for (key, is_key) in [
            ("rack", true),
            ("example.com/rack_1.a", true),
            ("", false),
            ("example.com/", false),
            ("/rack", false),
            ("Example.com/rack", false),
            ("a/b/c", false),
            ("-rack", false),
            (&"r".repeat(64), false),
        ] {
            assert_eq!(is_label_key(key), is_key, "{key}");
        }
        assert!(is_label_value("") && is_label_value("a.b_c-d"));
        assert!(!is_label_value("a ") && !is_label_value("a."));
    }
}
