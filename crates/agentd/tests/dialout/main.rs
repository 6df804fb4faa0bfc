//! Machines that dial out, from the join token to the reset: the agent as a process, the controllers of the infrastructure
//! provider, and the embedded API server. The machine is a folder.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

#[path = "../support/connect_proxy.rs"]
mod connect_proxy;
mod hostile;
mod life;
mod proxy;
mod yard;
