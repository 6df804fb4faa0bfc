//! All variables of a class, compiled once for all its clusters.

use super::schema::Schema;
use crate::field;
use capstan_api::core::{
    ClusterClassStatusVariable, ClusterClassStatusVariableDefinition, ClusterClassVariable, ClusterVariable,
};
use capstan_apiserver_schema::{ErrorKind, FieldError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The source of variables that the class itself defines.
pub const INLINE: &str = "inline";

/// The variables for the status of a class: its own, and those that runtime extensions define, by the name of the patch.
/// Sorted by name. Definitions of one name that differ are a conflict.
pub fn definitions_of(
    inline: &[ClusterClassVariable],
    discovered: &[(String, Vec<ClusterClassVariable>)],
) -> Vec<ClusterClassStatusVariable> {
    let mut found: BTreeMap<&str, ClusterClassStatusVariable> = BTreeMap::new();
    let own = inline.iter().map(|variable| (INLINE, variable));
    let others =
        discovered.iter().flat_map(|(from, variables)| variables.iter().map(move |one| (from.as_str(), one)));
    for (from, variable) in own.chain(others) {
        let definition = ClusterClassStatusVariableDefinition {
            from: from.to_string(),
            required: variable.required,
            deprecated_v1beta1_metadata: variable.deprecated_v1beta1_metadata.clone(),
            schema: variable.schema.clone(),
        };
        let known = found.entry(&variable.name).or_insert_with(|| ClusterClassStatusVariable {
            name: variable.name.clone(),
            definitions_conflict: Some(false),
            definitions: Vec::new(),
        });
        let differs = known.definitions.first().is_some_and(|first| {
            let same =
                ClusterClassStatusVariableDefinition { from: first.from.clone(), ..definition.clone() };
            same != *first
        });
        if differs {
            known.definitions_conflict = Some(true);
        }
        known.definitions.push(definition);
    }
    found.into_values().collect()
}

/// A variable with a compiled schema.
#[derive(Debug)]
struct Definition {
    required: bool,
    schema: Result<Schema, Vec<FieldError>>,
}

/// The variables of a class.
#[derive(Debug)]
pub struct Definitions {
    /// In the order of the class.
    names: Vec<String>,
    by_name: BTreeMap<String, Definition>,
    /// Why the class is not ready.
    faults: Vec<String>,
}

impl Definitions {
    /// Compiles the variables in the status of a class.
    pub fn compile(variables: &[ClusterClassStatusVariable]) -> Definitions {
        let mut definitions = Definitions { names: Vec::new(), by_name: BTreeMap::new(), faults: Vec::new() };
        for variable in variables {
            let name = &variable.name;
            if variable.definitions_conflict == Some(true) {
                definitions.faults.push(format!("variable {name:?} is defined in different ways"));
            }
            // Without a conflict, all definitions are the same.
            let Some(first) = variable.definitions.first() else {
                definitions.faults.push(format!("variable {name:?} has no definition"));
                continue;
            };
            let schema = Schema::compile(&first.schema.open_api_v3_schema, "schema");
            definitions.names.push(name.clone());
            definitions.by_name.insert(name.clone(), Definition { required: first.required, schema });
        }
        definitions
    }

    fn refuse_faults(&self, at: &str) -> Result<(), Vec<FieldError>> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.names.iter().map(|name| format!("Name: {name}")).collect();
        let value = Value::from(format!("[{}]", names.join(",")));
        let why = format!("variables of the ClusterClass cannot be used: {}", self.faults.join(", "));
        Err(vec![field::new(at, ErrorKind::TypeInvalid, Some(value), why)])
    }

    /// Values with defaults. Existing values keep their order; variables with a default that are not set follow, if
    /// `adds`.
    ///
    /// # Errors
    /// If a variable is not defined, or is set twice.
    pub fn default(
        &self,
        values: &[ClusterVariable],
        adds: bool,
        at: &str,
    ) -> Result<Vec<ClusterVariable>, Vec<FieldError>> {
        let set = index(values, at)?;
        self.refuse_faults(at)?;
        let mut errors = Vec::new();
        let mut defaulted = Vec::new();
        let given = values.iter().map(|variable| (variable.name.as_str(), Some(&variable.value.0)));
        let missing = self.names.iter().map(String::as_str).filter(|name| adds && !set.contains(name));
        for (name, value) in given.chain(missing.map(|name| (name, None))) {
            let at = field::entry(at, name);
            match self.by_name.get(name).map(|definition| &definition.schema) {
                None => errors.push(undefined(&at, value)),
                Some(Err(faults)) if value.is_some() => errors.push(unusable(&at, name, faults)),
                Some(Ok(schema)) if value.is_some() || schema.has_default() => {
                    let value = schema.default(value).into();
                    defaulted.push(ClusterVariable { name: name.to_string(), value });
                }
                Some(_) => {}
            }
        }
        if errors.is_empty() { Ok(defaulted) } else { Err(errors) }
    }

    /// All errors of values. `old` are the values that they replace.
    pub fn validate(
        &self,
        values: &[ClusterVariable],
        old: &[ClusterVariable],
        needs_required: bool,
        at: &str,
    ) -> Vec<FieldError> {
        let set = match index(values, at).and_then(|set| self.refuse_faults(at).map(|()| set)) {
            Ok(set) => set,
            Err(errors) => return errors,
        };
        let mut errors = Vec::new();
        for (name, definition) in &self.by_name {
            if needs_required && definition.required && !set.contains(name.as_str()) {
                errors.push(field::required(at, format!("the ClusterClass requires variable {name:?}")));
            }
        }
        for variable in values {
            let (name, value) = (variable.name.as_str(), &variable.value.0);
            let at = field::entry(at, name);
            match self.by_name.get(name).map(|definition| &definition.schema) {
                None => errors.push(undefined(&at, Some(value))),
                Some(Err(faults)) => errors.push(unusable(&at, name, faults)),
                Some(Ok(schema)) => {
                    let old = old.iter().find(|old| old.name == name).map(|old| &old.value.0);
                    errors.extend(schema.validate(value, old, &at));
                }
            }
        }
        errors
    }
}

/// The names of variables that are set.
fn index<'a>(values: &'a [ClusterVariable], at: &str) -> Result<BTreeSet<&'a str>, Vec<FieldError>> {
    let mut names = BTreeSet::new();
    let mut errors = Vec::new();
    for variable in values {
        if !names.insert(variable.name.as_str()) {
            let why = "a variable can be set once";
            errors.push(field::invalid(&field::entry(at, &variable.name), variable.value.0.to_string(), why));
        }
    }
    if errors.is_empty() { Ok(names) } else { Err(errors) }
}

fn undefined(at: &str, value: Option<&Value>) -> FieldError {
    field::invalid(
        at,
        value.map(ToString::to_string).unwrap_or_default(),
        "the ClusterClass does not define this variable",
    )
}

fn unusable(at: &str, name: &str, faults: &[FieldError]) -> FieldError {
    let why =
        format!("the ClusterClass has an invalid schema for variable {name:?}: {}", field::joined(faults));
    field::internal(at, why)
}
