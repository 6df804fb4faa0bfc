//! The objects under `tests/fixtures/objects`: for each kind, valid objects, and changes that must be rejected.
//!
//! This module makes no requests. The tests of `capstan-api` use this file, too, so it needs only their dependencies.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_api::{addons, agent, bootstrap, clusterctl, controlplane, core, infrastructure, ipam, runtime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fixture file of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Objects that an API server accepts and stores completely.
    pub valid: Vec<Value>,
    /// Changes to them that it rejects.
    pub refused: Vec<Refused>,
}

/// A change that an API server must reject.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The problem, in short.
    pub because: String,
    /// The request.
    #[serde(default)]
    pub when: When,
    /// Index of the valid object to change; 0 by default.
    #[serde(default)]
    pub of: usize,
    /// The change: a JSON merge patch.
    pub change: Value,
    /// Path of the field that the server's error must name.
    pub field: String,
    /// Text that the error must contain. For a CEL rule, all or part of the rule's message.
    pub says: Option<String>,
}

/// The request to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Create an object that contains the change.
    #[default]
    Create,
    /// Update an existing object.
    Update,
    /// Update the status of an existing object.
    Status,
}

impl Fixture {
    /// Kind of the objects.
    pub fn kind(&self) -> &str {
        self.valid.first().and_then(|object| object["kind"].as_str()).expect("a valid object with a kind")
    }

    /// The object of a case, before the change.
    pub fn before(&self, case: &Refused) -> &Value {
        &self.valid[case.of]
    }

    /// The object of a case, after the change.
    pub fn after(&self, case: &Refused) -> Value {
        let mut object = self.before(case).clone();
        merge(&mut object, &case.change);
        object
    }
}

/// All fixtures, sorted by file name.
pub fn all() -> Vec<Fixture> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder of the fixtures can be read")
        .map(|entry| entry.expect("the folder of the fixtures can be read").path())
        .collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// Next to the workspace's lock file, for whichever of its crates this is built.
fn folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists())
        .expect("the tests run in the workspace");
    workspace.join("tests/fixtures/objects")
}

fn read(file: &Path) -> Fixture {
    let text = fs::read_to_string(file).expect("a fixture can be read");
    let fixture: Fixture =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let named = file.file_stem().and_then(|stem| stem.to_str());
    for object in &fixture.valid {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        assert_eq!(Some(kind.as_str()), named, "{}: an object of another kind", file.display());
    }
    for case in &fixture.refused {
        assert!(case.of < fixture.valid.len(), "{}: {}: no such object", file.display(), case.because);
    }
    fixture
}

/// A JSON merge patch, RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().expect("it was just made one");
    for (name, value) in patch {
        if value.is_null() {
            target.shift_remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Paths at which `kept` lacks or changes a value of `sent`, with both values. `kept` may contain more: defaults, and
/// metadata that the server sets.
pub fn lost(sent: &Value, kept: &Value) -> Vec<String> {
    let mut places = Vec::new();
    lost_below("", sent, kept, &mut places);
    places
}

fn lost_below(path: &str, sent: &Value, kept: &Value, places: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (name, value) in sent {
                lost_below(&format!("{path}.{name}"), value, kept.get(name).unwrap_or(&Value::Null), places);
            }
        }
        (Value::Array(sent), Value::Array(kept)) if sent.len() == kept.len() => {
            for (index, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                lost_below(&format!("{path}[{index}]"), sent, kept, places);
            }
        }
        _ if sent == kept => {}
        _ => places.push(format!("{path}: {sent} is {kept}")),
    }
}

/// Deserializes an object into the Rust type of its kind, and serializes it again.
pub fn rewritten(object: &Value) -> serde_json::Result<Value> {
    let rewrite = match object["kind"].as_str().unwrap_or_default() {
        "CapstanConfig" => through::<bootstrap::CapstanConfig>,
        "CapstanConfigTemplate" => through::<bootstrap::CapstanConfigTemplate>,
        "CapstanControlPlane" => through::<controlplane::CapstanControlPlane>,
        "CapstanControlPlaneTemplate" => through::<controlplane::CapstanControlPlaneTemplate>,
        "CapstanRemediation" => through::<controlplane::CapstanRemediation>,
        "CapstanRemediationTemplate" => through::<controlplane::CapstanRemediationTemplate>,
        "Cluster" => through::<core::Cluster>,
        "ClusterClass" => through::<core::ClusterClass>,
        "ClusterResourceSet" => through::<addons::ClusterResourceSet>,
        "ClusterResourceSetBinding" => through::<addons::ClusterResourceSetBinding>,
        "ExtensionConfig" => through::<runtime::ExtensionConfig>,
        "Host" => through::<infrastructure::Host>,
        "HostCluster" => through::<infrastructure::HostCluster>,
        "HostClusterTemplate" => through::<infrastructure::HostClusterTemplate>,
        "HostMachine" => through::<infrastructure::HostMachine>,
        "HostMachineTemplate" => through::<infrastructure::HostMachineTemplate>,
        "HostPool" => through::<infrastructure::HostPool>,
        "HostRegistration" => through::<infrastructure::HostRegistration>,
        "IPAddress" => through::<ipam::IpAddress>,
        "IPAddressClaim" => through::<ipam::IpAddressClaim>,
        "Machine" => through::<core::Machine>,
        "MachineDeployment" => through::<core::MachineDeployment>,
        "MachineDrainRule" => through::<core::MachineDrainRule>,
        "MachineHealthCheck" => through::<core::MachineHealthCheck>,
        "MachinePool" => through::<core::MachinePool>,
        "MachineReport" => through::<agent::MachineReport>,
        "MachineSet" => through::<core::MachineSet>,
        "Metadata" => through::<clusterctl::Metadata>,
        "Provider" => through::<clusterctl::Provider>,
        kind => panic!("name the Rust type of the kind {kind:?} here"),
    };
    rewrite(object)
}

fn through<K: Serialize + DeserializeOwned>(object: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(object.clone())?)
}
