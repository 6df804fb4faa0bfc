//! What every controller of Capstan shares.
//!
//! | Module | Content |
//! |---|---|
//! | [`cache`], [`signal`] | cached objects of the management cluster, and the events that trigger reconciles |
//! | [`run`], [`queue`], [`scope`], [`settings`], [`throttle`] | the reconcile loop: order, limits, the objects that it covers, requests per second |
//! | [`leader`], [`metrics`] | leader election; metrics |
//! | [`patch`], `status_delay`, [`apply`], [`merge`] | writing an object with its conditions, at once or a little later; server-side apply |
//! | [`finalizers`], [`owners`], [`pause`], [`destroy`] | finalizers, owner references, pause, deletion with grounds |
//! | [`external`] | objects of other providers' kinds |
//! | [`remote`], [`etcd`], [`drain`] | workload clusters: connections, members of etcd, draining a Node |
//! | [`plans`], [`secrets`], [`names`], [`identity`], [`plane`], [`spare`], [`in_place`] | facts that several controllers read: plans, Secrets, names, machine IDs, the management plane, free hosts, in-place updates |
//! | [`knowledge`], [`error`], [`events`], [`reviews`], [`authority_secret`] | known or unknown values, errors, Events, access reviews, the CA of own servers |
//!
//! What must not be here: anything that only one kind needs, and any decision about the desired state of a cluster.
//!
//! A reconciler is written as observe → decide → act. It reads what it needs, passes it to a pure function, and executes
//! the decision with few writes that are safe to repeat: the process may end between any two of them, and another manager
//! may run at the same time. A reconcile that changes nothing writes nothing.

pub mod apply;
pub mod authority_secret;
pub mod cache;
pub mod destroy;
pub mod drain;
pub mod error;
pub mod etcd;
pub mod events;
pub mod external;
pub mod finalizers;
pub mod identity;
pub mod in_place;
pub mod leader;
pub mod merge;
pub mod metrics;
pub mod names;
pub mod owners;
pub mod patch;
pub mod pause;
pub mod plane;
pub mod plans;
pub mod queue;
pub mod remote;
pub mod reviews;
pub mod run;
pub mod scope;
pub mod secrets;
pub mod settings;
pub mod signal;
pub mod spare;
mod status_delay;
pub mod throttle;

// The vocabulary of the planner, which controllers share: it knows no Kubernetes library.
pub use capstan_planner::{knowledge, text};

pub use cache::{Cache, Cached, Caches};
pub use destroy::Grounds;
pub use error::{Error, Result};
pub use knowledge::Knowledge;
pub use metrics::Metrics;
pub use run::{Next, Reconciler};
pub use scope::Scope;
pub use settings::Settings;
