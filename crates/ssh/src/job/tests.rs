//! The scripts themselves, run by this machine's `sh` in a tree of their own. Nothing here leaves that tree.

mod authorized_keys;
mod carried_out;
mod cloud_init;
mod given_back;
mod world;
