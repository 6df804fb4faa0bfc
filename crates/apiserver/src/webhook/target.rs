//! The address of a webhook, from its `clientConfig`.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Uri;
use serde_json::Value;

use super::CallError;
use crate::{object, status::Cause};

/// A webhook's place and whom to trust there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    place: Place,
    /// PEM, or what somebody takes for it: it is read when the webhook is called. Empty means whom the operating system
    /// trusts.
    pub(super) authority: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Url(String),
    Service { namespace: String, name: String, path: String },
}

impl Target {
    /// Reads a `clientConfig` that has been validated; nothing if it has not.
    pub(crate) fn of(config: &Value) -> Option<Self> {
        let authority = STANDARD.decode(object::text(config, &["caBundle"])).ok()?;
        if let Some(url) = config.get("url").and_then(Value::as_str) {
            return Some(Self { place: Place::Url(url.to_owned()), authority });
        }
        let service = config.get("service")?;
        let text = |field: &str| object::text(service, &[field]).to_owned();
        let (namespace, name, path) = (text("namespace"), text("name"), text("path"));
        Some(Self { place: Place::Service { namespace, name, path }, authority })
    }

    /// The URL, and the name its certificate must have if it is another.
    pub(super) fn locate(
        &self,
        services: &BTreeMap<String, String>,
    ) -> Result<(String, Option<String>), CallError> {
        match &self.place {
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
}

/// What is wrong with a `clientConfig` at `path`. Not with whom it trusts: there are manifests in which something stands that
/// is no certificate, until somebody who makes certificates puts one in its place.
pub(crate) fn validate(config: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|service| !service.is_null());
    match (url, service) {
        (Some(url), None) => causes.extend(validate_url(url, &format!("{path}.url"))),
        (None, Some(service)) => causes.extend(validate_service(service, &format!("{path}.service"))),
        _ => causes.push(Cause::required(path, "exactly one of url or service is required")),
    }
    causes
}

fn validate_url(url: &str, path: &str) -> Vec<Cause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok(parsed) = url.parse::<Uri>() else {
        return vec![Cause::required(path, &format!("url must be a valid URL{FORM}"))];
    };
    let mut causes = Vec::new();
    let mut wrong = |value: &str, detail: &str| causes.push(Cause::invalid(path, &value.into(), detail));
    if parsed.scheme_str() != Some("https") {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        wrong(parsed.scheme_str().unwrap_or_default(), &detail);
    }
    match parsed.authority() {
        None => wrong("", &format!("host must be specified{FORM}")),
        Some(authority) => {
            if let Some((user, _)) = authority.as_str().split_once('@') {
                wrong(user, "user information is not permitted in the URL");
            }
        }
    }
    if let Some((_, fragment)) = url.split_once('#') {
        wrong(fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = parsed.query().filter(|query| !query.is_empty()) {
        wrong(query, "query parameters are not permitted in the URL");
    }
    causes
}

fn validate_service(service: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["name", "namespace"] {
        if object::text(service, &[field]).is_empty() {
            causes.push(Cause::required(format!("{path}.{field}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(format!("{path}.port"), &port.into(), detail));
    }
    let given = object::text(service, &["path"]);
    if !given.is_empty() && !given.starts_with('/') {
        causes.push(Cause::invalid(format!("{path}.path"), &given.into(), "must start with a '/'"));
    }
    causes
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
        let located = target.locate(&services).unwrap();
        assert_eq!(located, ("https://127.0.0.1:9/convert".to_owned(), Some("b.a.svc".to_owned())));
        let error = target.locate(&BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("--webhook-service a/b="), "{error}");
    }

    #[test]
    fn client_configs_say_where_and_nothing_else() {
        let wrong = |config: Value| {
            validate(&config, "c").iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
        };
        assert!(wrong(json!({"url": "https://a/b"})).is_empty());
        assert!(wrong(json!({"service": {"namespace": "a", "name": "b"}})).is_empty());
        assert_eq!(wrong(json!({})), ["c"]);
        assert_eq!(wrong(json!({"url": "https://a", "service": {}})), ["c"]);
        assert_eq!(wrong(json!({"url": "http://u@a/b?x=1"})), ["c.url", "c.url", "c.url"]);
        assert_eq!(
            wrong(json!({"service": {"path": "x", "port": 0}})),
            ["c.service.name", "c.service.namespace", "c.service.port", "c.service.path"]
        );
        // What stands in manifests until somebody makes a certificate; nothing that would let the webhook be forgotten.
        for placeholder in ["Cg==", "/w=="] {
            let config = json!({"url": "https://a", "caBundle": placeholder});
            assert_eq!(wrong(config.clone()), [""; 0]);
            let target = Target::of(&config).expect("a webhook that is asked");
            assert!(super::super::roots(&target.authority).is_err(), "and cannot be reached");
        }
    }
}
