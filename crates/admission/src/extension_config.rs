//! ExtensionConfigs.

use crate::{object, selector};
use capstan_topology::FieldError;
use serde_json::{Map, Value};

/// The port of a Service that names none.
const HTTPS: i32 = 443;

pub(crate) fn default(config: &mut Value) -> Vec<FieldError> {
    object::set_default(config, &["spec"], "namespaceSelector", Value::Object(Map::new()));
    let service = ["spec", "clientConfig", "service"];
    if object::at(config, &service).is_some() {
        object::set_default(config, &service, "port", HTTPS);
    }
    Vec::new()
}

pub(crate) fn validate(config: &Value) -> Vec<FieldError> {
    let path = ["spec", "namespaceSelector"];
    selector::errors(&selector::read(config, &path), &path.join("."))
}
