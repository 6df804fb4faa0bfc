//! The manifests of Capstan's providers, generated from the API types and from data.
//!
//! This crate contains the five providers as clusterctl knows them, the manifests of each ([`components`]), the release
//! series ([`metadata`]), the cluster templates ([`templates`]), and a release as the files of a clusterctl repository
//! ([`repository`]).
//!
//! It must not contain I/O, clocks, or the permissions of controllers, which are beside the types
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

/// Repository of the manager's container image; the tag is the version.
pub const IMAGE: &str = "ghcr.io/capstan-dev/capstan";
