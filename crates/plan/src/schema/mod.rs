//! The schema of a plan. The types define the form; `check` enforces the limits and relations.

mod address;
mod agent;
mod artifact;
mod check;
mod command;
mod inputs;
pub mod limits;
mod periodic;
mod plan;
mod step;
mod target;
mod unit;
mod url;

pub use agent::AgentProgram;
pub use artifact::{
    Artifact, HttpsUrl, HttpsUrlError, ProxyCredentials, Source, SourceProxy, SourceUrl, SourceUrlError,
    Unpack,
};
pub use check::PlanError;
pub use command::{Argv, ArgvError, Command, EnvVar, Undo};
pub use limits::Limit;
pub use periodic::Periodic;
pub use plan::{ApiVersion, MachinePlan, PlanKind};
pub use step::{Action, Check, Directory, File, OnDrift, Repeat, Retry, Step};
pub use target::{ClientFiles, FileTarget, HttpsTarget, Probe, Target};
pub use unit::{Gate, Stop, Unit};
pub use url::{HttpUrl, TcpAddress, TcpAddressError, UrlError};
