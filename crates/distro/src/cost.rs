//! What a change costs, field by field. The planner and `capstan plan` ask the same table.

use capstan_api::bootstrap::{CapstanConfigSpec, Command, File};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::error::InputError;
use crate::k3s;
use crate::version::Version;

/// What happens to a machine because of a change; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing.
    Nothing,
    /// Something is written or run; Kubernetes on the machine does not notice.
    Live,
    /// Kubernetes on the machine is started again. Pods keep running.
    Restart,
    /// Pods are moved away first.
    DrainAndRestart,
    /// The machine itself is started again.
    Reboot,
    /// It cannot be done to this machine, only to another one in its place.
    Replace,
    /// It cannot be done at all.
    Refused,
}

/// One field that differs, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the field in the CapstanConfig, or `spec.version` of the Machine.
    pub field: String,
    /// What it costs.
    pub cost: Cost,
    /// Why, for people. Never repeats a value.
    pub why: Cow<'static, str>,
}

/// What a user asked for and cannot have is a change that cannot be made.
impl From<InputError> for Change {
    fn from(error: InputError) -> Self {
        Self { field: error.field, cost: Cost::Refused, why: error.message.into() }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

/// A machine's version and setup.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Kubernetes version.
    pub version: &'a str,
    /// The rest.
    pub config: &'a CapstanConfigSpec,
}

/// Every field that differs, with its cost.
pub fn classify(old: Setup<'_>, new: Setup<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add =
        |field: String, cost, why: &'static str| changes.push(Change { field, cost, why: why.into() });
    if old.version != new.version {
        let (cost, why) = version(old.version, new.version);
        add("spec.version".to_owned(), cost, why);
    }
    if old.config.distro != new.config.distro {
        let why = "a machine cannot go from one distribution to another: make another cluster";
        add("spec.distro".to_owned(), Cost::Refused, why);
    }
    if old.config.format != new.config.format {
        add("spec.format".to_owned(), Cost::Nothing, "only new machines start with bootstrap data");
    }
    for key in differing(&by_key(&old.config.settings), &by_key(&new.config.settings)) {
        add(format!("spec.settings.{key}"), Cost::Restart, "k3s reads its settings when it starts");
    }
    for path in differing(&files(old.config), &files(new.config)) {
        match k3s::restarts_for(path) {
            true => add(format!("spec.files[{path}]"), Cost::Restart, "k3s reads this file when it starts"),
            false => add(format!("spec.files[{path}]"), Cost::Live, "the file is written"),
        }
    }
    let moments =
        [("before", &old.config.before, &new.config.before), ("after", &old.config.after, &new.config.after)];
    for (moment, old, new) in moments {
        for name in differing(&commands(old), &commands(new)) {
            add(
                format!("spec.{moment}[{name}]"),
                Cost::Live,
                "a command that is new or different is run once",
            );
        }
    }
    changes
}

/// The worst of them.
pub fn worst(changes: &[Change]) -> Cost {
    changes.iter().map(|change| change.cost).max().unwrap_or(Cost::Nothing)
}

fn version(old: &str, new: &str) -> (Cost, &'static str) {
    let (Some(old), Some(new)) = (Version::parse(old), Version::parse(new)) else {
        return (Cost::Refused, "is no Kubernetes version: write it like v1.36.0+k3s1");
    };
    let ((old_major, old_minor), (major, minor)) = (old.minor(), new.minor());
    if new.minor() < old.minor() {
        (Cost::Refused, "Kubernetes cannot go back to an earlier minor version: restore a snapshot instead")
    } else if major != old_major || minor > old_minor + 1 {
        (Cost::Refused, "Kubernetes goes from one minor version to the next: go there step by step")
    } else {
        (Cost::Restart, "another version is installed and started")
    }
}

type Index<'a, T> = BTreeMap<&'a str, &'a T>;

fn by_key<T>(map: &BTreeMap<String, T>) -> Index<'_, T> {
    map.iter().map(|(key, value)| (key.as_str(), value)).collect()
}

fn files(config: &CapstanConfigSpec) -> Index<'_, File> {
    config.files.iter().map(|file| (file.path.as_str(), file)).collect()
}

fn commands(list: &[Command]) -> Index<'_, Command> {
    list.iter().map(|command| (command.name.as_str(), command)).collect()
}

/// Keys that are in one only, or in both with different values.
fn differing<'a, T: PartialEq>(old: &Index<'a, T>, new: &Index<'a, T>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = old.keys().chain(new.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| old.get(key) != new.get(key));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::bootstrap::{Distro, Setting};
    use serde_json::json;

    fn config(change: impl FnOnce(&mut CapstanConfigSpec)) -> CapstanConfigSpec {
        let mut config = CapstanConfigSpec::default();
        change(&mut config);
        config
    }

    fn file(path: &str, content: &str) -> File {
        File {
            path: path.to_owned(),
            content: Some(content.to_owned()),
            content_from: None,
            owner: None,
            permissions: None,
        }
    }

    #[test]
    fn each_field_has_its_cost() {
        let plain = CapstanConfigSpec::default();
        for (changed, field, cost) in [
            (config(|c| c.distro = Distro::Rke2), "spec.distro", Cost::Refused),
            (
                config(|c| c.format = Some(capstan_api::bootstrap::BootstrapFormat::Script)),
                "spec.format",
                Cost::Nothing,
            ),
            (
                config(|c| _ = c.settings.insert("disable".to_owned(), Setting(json!(["traefik"])))),
                "spec.settings.disable",
                Cost::Restart,
            ),
            (config(|c| c.files.push(file("/etc/motd", "hi"))), "spec.files[/etc/motd]", Cost::Live),
            (
                config(|c| c.files.push(file("/etc/rancher/k3s/registries.yaml", "{}"))),
                "spec.files[/etc/rancher/k3s/registries.yaml]",
                Cost::Restart,
            ),
            (
                config(|c| {
                    c.before.push(Command {
                        name: "swap".to_owned(),
                        command: vec!["swapoff".to_owned()],
                        timeout_seconds: None,
                    });
                }),
                "spec.before[swap]",
                Cost::Live,
            ),
        ] {
            let setup = |config| Setup { version: "v1.36.0", config };
            let changes = classify(setup(&plain), setup(&changed));
            assert_eq!(changes.len(), 1, "{field}");
            assert_eq!((changes[0].field.as_str(), changes[0].cost), (field, cost));
            assert_eq!(worst(&classify(setup(&changed), setup(&changed))), Cost::Nothing);
        }
    }

    #[test]
    fn versions_go_forward_one_minor_at_a_time() {
        for (old, new, cost) in [
            ("v1.36.0+k3s1", "v1.36.1+k3s1", Cost::Restart),
            ("v1.36.1+k3s1", "v1.36.0+k3s1", Cost::Restart),
            ("v1.36.0+k3s1", "v1.36.0+k3s2", Cost::Restart),
            ("v1.35.9+k3s1", "v1.36.0+k3s1", Cost::Restart),
            ("v1.34.0+k3s1", "v1.36.0+k3s1", Cost::Refused),
            ("v1.36.0+k3s1", "v1.35.0+k3s1", Cost::Refused),
            ("v1.36.0+k3s1", "v2.0.0", Cost::Refused),
            ("v1.36.0", "latest", Cost::Refused),
        ] {
            assert_eq!(version(old, new).0, cost, "{old} -> {new}");
        }
    }
}
