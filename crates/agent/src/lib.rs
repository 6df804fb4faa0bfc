//! The plan engine: applies machine plans, and continues after a crash at any point.
//!
//! | part | content |
//! |---|---|
//! | [`machine`] | the operating system as a trait, so that a machine can be simulated |
//! | [`real`] | the implementation for Linux |
//! | [`store`] | durable storage of the journal: a trait, and a folder |
//! | [`journal`] | every action, recorded before and after; its summary is the [`History`](journal::History) |
//! | [`ledger`] | what was changed on the machine, and the previous state |
//! | [`owed`] | the undo of a command without its secrets |
//! | [`decide`] | the next action: a pure function of plan, history and time |
//! | [`running`] | what to do about a command that an earlier process has started: pure |
//! | [`drift`] | what was found changed on the machine, and limits of its repair: pure |
//! | [`engine`] | carries out decisions one at a time; resets the machine |
//! | [`obey`] | the loop of the agent: applies the newest plan, sends reports |
//! | [`follow`] | decides about a hand-over to another management plane |
//! | [`periodic`] | commands that run again and again while a plan is applied |
//! | [`probes`] | health probes of an applied plan |
//! | [`pace`] | when a report is written |
//! | [`report`] | the content of a report, bounded and without secrets |
//! | [`upgrade`] | how the agent replaces its own program, and reverts that |
//! | [`https`], [`route`] | requests over TLS that trust only certain CAs, directly or through a proxy |
//! | [`image`] | names and descriptions of container images: pure |
//!
//! This crate does not depend on Kubernetes, or on how plans and reports are transported: it takes a
//! [`VerifiedPlan`](capstan_plan::VerifiedPlan) and returns a [`Report`](capstan_plan::Report).

pub mod clock;
pub mod decide;
pub mod drift;
pub mod engine;
pub mod follow;
pub mod https;
pub mod image;
pub mod journal;
pub mod ledger;
pub mod machine;
pub mod obey;
mod outputs;
pub mod owed;
pub mod pace;
pub mod periodic;
pub mod probes;
pub mod real;
mod redact;
pub mod report;
pub mod route;
pub mod running;
mod status_line;
pub mod store;
mod tunnel;
pub mod upgrade;

pub use clock::{Clock, SystemClock};
pub use engine::{Advance, Engine, EngineError, Leftover, Reset, Restart};
pub use journal::Journal;
pub use machine::Machine;
pub use redact::Redactor;
