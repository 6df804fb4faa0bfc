//! The program in the place of rancher/system-agent: on the embedded plane, and with plans in a folder.

#![cfg(test)]

mod contract;
mod hostile;
mod local;
mod registry;
mod server;
mod stage;
