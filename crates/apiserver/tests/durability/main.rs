//! What was acknowledged stays: over kills at any moment, a full disk, a clock that is set back, and a backup that
//! is brought back. And clients that contend are told one story.

#![cfg(test)]

mod backup;
mod clients;
mod clock;
mod disk_full;
mod kills;
mod linear;
mod run;
mod server;
#[path = "../support/mod.rs"]
mod support;
