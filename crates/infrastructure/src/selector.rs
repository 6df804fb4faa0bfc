//! Label selectors for hosts. Pure.

use capstan_api::infrastructure::Host;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

/// An invalid selector, with its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidSelector {
    field: String,
    message: String,
}

/// Label selectors for hosts. Without any, every host matches.
#[derive(Default)]
pub struct HostSelectors(Vec<Selector>);

impl HostSelectors {
    /// Adds a selector. `field` is its path, for errors.
    ///
    /// # Errors
    /// If an operator is unknown or lacks its values.
    pub fn and(mut self, field: &str, selector: Option<&LabelSelector>) -> Result<Self, InvalidSelector> {
        if let Some(selector) = selector {
            let parsed = Selector::try_from(selector.clone())
                .map_err(|error| InvalidSelector { field: field.to_owned(), message: error.to_string() })?;
            self.0.push(parsed);
        }
        Ok(self)
    }

    /// Whether all selectors match this host.
    pub fn match_host(&self, host: &Host) -> bool {
        self.0.iter().all(|selector| selector.matches(host.labels()))
    }
}
