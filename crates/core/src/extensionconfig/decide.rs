//! Which Secret holds the CA bundle of an extension. Pure.

use capstan_api::runtime::ExtensionConfig;
use capstan_api::runtime::annotations::INJECT_CA_FROM_SECRET;
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;

/// Namespace and name of a Secret.
pub(super) type SecretName = (String, String);

/// The Secret with the CA bundle, if the ExtensionConfig names one.
pub(super) fn secret_of(config: &ExtensionConfig) -> Result<Option<SecretName>> {
    let Some(named) = config.annotations().get(INJECT_CA_FROM_SECRET) else { return Ok(None) };
    match named.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Some((namespace.to_owned(), name.to_owned())))
        }
        _ => {
            let field = format!("ExtensionConfig {} annotation {INJECT_CA_FROM_SECRET}", config.name_any());
            Err(Error::user(field, "must be a namespace and a name with a slash between"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_named_with_its_namespace() {
        let config = |named: Option<&str>| -> ExtensionConfig {
            let mut object = json!({
                "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
                "metadata": {"name": "e", "annotations": {}}, "spec": {"clientConfig": {"url": "https://a"}},
            });
            if let Some(named) = named {
                object["metadata"]["annotations"][INJECT_CA_FROM_SECRET] = json!(named);
            }
            serde_json::from_value(object).expect("a test value")
        };
        assert_eq!(secret_of(&config(None)).expect("valid"), None);
        let named = secret_of(&config(Some("n/s"))).expect("valid");
        assert_eq!(named, Some(("n".to_owned(), "s".to_owned())));
        for wrong in ["", "s", "/s", "n/"] {
            assert!(secret_of(&config(Some(wrong))).is_err(), "{wrong:?}");
        }
    }
}
