//! The tests of this crate are one program, because linking one for each file takes minutes. Those with a program or a length of
//! their own stay apart: `complexity`, `durability` and `hostile`.

#![cfg(test)]

mod access;
mod admission;
mod apply;
mod audit;
mod client;
mod conversion;
mod flow_control;
mod health;
mod kubectl;
mod lifecycle;
mod mutating_policies;
mod objects;
mod policies;
mod process_admission;
mod protobuf;
mod quotas;
mod runtime;
mod support;
mod system_objects;
mod watches;
