//! Metadata: the `metadata.yaml` that is published with each release of a provider.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Contract versions of the releases of a provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "clusterctl.cluster.x-k8s.io",
    version = "v1alpha3",
    kind = "Metadata",
    plural = "metadata",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "What is to be known of a provider before one of its releases is installed."
)]
pub struct MetadataSpec {
    /// Release series of the provider, each with its contract version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release_series: Vec<ReleaseSeries>,
}

/// Releases with the same major and minor version.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(!deny_unknown_fields)]
pub struct ReleaseSeries {
    /// Major version. Default: 0.
    pub major: Option<i32>,

    /// Minor version. Default: 0.
    pub minor: Option<i32>,

    /// Contract version of the series, such as `v1beta2`.
    pub contract: Option<String>,
}

/// Why a `metadata.yaml` is invalid.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The file is not valid YAML, or has unknown fields.
    #[error("metadata.yaml does not have the expected form")]
    Form(#[from] serde_saphyr::Error),

    /// The file has another API version or another kind.
    #[error("metadata.yaml has {field} {found:?}, expected {expected:?}")]
    Type {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// Value in the file.
        found: String,
        /// Expected value.
        expected: String,
    },

    /// The file has no release series.
    #[error("metadata.yaml names no releaseSeries: at least the one of its own release must be there")]
    NoReleaseSeries,
}

impl Metadata {
    /// Parses a `metadata.yaml`. An unknown field is an error. Only `kind` may be missing, because the files of some
    /// providers do not have it.
    pub fn from_yaml(text: &str) -> Result<Self, MetadataError> {
        let file: File = serde_saphyr::from_str(text)?;
        let types = [
            ("apiVersion", file.api_version, Self::api_version(&())),
            ("kind", file.kind.unwrap_or_else(|| Self::kind(&()).into_owned()), Self::kind(&())),
        ];
        for (field, found, expected) in types {
            if found != expected {
                return Err(MetadataError::Type { field, found, expected: expected.into_owned() });
            }
        }
        if file.release_series.is_empty() {
            return Err(MetadataError::NoReleaseSeries);
        }
        let spec = MetadataSpec { release_series: file.release_series };
        Ok(Self { metadata: file.metadata, spec })
    }
}

/// The file. `metadata` is usually missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: Option<String>,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    release_series: Vec<ReleaseSeries>,
}
