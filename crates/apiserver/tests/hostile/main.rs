//! A client that means harm: it reads nothing that it may not, by any way, and takes nothing from others.

#![cfg(test)]

mod deputies;
mod floods;
mod planted;
mod revoked;
mod rights;
mod server;
#[path = "../support/mod.rs"]
mod support;
