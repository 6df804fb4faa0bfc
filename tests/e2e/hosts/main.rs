//! Hosts that cannot work, hosts that fail on the way, the ways data gets carried out, pools, and what nobody may see:
//! real machines over SSH, the embedded plane.

#![cfg(test)]

mod bootstrap;
mod mishaps;
mod pools;
mod refused;
mod secrets;
mod stage;
