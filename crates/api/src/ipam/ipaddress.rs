//! IPAddress: an address that an IPAM provider has assigned to a claim.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::IpPoolReference;
use crate::schema::{DNS_SUBDOMAIN, cel};

/// The address and its network. Immutable.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel([
    ("self == oldSelf", "an IPAddress cannot be changed; claim another address instead"),
    (
        "self.prefix <= 32 || self.address.contains(':')",
        "prefix of an IPv4 address must be between 0 and 32",
    ),
])))]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddress",
    root = "IpAddress",
    namespaced,
    derive = "PartialEq",
    doc = "An IP address that was given to an IPAddressClaim.",
    category = "cluster-api",
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address", description = "Address"),
    printcolumn(
        name = "Pool Name",
        type_ = "string",
        json_path = ".spec.poolRef.name",
        description = "Name of the pool the address is from"
    ),
    printcolumn(
        name = "Pool Kind",
        type_ = "string",
        json_path = ".spec.poolRef.kind",
        description = "Kind of the pool the address is from"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct IpAddressSpec {
    /// The claim to which the address is assigned.
    pub claim_ref: IpAddressClaimReference,

    /// The pool of the address; the same as in the claim.
    pub pool_ref: IpPoolReference,

    /// The IPv4 or IPv6 address.
    #[schemars(length(min = 1, max = 39), extend("x-kubernetes-validations" = ip_address()))]
    pub address: String,

    /// Length of the network prefix, in bits.
    #[schemars(range(min = 0, max = 128))]
    pub prefix: i32,

    /// Address of the gateway.
    #[schemars(length(min = 1, max = 39), extend("x-kubernetes-validations" = ip_address()))]
    pub gateway: Option<String>,
}

/// Reference to the claim of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct IpAddressClaimReference {
    /// Name of the IPAddressClaim.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// CEL rule: an address that Go's `netip` can parse. `isIP` is stricter: it rejects zones and IPv4-mapped IPv6
/// addresses.
fn ip_address() -> serde_json::Value {
    cel([(
        "isIP(self) || (self.matches('^[^%]*:[^%]*%.') && isIP(self.split('%', 2)[0])) || \
         self.matches('^[0-9A-Fa-f:]*:[Ff]{4}:[0-9A-Fa-f:.]+$')",
        "must be an IPv4 or IPv6 address, such as 192.0.2.7 or 2001:db8::7",
    )])
}
