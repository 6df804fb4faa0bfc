//! Reads and writes `metadata.managedFields`: which manager owns which fields since when.

use crate::fields::{FieldSet, FieldsError};
use crate::gotext;
use crate::meta;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The operation by which a manager owns fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// The identity of an entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager {
    /// Name of the field manager.
    pub name: String,
    /// Operation of its writes.
    pub operation: Operation,
    /// Version of its writes; empty for appliers, which have one entry for all versions.
    pub api_version: String,
    /// Subresource of its writes; empty for the object itself.
    pub subresource: String,
}

impl Manager {
    /// The order in which upstream lists managers: that of their identifiers, which are JSON.
    pub(crate) fn identifier(&self) -> String {
        let mut out = String::from("{");
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                let comma = if out.len() > 1 { "," } else { "" };
                out.push_str(&format!("{comma}\"{key}\":{}", gotext::json(&Value::from(value))));
            }
        };
        put("manager", &self.name);
        put("operation", self.operation.name());
        put("apiVersion", &self.api_version);
        put("subresource", &self.subresource);
        out.push('}');
        out
    }
}

/// Why a `managedFields` cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// The operation is neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no `apiVersion`.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The `fieldsType` of an entry is not `FieldsV1`.
    #[error("invalid fieldsType {kind:?} in managed fields entry {entry}")]
    FieldsType {
        /// Its `fieldsType`.
        kind: String,
        /// Index of the entry.
        entry: usize,
    },
    /// The fields of an entry cannot be decoded.
    #[error(transparent)]
    Fields(#[from] FieldsError),
}

/// The fields of one manager.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) set: FieldSet,
    pub(crate) api_version: String,
}

/// An entry of `managedFields`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) manager: &'a Manager,
    pub(crate) set: &'a FieldSet,
    pub(crate) api_version: &'a str,
    pub(crate) time: Option<&'a str>,
}

impl Entry<'_> {
    fn value(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_string(), value);
        put("apiVersion", self.api_version.into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.set.to_v1());
        if !self.manager.name.is_empty() {
            put("manager", self.manager.name.as_str().into());
        }
        put("operation", self.manager.operation.name().into());
        if !self.manager.subresource.is_empty() {
            put("subresource", self.manager.subresource.as_str().into());
        }
        if let Some(time) = self.time {
            put("time", time.into());
        }
        Value::Object(entry)
    }
}

/// Writes entries into an object, in upstream's order.
pub(crate) fn write_entries(mut entries: Vec<Entry<'_>>, object: &mut Value) {
    entries.sort_by_key(|entry| {
        let Entry { manager, api_version, time, .. } = *entry;
        (manager.operation, time.unwrap_or_default(), &manager.name, api_version, &manager.subresource)
    });
    let Some(metadata) = meta::of(object) else { return };
    metadata.shift_remove("managedFields");
    if !entries.is_empty() {
        let entries = entries.iter().map(Entry::value).collect();
        metadata.insert("managedFields".into(), Value::Array(entries));
    }
}

/// All managers of an object, and when each last changed something. Times outlive the managers they belong to, as a
/// manager may lose its fields and own some again within one write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    pub(crate) fields: BTreeMap<Manager, Owned>,
    pub(crate) times: BTreeMap<Manager, String>,
}

impl Managed {
    pub(crate) fn of(object: &Value) -> Result<Managed, ManagedFieldsError> {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            Some(Value::Array(entries)) => Managed::read(entries),
            _ => Ok(Managed::default()),
        }
    }

    pub(crate) fn read(entries: &[Value]) -> Result<Managed, ManagedFieldsError> {
        let mut managed = Managed::default();
        for (i, entry) in entries.iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
            let operation = match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(ManagedFieldsError::Operation),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(ManagedFieldsError::ApiVersion);
            }
            if text("fieldsType") != "FieldsV1" {
                return Err(ManagedFieldsError::FieldsType { kind: text("fieldsType"), entry: i });
            }
            let set = entry.get("fieldsV1").map_or(Ok(FieldSet::default()), FieldSet::from_v1)?;
            let manager = Manager {
                name: text("manager"),
                operation,
                api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
                subresource: text("subresource"),
            };
            if let Some(time) = entry.get("time").and_then(Value::as_str) {
                managed.times.insert(manager.clone(), time.to_string());
            }
            managed.fields.insert(manager, Owned { set, api_version });
        }
        Ok(managed)
    }

    /// Writes the entries into an object, in upstream's order.
    pub(crate) fn write(&self, object: &mut Value) {
        write_entries(
            self.fields.iter().map(|(manager, owned)| self.entry(manager, owned)).collect(),
            object,
        );
    }

    pub(crate) fn entry<'a>(&'a self, manager: &'a Manager, owned: &'a Owned) -> Entry<'a> {
        let time = self.times.get(manager).map(String::as_str);
        Entry { manager, set: &owned.set, api_version: &owned.api_version, time }
    }

    /// Every field that someone owns.
    pub(crate) fn all(&self) -> FieldSet {
        self.fields.values().fold(FieldSet::default(), |all, owned| all.union(owned.set.clone()))
    }

    /// Takes fields nobody can own from a manager, who goes if nothing is left.
    pub(crate) fn strip(&mut self, manager: &Manager) {
        if let Some(owned) = self.fields.get_mut(manager) {
            owned.set = std::mem::take(&mut owned.set).difference(&meta::UNOWNED);
            if owned.set.is_empty() {
                self.fields.remove(manager);
            }
        }
    }

    /// Keeps the number of updaters at ten by putting the oldest of each version together.
    pub(crate) fn cap_updaters(&mut self) {
        const MOST: usize = 10;
        let mut updaters: Vec<Manager> =
            self.fields.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut count = updaters.len();
        updaters.sort_by_cached_key(|manager| {
            (self.times.get(manager).cloned().unwrap_or_default(), manager.identifier())
        });
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MOST {
                return;
            }
            let Some(version) = self.fields.get(&manager).map(|owned| owned.api_version.clone()) else {
                continue;
            };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                name: "ancient-changes".into(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.fields.contains_key(&bucket)
                && let Some(owned) = self.fields.remove(first)
            {
                self.fields.insert(bucket.clone(), owned);
            }
            let Some(merged) = self.fields.remove(&manager) else { continue };
            if let Some(owned) = self.fields.get_mut(&bucket) {
                owned.set = std::mem::take(&mut owned.set).union(merged.set);
            } else {
                self.fields.insert(bucket.clone(), merged);
            }
            count -= 1;
            match self.times.get(&manager).cloned() {
                Some(time) => self.times.insert(bucket, time),
                None => self.times.remove(&bucket),
            };
        }
    }
}
