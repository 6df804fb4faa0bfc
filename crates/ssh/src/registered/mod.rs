//! Hosts that dial out: the same operations as over SSH, through instructions in the HostRegistration of the machine.
//!
//! A script becomes a signed instruction, sealed to the machine; its output comes back as the sealed answer. There is one
//! instruction at a time for each machine. An instruction that is not answered in time is withdrawn, so that a machine that
//! comes back later does not execute it.

mod driver;
mod letter;
mod mailbox;

pub use driver::RegisteredDriver;
