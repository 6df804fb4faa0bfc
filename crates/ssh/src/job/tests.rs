//! Tests of the scripts, run by this computer's `sh` in a temporary tree. They change nothing outside of that tree.

mod authorized_keys;
mod carried_out;
mod cloud_init;
mod given_back;
mod world;
