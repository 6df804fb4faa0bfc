//! IPAddressClaim: requests an address from an IPAM provider.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::IpPoolReference;
use crate::conditions::Condition;
use crate::core::{Deprecated, V1Beta1Conditions};
use crate::schema::{DNS_SUBDOMAIN, immutable};

/// The pool for the address. Immutable.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = immutable()))]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddressClaim",
    root = "IpAddressClaim",
    namespaced,
    status = "IpAddressClaimStatus",
    derive = "PartialEq",
    doc = "Asks for one IP address from a pool.",
    category = "cluster-api",
    printcolumn(
        name = "Pool Name",
        type_ = "string",
        json_path = ".spec.poolRef.name",
        description = "Name of the pool the address should come from"
    ),
    printcolumn(
        name = "Pool Kind",
        type_ = "string",
        json_path = ".spec.poolRef.kind",
        description = "Kind of the pool the address should come from"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct IpAddressClaimSpec {
    /// Name of the Cluster for which the address is requested.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: Option<String>,

    /// The pool for the address.
    pub pool_ref: IpPoolReference,
}

/// Observed state of the claim. Set by the IPAM provider.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct IpAddressClaimStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// The IPAddress that is assigned to the claim.
    pub address_ref: Option<IpAddressReference>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}

/// Reference to the IPAddress of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct IpAddressReference {
    /// Name of the IPAddress.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}
