//! Machines behind a router that masquerades: they register themselves and dial out, and nothing can connect to them.

#![cfg(test)]

mod cluster;
mod machine;
