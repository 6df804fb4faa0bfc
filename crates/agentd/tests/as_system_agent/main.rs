//! The program in the place of rancher/system-agent: on the embedded plane, and with plans in a folder.

#![cfg(test)]

#[path = "../support/connect_proxy.rs"]
mod connect_proxy;
mod contract;
mod hostile;
mod local;
mod proxy;
mod registry;
mod server;
mod stage;
