//! Formats objects as YAML.

use serde_json::Value;

/// Formats objects as a stream of YAML documents.
pub fn to_yaml(objects: &[Value]) -> String {
    // What has been JSON can always be YAML.
    let document = |object| format!("---\n{}", serde_saphyr::to_string(object).unwrap_or_default());
    objects.iter().map(document).collect()
}
