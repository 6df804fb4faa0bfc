//! Where a hook of an extension is reached. Pure.

use capstan_api::runtime::ClientConfig;
use capstan_api::runtime::hooks;
use http::Uri;

use super::CallError;

/// Host, port and path of one hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
}

impl Target {
    /// As the `Host` header gives it.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The target of a hook, and of one handler of it unless there is only one.
pub(super) fn of(config: &ClientConfig, hook: &str, handler: Option<&str>) -> Result<Target, CallError> {
    let hook = hooks::path(hook, handler);
    let below = |base: &str| format!("{}{hook}", base.trim_end_matches('/'));
    if let Some(service) = &config.service {
        let port = service.port.map_or(Ok(443), u16::try_from);
        return Ok(Target {
            host: format!("{}.{}.svc", service.name, service.namespace),
            port: port
                .map_err(|_| wrong("spec.clientConfig.service.port: must be a number from 1 to 65535"))?,
            path: below(service.path.as_deref().unwrap_or_default()),
        });
    }
    let url = config.url.as_deref().ok_or_else(|| wrong("spec.clientConfig: set url or service"))?;
    let url: Uri = url.parse().map_err(|_| wrong("spec.clientConfig.url: is not a URL"))?;
    if url.scheme_str() != Some("https") {
        return Err(wrong("spec.clientConfig.url: must begin with https://"));
    }
    let host = url.host().ok_or_else(|| wrong("spec.clientConfig.url: names no host"))?;
    Ok(Target {
        host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: url.port_u16().unwrap_or(443),
        path: below(url.path()),
    })
}

fn wrong(what: &str) -> CallError {
    CallError::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn urls_and_services_lead_to_the_hook() {
        let end = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update";
        for (config, host, port, path, authority) in [
            (json!({"url": "https://a.example"}), "a.example", 443, "", "a.example:443"),
            (json!({"url": "https://127.0.0.1:9443/base/"}), "127.0.0.1", 9443, "/base", "127.0.0.1:9443"),
            (json!({"url": "https://[::1]:9443"}), "::1", 9443, "", "[::1]:9443"),
            (json!({"service": {"namespace": "n", "name": "s"}}), "s.n.svc", 443, "", "s.n.svc:443"),
            (
                json!({"service": {"namespace": "n", "name": "s", "port": 8443, "path": "/x"}}),
                "s.n.svc",
                8443,
                "/x",
                "s.n.svc:8443",
            ),
        ] {
            let target = of(&config_of(&config), "UpdateMachine", Some("update")).expect("an address");
            assert_eq!((target.host.as_str(), target.port), (host, port), "{config}");
            assert_eq!(target.path, format!("{path}{end}"), "{config}");
            assert_eq!(target.authority(), authority);
        }
        let discovery = of(&config_of(&json!({"url": "https://a"})), "Discovery", None).expect("an address");
        assert_eq!(discovery.path, "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery");
    }

    #[test]
    fn an_unusable_address_is_reported_with_its_field() {
        for (config, field) in [
            (json!({}), "spec.clientConfig:"),
            (json!({"url": "http://a"}), "spec.clientConfig.url:"),
            (json!({"url": "a b"}), "spec.clientConfig.url:"),
            (json!({"service": {"namespace": "n", "name": "s", "port": 99_999}}), "service.port"),
        ] {
            let error = of(&config_of(&config), "Discovery", None).expect_err("no address");
            assert!(error.to_string().contains(field), "{config}: {error}");
        }
    }

    fn config_of(value: &Value) -> ClientConfig {
        serde_json::from_value(value.clone()).expect("a test value")
    }
}
