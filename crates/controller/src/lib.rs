//! What every controller of Capstan shares.
//!
//! What lives here: writing an object back with conditions ([`patch`]), at once or a little later (`telling`), finalizers and owners, the pause, looking
//! an object of somebody else's kind up by the contract ([`external`]), connections to workload clusters
//! ([`remote`]), what etcd is asked ([`etcd`]), moving pods off a Node ([`drain`]), where plans and reports stand
//! ([`plans`]), what is known and what is not ([`knowledge`]), deleting objects ([`destroy`]), whether another host is free ([`spare`]), which plane this is
//! ([`plane`]), names ([`names`]), errors ([`Error`]), the loop that runs a reconciler ([`run`]) and the
//! order in which it looks at objects ([`queue`]), what it looks after ([`scope`]), objects in memory ([`cache`]) and what
//! wakes a reconciler ([`signal`]), which of several replicas runs it ([`leader`]), how much it does at a time
//! ([`settings`]), how many requests it makes ([`throttle`]) and what is counted of it ([`metrics`]).
//!
//! What must not: anything that only one kind needs, and any decision about what a cluster should look like.
//!
//! A reconciler is written as observe → decide → act. It reads what it needs, hands it to a pure function, and
//! carries out what that function says with few writes that are safe to repeat, because the process may die
//! between any two of them and another one may run beside it. A reconcile that changes nothing writes nothing.

pub mod apply;
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
mod telling;
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
