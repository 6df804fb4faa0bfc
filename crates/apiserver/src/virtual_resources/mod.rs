//! Virtual resources, which store nothing: the response is computed from the posted object. Each function is part of one entry
//! of the registry. Requests take the same path as for every other resource.

pub(crate) mod access;
pub(crate) mod identity;
pub(crate) mod token_request;

use serde_json::Value;

use crate::{status::Result, verbs::Call};

/// Computes the response from the posted object, which is of the right kind and pruned.
pub(crate) type Handler = fn(&Call, Value) -> Result<Value>;

/// The strings of a list.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
