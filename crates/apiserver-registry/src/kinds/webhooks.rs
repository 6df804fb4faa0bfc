//! Configurations of admission webhooks: their defaults and rules. Webhooks are not called here.

use serde_json::{Value, json};

use super::super::Rules;
use crate::{match_criteria::default_rules, webhook::configuration};

pub(crate) const WEBHOOK_CONFIGURATION: Rules = Rules {
    default,
    validate: |configuration, _| configuration::validate(configuration),
    generation: true,
    ..Rules::PLAIN
};

fn default(configuration: &mut Value) {
    let mutating = crate::object::kind(configuration) == "MutatingWebhookConfiguration";
    let hooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten() {
        let mut set = |field: &str, value: Value| {
            if hook.get(field).is_none_or(Value::is_null) && hook.is_object() {
                hook[field] = value;
            }
        };
        set("failurePolicy", "Fail".into());
        set("matchPolicy", "Equivalent".into());
        set("namespaceSelector", json!({}));
        set("objectSelector", json!({}));
        set("timeoutSeconds", 10.into());
        if mutating {
            set("reinvocationPolicy", "Never".into());
        }
        default_port(hook.get_mut("clientConfig"));
        default_rules(hook, "rules");
    }
}

/// The port of a service that a `clientConfig` names.
pub(crate) fn default_port(config: Option<&mut Value>) {
    let service = config.and_then(|config| config.get_mut("service")).filter(|service| service.is_object());
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service["port"] = 443.into();
    }
}
