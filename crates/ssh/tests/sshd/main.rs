//! Tests against a real SSH server, Debian's openssh-server, on a loopback port. The "host" is a folder: the tests
//! change nothing else on this computer.

#![cfg(test)]

mod authentication;
mod bootstrap;
mod check;
mod follow;
mod secrets;
mod server;
mod sudo;
mod yard;
