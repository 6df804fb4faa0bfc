//! Against a real SSH server, of Debian's openssh-server, on a loopback port. What it does to "the host" it does to a
//! folder: nothing here changes the machine the tests run on.

#![cfg(test)]

mod bootstrap;
mod check;
mod door;
mod follow;
mod secrets;
mod server;
mod sudo;
mod yard;
