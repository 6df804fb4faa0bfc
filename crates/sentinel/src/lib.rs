//! Plans of rancher/system-agent, and its contract with the orchestrator that writes them.
//!
//! These plans are not signed. They come only from a configuration file that names their source, and never to an agent
//! that is enrolled: that one does not use this crate.
//!
//! | part | content |
//! |---|---|
//! | [`config`] | configuration, connection information and kubeconfig |
//! | [`plan`] | the plan as it is written |
//! | [`work`] | the plan with every value checked, before anything is changed |
//! | [`secret`] | the keys of the Secret that has the plan and the report |
//! | [`decide`] | whether a plan is applied now: a pure function of the Secret, of what is known, and of the time |
//! | [`report`] | what is written into the Secret: pure |
//! | [`periodic`] | when a periodic instruction is due, and its recorded result: pure |
//! | [`probe`] | counters of probes: pure |
//! | [`local`] | plans in a folder, and their position files: pure |
//! | [`output`] | recorded output: compressed, and bounded |
//! | [`registries`] | which servers have an image, how they are asked, and what they answer: pure |
//! | [`progress`] | how far a run of a plan has come, for the process after this one |
//! | [`apply`] | applies plans through a [`Machine`](capstan_agent::Machine) |
//!
//! Only [`apply`] does I/O, and only through that trait.

pub mod apply;
pub mod config;
pub mod decide;
pub mod local;
pub mod output;
pub mod periodic;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod registries;
pub mod report;
pub mod secret;
pub mod time;
pub mod work;
