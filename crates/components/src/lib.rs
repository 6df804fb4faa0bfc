//! What is installed for each provider of Capstan, made from the types and from data.
//!
//! What lives here: the five providers as clusterctl knows them, the manifests of each ([`components`]), the series of
//! releases there have been ([`metadata`]), the templates of clusters ([`templates`]), and a release as the files of a
//! repository that clusterctl reads ([`repository`]).
//!
//! What must not live here: I/O, clocks, and the rights of controllers, which stand beside the types
//! (`capstan_api::access`). The same version always gives the same bytes.

mod certificates;
mod config;
mod objects;
mod provider;
mod repository;
mod series;
mod templates;
mod version;
mod yaml;

pub use config::clusterctl_config;
pub use objects::{Options, components};
pub use provider::{Provider, providers};
pub use repository::{ReleaseFile, repository};
pub use series::{metadata, serves};
pub use templates::{ClusterTemplate, access_bindings, templates};
pub use version::{Version, VersionError};
pub use yaml::to_yaml;

/// Where the image of the manager is published; its tag is the version.
pub const IMAGE: &str = "ghcr.io/capstan-dev/capstan";
