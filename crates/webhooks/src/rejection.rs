//! Rejections as the Status of an API server.

use capstan_admission::{Kind, Rejection};
use serde_json::{Value, json};

/// The Status for a rejected write, as upstream's webhooks return it.
pub fn status(kind: Kind, name: &str, rejection: &Rejection) -> Value {
    let (code, reason, message, causes) = match rejection {
        Rejection::Invalid(errors) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let texts =
                if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
            let causes = errors
                .iter()
                .map(|error| json!({"reason": error.reason(), "message": error.body(), "field": error.path}));
            let message = format!("{}.{} {name:?} is invalid: {texts}", kind.name(), kind.group());
            (422, "Invalid", message, causes.collect())
        }
        Rejection::Forbidden(why) => {
            let resource = format!("{}.{}", kind.plural(), kind.group());
            (403, "Forbidden", format!("{resource} {name:?} is forbidden: {why}"), Vec::new())
        }
        Rejection::Unknown(why) => {
            (500, "InternalError", format!("Internal error occurred: {why}"), Vec::new())
        }
    };
    let mut details = json!({"name": name, "group": kind.group(), "kind": kind.name()});
    if !causes.is_empty() {
        details["causes"] = Value::Array(causes);
    }
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    })
}
