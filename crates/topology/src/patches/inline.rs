//! JSON patches of inline definitions.

use super::engine::{Generated, Item};
use super::{PatchFailure, PatchFault, lookup, selector};
use crate::gotemplate::{self, Data};
use crate::variables::{Variables, merge};
use capstan_api::core::{ClusterClassPatch, JsonPatch, JsonPatchOp, PatchDefinition};
use serde_json::{Map, Value};

/// The patches of all items, in the order in which they are applied.
///
/// # Errors
/// If a template fails or a variable does not exist. Nothing is patched then.
pub(super) fn generate(
    patch: &ClusterClassPatch,
    items: &[Item],
    global: &Variables,
) -> Result<Vec<Generated>, PatchFailure> {
    let mut generated = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let fail = |why| PatchFailure { patch: patch.name.clone(), template: Some(item.to_string()), why };
        let definitions: Vec<(usize, &PatchDefinition)> = patch
            .definitions
            .iter()
            .enumerate()
            .filter(|(_, definition)| selector::matches(&definition.selector, item))
            .collect();
        if definitions.is_empty() {
            continue;
        }
        let source = Source::new(merge(global, &item.variables));
        if !source.enables(patch).map_err(fail)? {
            continue;
        }
        for (definition, of) in definitions {
            let operations = of
                .json_patches
                .iter()
                .enumerate()
                .map(|(operation, json_patch)| source.operation(json_patch, definition, operation));
            let operations: Vec<Value> = operations.collect::<Result<_, _>>().map_err(fail)?;
            generated.push(Generated { item: i, patch: Value::Array(operations), is_merge: false });
        }
    }
    Ok(generated)
}

/// Where values come from.
struct Source {
    variables: Variables,
    data: Data,
}

impl Source {
    fn new(variables: Variables) -> Source {
        let all = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
        let data = Data::new(&Value::Object(all.collect::<Map<_, _>>()));
        Source { variables, data }
    }

    /// A patch without a condition is enabled; with one, if it renders to the YAML value true.
    fn enables(&self, patch: &ClusterClassPatch) -> Result<bool, PatchFault> {
        let Some(condition) = patch.enabled_if.as_deref().filter(|condition| !condition.is_empty()) else {
            return Ok(true);
        };
        let value = gotemplate::value(condition, &self.data).map_err(PatchFault::EnabledIf)?;
        Ok(value == Value::Bool(true))
    }

    fn operation(
        &self,
        written: &JsonPatch,
        definition: usize,
        operation: usize,
    ) -> Result<Value, PatchFault> {
        let op = match written.op {
            JsonPatchOp::Add => "add",
            JsonPatchOp::Replace => "replace",
            JsonPatchOp::Remove => "remove",
        };
        let mut step = Map::from_iter([
            ("op".to_string(), Value::from(op)),
            ("path".to_string(), Value::from(written.path.as_str())),
        ]);
        if written.op != JsonPatchOp::Remove {
            step.insert("value".to_string(), self.value(written, definition, operation)?);
        }
        Ok(Value::Object(step))
    }

    fn value(&self, written: &JsonPatch, definition: usize, operation: usize) -> Result<Value, PatchFault> {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let from = written.value_from.as_ref();
        let variable = from.and_then(|from| set(&from.variable));
        let template = from.and_then(|from| set(&from.template));
        match (&written.value, from, variable, template) {
            (Some(value), None, ..) => Ok(value.0.clone()),
            (None, Some(_), Some(path), None) => lookup(&self.variables, &path)
                .cloned()
                .map_err(|why| PatchFault::Variable { definition, operation, why }),
            (None, Some(_), None, Some(template)) => gotemplate::value(&template, &self.data)
                .map_err(|why| PatchFault::Template { definition, operation, why }),
            _ => Err(PatchFault::Source { definition, operation }),
        }
    }
}
