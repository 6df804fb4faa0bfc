//! The HTTP proxy of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::infrastructure::SecretReference;
use crate::schema::cel;

/// The HTTP proxy through which a machine reaches servers outside of its network.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "has(self.httpProxy) || has(self.httpsProxy)",
        "set httpProxy, httpsProxy or both",
    )])
))]
pub struct Proxy {
    /// Proxy for requests over HTTP, as `http://HOST[:PORT]`. Credentials are not part of it: see `credentialsRef`. Default: none.
    #[schemars(
        length(min = 8, max = 512),
        regex(pattern = r"^http://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?$")
    )]
    pub http_proxy: Option<String>,

    /// Proxy for requests over HTTPS, as `http://HOST[:PORT]`, also for downloads by the agent. Credentials are not part of it: see
    /// `credentialsRef`. Default: none.
    #[schemars(
        length(min = 8, max = 512),
        regex(pattern = r"^http://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?$")
    )]
    pub https_proxy: Option<String>,

    /// Servers that are reached directly: names, domains (`.example.com`), addresses and CIDR blocks, or `*` for all. The machine
    /// itself, the pods, the Services and the endpoint of the cluster are always among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        inner(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9.*:/_\[\]-]+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub no_proxy: Vec<String>,

    /// Secret in the same namespace with the credentials for both proxies, in the keys `username` and `password`. Default: none.
    pub credentials_ref: Option<SecretReference>,
}
