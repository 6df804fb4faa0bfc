//! Resources that keep nothing: what is posted is answered and forgotten. Each function here stands in one
//! entry of the registry; the way to it is the same as to every other resource.

pub(crate) mod access;
pub(crate) mod identity;
pub(crate) mod token_request;

use serde_json::Value;

use crate::{status::Result, verbs::Call};

/// Answers what was posted: pruned, and of the right kind.
pub(crate) type Answer = fn(&Call, Value) -> Result<Value>;

/// The texts of a list.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
