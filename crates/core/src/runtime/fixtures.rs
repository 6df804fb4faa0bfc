//! Handlers for tests.

use serde_json::json;
use std::time::Duration;

use super::Handler;

/// A handler of an extension whose ExtensionConfig has this address and generation.
pub(crate) fn handler(extension: &str, url: &str, generation: i64) -> Handler {
    Handler {
        name: format!("update.{extension}"),
        extension: extension.to_owned(),
        uid: Some("u".to_owned()),
        generation: Some(generation),
        client_config: serde_json::from_value(json!({ "url": url })).expect("a client config"),
        timeout: Duration::from_secs(1),
        is_optional: false,
        settings: [("a".to_owned(), "b".to_owned())].into(),
    }
}
