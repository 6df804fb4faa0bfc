//! The tests of this crate are one program, because linking one for each file takes minutes. `restart` and `cancel` are their own:
//! they start their own program again as the agent.

#![cfg(test)]

mod artifact;
mod crash;
mod decide;
mod disk;
mod drift;
mod engine;
mod http_get;
mod image;
mod journal;
mod linux;
mod obey;
mod periodic;
mod probes;
mod running;
mod secrets;
mod steps;
mod support;
mod targets;
mod undo;
mod upgrade;
