//! The address of a webhook: a URL, or a Service that the server was opened with a URL for.

use std::collections::BTreeMap;

use super::CallError;
use crate::registry::webhook::{Place, Target};

/// The URL, and the name its certificate must have if it is another.
pub(super) fn locate(
    target: &Target,
    services: &BTreeMap<String, String>,
) -> Result<(String, Option<String>), CallError> {
    match &target.place {
        Place::Url(url) => Ok((url.clone(), None)),
        Place::Service { namespace, name, path } => {
            let key = format!("{namespace}/{name}");
            let base = services.get(&key).ok_or(CallError::NoAddress(key))?;
            let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
            let url = format!("{}{slash}{path}", base.trim_end_matches('/'));
            Ok((url, Some(format!("{name}.{namespace}.svc"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_reached_by_its_url_and_known_by_its_name() {
        let config = json!({"service": {"namespace": "a", "name": "b", "path": "/convert"}});
        let target = Target::of(&config).unwrap();
        let services = BTreeMap::from([("a/b".to_owned(), "https://127.0.0.1:9/".to_owned())]);
        let located = locate(&target, &services).unwrap();
        assert_eq!(located, ("https://127.0.0.1:9/convert".to_owned(), Some("b.a.svc".to_owned())));
        let error = locate(&target, &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("--webhook-service a/b="), "{error}");
    }

    #[test]
    fn a_placeholder_for_a_certificate_cannot_be_reached() {
        for placeholder in ["Cg==", "/w=="] {
            let target = Target::of(&json!({"url": "https://a", "caBundle": placeholder})).unwrap();
            assert!(super::super::roots(&target.authority).is_err());
        }
    }
}
