//! The kinds of `ipam.cluster.x-k8s.io/v1beta2`, with which a provider requests and receives an IP address.

mod ipaddress;
mod ipaddressclaim;

pub use ipaddress::*;
pub use ipaddressclaim::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{DNS_SUBDOMAIN, KIND};

/// Reference to the pool of an address. The kind of the pool belongs to an IPAM provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolReference {
    /// Name of the pool.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Kind of the pool.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// API group of the pool, without a version.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub api_group: String,
}

crate::status_conditions!(IpAddressClaimStatus);
