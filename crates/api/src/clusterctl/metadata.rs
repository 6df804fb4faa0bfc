//! Metadata: the `metadata.yaml` that is published with each release of a provider.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Which versions of the contract the releases of a provider speak.
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
    /// The release series of the provider, each with the contract it speaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release_series: Vec<ReleaseSeries>,
}

/// The releases that share a major and a minor version.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(!deny_unknown_fields)]
pub struct ReleaseSeries {
    /// Major version. 0 when unset.
    pub major: Option<i32>,

    /// Minor version. 0 when unset.
    pub minor: Option<i32>,

    /// Version of the contract that the series speaks, such as `v1beta2`.
    pub contract: Option<String>,
}

/// Why a `metadata.yaml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// It is not YAML, or has fields that do not belong there.
    #[error("metadata.yaml does not have the expected form")]
    Form(#[from] serde_saphyr::Error),

    /// It is written in another version, or is something else altogether.
    #[error("metadata.yaml has {field} {found:?}, expected {expected:?}")]
    Type {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What the file says.
        found: String,
        /// What it should say.
        expected: String,
    },

    /// It names no release series.
    #[error("metadata.yaml names no releaseSeries: at least the one of its own release must be there")]
    NoReleaseSeries,
}

impl Metadata {
    /// Reads the text of a `metadata.yaml`. Strict: a field that does not belong there is an error. Only
    /// `kind` may be missing, as it is in the files of some providers.
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

/// The file, in which `metadata` is usually missing.
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
