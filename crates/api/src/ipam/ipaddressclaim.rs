//! IPAddressClaim: asks an IPAM provider for an address.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::IpPoolReference;
use crate::conditions::Condition;
use crate::core::{Deprecated, V1Beta1Conditions};
use crate::schema::{DNS_SUBDOMAIN, immutable};

/// From where the address should come. Cannot be changed.
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
    /// Name of the Cluster the address is for.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: Option<String>,

    /// The pool the address should come from.
    pub pool_ref: IpPoolReference,
}

/// What became of the claim.
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

    /// The IPAddress that answers the claim.
    pub address_ref: Option<IpAddressReference>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}

/// Names the address that answers a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct IpAddressReference {
    /// Name of the IPAddress.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}
