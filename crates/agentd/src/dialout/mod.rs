//! Dialing out: a machine that has no cluster yet registers itself, and is managed without inbound connections.
//!
//! `register` creates a HostRegistration with a join token. `dial`, a service of its own, waits for the approval, then watches the
//! registration and executes the instructions in it: the scripts that the manager would otherwise run over SSH. Each is
//! signed with the key in the join token, is sealed to the key of this machine, and is executed at most once.
//!
//! Everything lies apart from the files of `run`: a reset takes the machine out of its cluster, and leaves its registration.

mod dial;
mod execute;
mod mailbox;
mod places;
mod register;
mod registration;
mod unit;
mod unregister;

pub(crate) use dial::run as dial;
pub(crate) use register::{Proxy, run as register};
pub(crate) use unregister::run as unregister;
