//! The source of the content of pages.

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::action::{Action, Target};
use crate::model::{ClusterPage, Fleet, HostPage, Hosts, MachinePage, Preview};

/// The part of a list to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Text that names must contain; empty for all.
    pub text: String,
    /// State that rows must have; empty for all.
    pub state: String,
    /// Page, counted from 1.
    pub page: usize,
}

/// Why a page cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The credentials of the web view do not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The management plane does not answer, or answers with an error.
    #[error("{0}")]
    Unavailable(String),
}

/// An answer of a [`Source`].
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, Problem>>;

/// Reads a management plane, and executes actions on it.
pub trait Source: Send + Sync + 'static {
    /// Clusters and hosts.
    fn fleet(&self, filter: Filter) -> Answer<'_, Fleet>;
    /// One cluster.
    fn cluster<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, ClusterPage>;
    /// One machine.
    fn machine<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, MachinePage>;
    /// The inventory.
    fn hosts(&self, filter: Filter) -> Answer<'_, Hosts>;
    /// One host.
    fn host<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, HostPage>;
    /// The effects of applying these manifests.
    fn preview(&self, manifests: String) -> Answer<'_, Preview>;
    /// Executes an action with the credentials of the user who started the web view, and describes what was done.
    fn act(&self, action: Action, target: Target) -> Answer<'_, String>;
    /// A number that increases when an object changes.
    fn changes(&self) -> watch::Receiver<u64>;
}
