//! The address of a webhook, from its `clientConfig`.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::url::Url;
use crate::{object, status::Cause};

/// A webhook's place and whom to trust there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub place: Place,
    /// PEM, or what the client takes for it: it is read when the webhook is called. Empty means whom the operating system
    /// trusts.
    pub authority: Vec<u8>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a URL.
    Url(String),
    /// At a Service, which is looked up in a map: there is no cluster network.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The path of the URL there.
        path: String,
    },
}

impl Target {
    /// Reads a `clientConfig` that has been validated; nothing if it has not.
    pub fn of(config: &Value) -> Option<Self> {
        let authority = STANDARD.decode(object::text(config, &["caBundle"])).ok()?;
        if let Some(url) = config.get("url").and_then(Value::as_str) {
            return Some(Self { place: Place::Url(url.to_owned()), authority });
        }
        let service = config.get("service")?;
        let text = |field: &str| object::text(service, &[field]).to_owned();
        let (namespace, name, path) = (text("namespace"), text("name"), text("path"));
        Some(Self { place: Place::Service { namespace, name, path }, authority })
    }
}

/// What is wrong with a `clientConfig` at `path`. Not with whom it trusts: there are manifests in which something stands that
/// is no certificate, until somebody who makes certificates puts one in its place.
pub(super) fn validate(config: &Value, path: &str) -> Vec<Cause> {
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
    let Some(parsed) = Url::parse(url) else {
        return vec![Cause::required(path, &format!("url must be a valid URL{FORM}"))];
    };
    let mut causes = Vec::new();
    let mut wrong = |value: &str, detail: &str| causes.push(Cause::invalid(path, &value.into(), detail));
    if parsed.scheme != Some("https") {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        wrong(parsed.scheme.unwrap_or_default(), &detail);
    }
    match parsed.authority {
        None => wrong("", &format!("host must be specified{FORM}")),
        Some(authority) => {
            if let Some((user, _)) = authority.split_once('@') {
                wrong(user, "user information is not permitted in the URL");
            }
        }
    }
    if let Some((_, fragment)) = url.split_once('#') {
        wrong(fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = parsed.query.filter(|query| !query.is_empty()) {
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
            assert!(Target::of(&config).is_some(), "a webhook that is asked");
        }
    }
}
