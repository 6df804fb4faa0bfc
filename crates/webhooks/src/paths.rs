//! The paths of the webhooks, and the configurations that name them.

use capstan_admission::kind::VERSION;
use capstan_admission::{Kind, Operation};
use serde_json::{Value, json};

/// Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration.
pub const CONFIGURATION: &str = "capstan-admission";

/// What a webhook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sets defaults.
    Default,
    /// Checks rules.
    Validate,
}

impl Phase {
    const ALL: [Self; 2] = [Self::Default, Self::Validate];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Validate => "validate",
        }
    }

    /// The operations of a kind for which the webhook is called.
    pub fn operations(self, kind: Kind) -> &'static [Operation] {
        match self {
            Self::Default => kind.defaulted(),
            Self::Validate => kind.validated(),
        }
    }

    /// The kind of its configuration.
    pub const fn configuration(self) -> &'static str {
        match self {
            Self::Default => "MutatingWebhookConfiguration",
            Self::Validate => "ValidatingWebhookConfiguration",
        }
    }
}

/// The path of the webhook for a kind, such as `/default-cluster-x-k8s-io-v1beta2-machine`.
pub fn path(phase: Phase, kind: Kind) -> String {
    let group = kind.group().replace('.', "-");
    format!("/{}-{group}-{VERSION}-{}", phase.as_str(), kind.name().to_lowercase())
}

/// The webhook with a path.
pub(crate) fn find(asked: &str) -> Option<(Phase, Kind)> {
    let all = Phase::ALL.into_iter().flat_map(|phase| Kind::ALL.map(|kind| (phase, kind)));
    all.into_iter()
        .filter(|(phase, kind)| !phase.operations(*kind).is_empty())
        .find(|(phase, kind)| path(*phase, *kind) == asked)
}

/// Where an API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// By a URL without a path.
    Url(String),
    /// By a Service of the cluster.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
        /// Port of the Service.
        port: u16,
    },
}

impl Reached {
    /// The names or addresses that the serving certificate must have.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Url(url) => {
                let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(ToOwned::to_owned));
                host.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned())
                    .into_iter()
                    .collect()
            }
            Self::Service { namespace, name, .. } => vec![format!("{name}.{namespace}.svc")],
        }
    }

    /// `clientConfig` of the webhook with a path.
    pub(crate) fn client_config(&self, path: &str, bundle: Option<&str>) -> Value {
        let mut config = match self {
            Self::Url(url) => json!({"url": format!("{url}{path}")}),
            Self::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
            }
        };
        if let Some(bundle) = bundle {
            use base64::Engine as _;
            config["caBundle"] = base64::prelude::BASE64_STANDARD.encode(bundle).into();
        }
        config
    }
}

/// The configuration of all webhooks of a phase. Failure policy and the rest are those of upstream.
pub fn configuration(phase: Phase, reached: &Reached, bundle: Option<&str>) -> Value {
    let webhook = |kind: Kind| {
        let operations: Vec<&str> =
            phase.operations(kind).iter().map(|operation| operation.as_str()).collect();
        json!({
            "name": format!("{}.{}.{}", phase.as_str(), kind.name().to_lowercase(), kind.group()),
            "clientConfig": reached.client_config(&path(phase, kind), bundle),
            "rules": [{
                "apiGroups": [kind.group()],
                "apiVersions": [VERSION],
                "operations": operations,
                "resources": [kind.plural()],
                "scope": "*",
            }],
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 10,
        })
    };
    let kinds = Kind::ALL.into_iter().filter(|kind| !phase.operations(*kind).is_empty());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": phase.configuration(),
        "metadata": {"name": CONFIGURATION},
        "webhooks": kinds.map(webhook).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_webhook_of_a_configuration_is_served() {
        let reached = Reached::Url("https://[::1]:9443".to_owned());
        assert_eq!(reached.hosts(), ["::1"]);
        let mut found = 0;
        for phase in Phase::ALL {
            let configuration = configuration(phase, &reached, Some("pem"));
            for webhook in configuration["webhooks"].as_array().expect("webhooks") {
                let url = webhook["clientConfig"]["url"].as_str().expect("a URL");
                let path = url.strip_prefix("https://[::1]:9443").expect("our URL");
                let (of, kind) = find(path).expect(path);
                assert_eq!((of, &webhook["rules"][0]["resources"][0]), (phase, &json!(kind.plural())));
                assert_eq!(webhook["clientConfig"]["caBundle"], "cGVt");
                found += 1;
            }
        }
        assert_eq!(found, 18);
        assert_eq!(find("/default-cluster-x-k8s-io-v1beta2-clusterclass"), None, "it has no defaults");
        assert_eq!(find("/validate"), None);
    }

    #[test]
    fn a_service_is_named_as_the_certificate_names_it() {
        let reached = Reached::Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 };
        assert_eq!(reached.hosts(), ["s.n.svc"]);
        let config = reached.client_config("/x", None);
        assert_eq!(config, json!({"service": {"namespace": "n", "name": "s", "port": 443, "path": "/x"}}));
    }
}
