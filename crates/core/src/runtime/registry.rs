//! The extensions that serve a hook, from the ExtensionConfigs. Pure.

use capstan_api::conditions::get;
use capstan_api::meta::annotations;
use capstan_api::runtime::conditions::DISCOVERED;
use capstan_api::runtime::{ClientConfig, ExtensionConfig, FailurePolicy, hooks};
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A handler of an extension, and how to call it.
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    /// Name of the handler, followed by that of the ExtensionConfig.
    pub name: String,
    pub(super) extension: String,
    /// UID and generation of the ExtensionConfig.
    pub(super) uid: Option<String>,
    pub(super) generation: Option<i64>,
    pub(super) client_config: ClientConfig,
    pub(super) timeout: Duration,
    /// Whether a failed call is treated as if there were no extension.
    pub(super) is_optional: bool,
    pub(super) settings: BTreeMap<String, String>,
}

impl Handler {
    /// The name by which the extension itself knows it.
    pub(super) fn own_name(&self) -> &str {
        self.name.strip_suffix(&format!(".{}", self.extension)).unwrap_or(&self.name)
    }
}

/// An extension that may serve the hook or not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ExtensionConfig {name} has not said yet what it serves: {why}")]
pub(super) struct Unknown {
    name: String,
    why: String,
}

/// Whether labels of the namespace are needed to know what the ExtensionConfig is for.
pub(super) fn selects_by_label(config: &ExtensionConfig) -> bool {
    selector(config).is_ok_and(|selector| !selector.selects_all())
}

/// The handlers of a hook for a namespace with these labels, by name.
///
/// The last discovery of an extension counts until the next one succeeds, also while the extension cannot be reached.
/// An extension that was never discovered may serve the hook, so the caller must wait for it.
pub(super) fn serving(
    configs: &[Arc<ExtensionConfig>],
    hook: &str,
    namespace: &BTreeMap<String, String>,
) -> Result<Vec<Handler>, Unknown> {
    let mut handlers = vec![];
    let configs = configs.iter().map(|config| &**config);
    for config in configs.filter(|config| config.metadata.deletion_timestamp.is_none()) {
        let name = config.name_any();
        let unknown = |why: &str| Unknown { name: name.clone(), why: why.to_owned() };
        let selector = selector(config).map_err(|why| unknown(&why))?;
        if !selector.matches(namespace) {
            continue;
        }
        let status = config.status.clone().unwrap_or_default();
        let discovered = get(config, DISCOVERED);
        if discovered.is_none_or(|condition| condition.status.to_string() != "True")
            && status.handlers.is_empty()
        {
            let is_paused = config.annotations().contains_key(annotations::PAUSED);
            let why = if is_paused { "it is paused" } else { "core has not called its discovery hook yet" };
            let condition = discovered
                .map(|condition| condition.message.as_str())
                .filter(|condition| !condition.is_empty());
            return Err(unknown(condition.unwrap_or(why)));
        }
        let of_hook = status.handlers.into_iter().filter(|handler| {
            let group = handler.request_hook.api_version.split_once('/').map(|(group, _)| group);
            handler.request_hook.hook == hook && group == Some(hooks::GROUP)
        });
        handlers.extend(of_hook.map(|handler| Handler {
            extension: name.clone(),
            uid: config.uid(),
            generation: config.metadata.generation,
            client_config: config.spec.client_config.clone(),
            timeout: timeout(handler.timeout_seconds),
            is_optional: handler.failure_policy == Some(FailurePolicy::Ignore),
            settings: config.spec.settings.clone(),
            name: handler.name,
        }));
    }
    handlers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(handlers)
}

fn selector(config: &ExtensionConfig) -> Result<Selector, String> {
    let selector = config.spec.namespace_selector.clone().unwrap_or_default();
    Selector::try_from(selector).map_err(|problem| format!("spec.namespaceSelector: {problem}"))
}

fn timeout(seconds: Option<i32>) -> Duration {
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(hooks::DEFAULT_TIMEOUT_SECONDS);
    Duration::from_secs(seconds.unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn config(name: &str, fields: &Value) -> ExtensionConfig {
        let mut value = json!({
            "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
            "metadata": {"name": name},
            "spec": {"clientConfig": {"url": "https://a"}, "settings": {"a": "b"}},
        });
        crate::machineset::fixtures::merge(&mut value, fields);
        serde_json::from_value(value).expect("a test value")
    }

    fn handler(name: &str, hook: &str) -> Value {
        json!({"name": name, "requestHook":
            {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook}})
    }

    fn discovered(status: &str, handlers: &[Value]) -> Value {
        json!({"status": {"handlers": handlers, "conditions": [{"type": "Discovered", "status": status,
            "reason": "R", "message": "m", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}})
    }

    fn names(configs: &[ExtensionConfig], labels: &[(&str, &str)]) -> Result<Vec<String>, Unknown> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let configs: Vec<_> = configs.iter().cloned().map(Arc::new).collect();
        let handlers = serving(&configs, "UpdateMachine", &labels)?;
        Ok(handlers.into_iter().map(|handler| handler.name).collect())
    }

    #[test]
    fn handlers_are_found_by_hook_and_namespace() {
        let update = handler("update.one", "UpdateMachine");
        let one = config("one", &discovered("True", &[update.clone(), handler("x.one", "Other")]));
        assert_eq!(names(std::slice::from_ref(&one), &[]).expect("known"), ["update.one"]);
        let mut selecting = discovered("True", &[handler("update.two", "UpdateMachine")]);
        selecting["spec"] = json!({"namespaceSelector": {"matchLabels": {"team": "shop"}}});
        let two = config("two", &selecting);
        let both = [two, one.clone()];
        assert_eq!(names(&both, &[]).expect("known"), ["update.one"]);
        assert_eq!(names(&both, &[("team", "shop")]).expect("known"), ["update.one", "update.two"]);
        let mut leaving = one;
        leaving.metadata.deletion_timestamp = Some(crate::machineset::fixtures::at(0));
        assert!(names(&[leaving], &[]).expect("known").is_empty());
        // What it said once counts while it cannot be reached.
        let lost = config("one", &discovered("False", &[update]));
        assert_eq!(names(&[lost], &[]).expect("known"), ["update.one"]);
    }

    #[test]
    fn nobody_goes_on_without_one_that_might_be_asked() {
        for fields in [json!({}), discovered("False", &[])] {
            assert!(names(&[config("one", &fields)], &[]).is_err(), "{fields}");
        }
        assert!(names(&[config("one", &discovered("True", &[]))], &[]).expect("known").is_empty());
        let elsewhere = json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "shop"}}}});
        assert!(names(&[config("one", &elsewhere)], &[]).expect("known").is_empty());
    }

    #[test]
    fn a_handler_says_how_it_is_called() {
        let mut declared = handler("update.one", "UpdateMachine");
        declared["timeoutSeconds"] = json!(25);
        declared["failurePolicy"] = json!("Ignore");
        let one = config("one", &discovered("True", &[declared]));
        let found = serving(&[Arc::new(one)], "UpdateMachine", &BTreeMap::new()).expect("known").remove(0);
        assert_eq!(found.own_name(), "update");
        assert_eq!((found.timeout, found.is_optional), (Duration::from_secs(25), true));
        assert_eq!(found.settings["a"], "b");
        assert_eq!(timeout(None), Duration::from_secs(10));
    }
}
