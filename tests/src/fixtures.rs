//! The objects under `tests/fixtures/objects`: for each kind, valid ones, and changes that must be refused.
//!
//! Nothing in here talks to a server. The tests of `capstan-api` read the same fixtures through this file, so it
//! uses nothing that they do not have.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_api::{addons, agent, bootstrap, clusterctl, controlplane, core, infrastructure, ipam, runtime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is known of one kind: the file that is named after it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Objects that an API server takes and keeps whole.
    pub valid: Vec<Value>,
    /// Changes to them that it refuses.
    pub refused: Vec<Refused>,
}

/// A change that an API server must refuse.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// What is wrong, in short.
    pub because: String,
    /// What is asked of the server.
    #[serde(default)]
    pub when: When,
    /// Which of the valid objects is changed; the first unless it says so.
    #[serde(default)]
    pub of: usize,
    /// The change: a JSON merge patch.
    pub change: Value,
    /// Path of the field that the server must blame.
    pub field: String,
    /// What it must say of that field. For a CEL rule this is the rule's message, or enough of it.
    pub says: Option<String>,
}

/// What is asked of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// To create an object that has the change in it already.
    #[default]
    Create,
    /// To change an object that is there.
    Update,
    /// To change the status of an object that is there.
    Status,
}

impl Fixture {
    /// The kind they are of.
    pub fn kind(&self) -> &str {
        self.valid.first().and_then(|object| object["kind"].as_str()).expect("a valid object with a kind")
    }

    /// The object that a case changes, as it is before.
    pub fn before(&self, case: &Refused) -> &Value {
        &self.valid[case.of]
    }

    /// The object that a case changes, as it would be afterwards.
    pub fn after(&self, case: &Refused) -> Value {
        let mut object = self.before(case).clone();
        merge(&mut object, &case.change);
        object
    }
}

/// All of them, in the order of their files' names.
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

/// Where `kept` does not have what was `sent`, with both values. It may have more: defaults, and metadata that
/// servers write.
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

/// Reads an object into the Rust type of its kind and writes it again.
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
