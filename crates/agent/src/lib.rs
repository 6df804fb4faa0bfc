//! Carries out machine plans, and survives being killed at any point of it.
//!
//! | part | what lives there |
//! |---|---|
//! | [`machine`] | the operating system as the engine sees it: a trait, so that a machine can be simulated |
//! | [`real`] | that trait on Linux |
//! | [`store`] | where the journal lies: a trait, and a folder |
//! | [`journal`] | what has been done, written down before and after; its sum is the [`History`](journal::History) |
//! | [`ledger`] | what was put on the machine, and what was there before |
//! | [`decide`] | what comes next: a pure function of plan, history and time |
//! | [`running`] | what to do about a command that runs since before a restart: pure as well |
//! | [`drift`] | what was found changed on the machine, and how often it may be put right: pure as well |
//! | [`engine`] | does it, one decision at a time; takes everything back |
//! | [`obey`] | the loop around it: the newest plan in, reports out |
//! | [`follow`] | whether the machine lets itself be handed to another management plane |
//! | [`probes`] | what is watched once a plan is done |
//! | [`pace`] | when it is told |
//! | [`report`] | what is told, bounded and without secrets |
//! | [`upgrade`] | how the agent replaces its own program, and goes back |
//! | [`https`] | requests over TLS, believing certain authorities only |
//!
//! Nothing in here knows Kubernetes, nor how plans and reports travel: plans come in as [`VerifiedPlan`](capstan_plan::VerifiedPlan),
//! and what is to be told goes out as [`Report`](capstan_plan::Report).

pub mod clock;
pub mod decide;
pub mod drift;
pub mod engine;
pub mod follow;
pub mod https;
pub mod journal;
pub mod ledger;
pub mod machine;
pub mod obey;
pub mod pace;
pub mod probes;
pub mod real;
mod redact;
pub mod report;
pub mod running;
pub mod store;
pub mod upgrade;

pub use clock::{Clock, SystemClock};
pub use engine::{Advance, Engine, EngineError, Leftover, Reset, Restart};
pub use journal::Journal;
pub use machine::Machine;
pub use redact::Redactor;
