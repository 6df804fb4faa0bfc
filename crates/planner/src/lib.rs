//! What is decided about the machines of a cluster and their plans.
//!
//! | room | what lives there |
//! |---|---|
//! | [`facts`] | the plain structs that decisions are made from: a machine, its plan, its Node, its report |
//! | [`knowledge`], [`grounds`] | what is not known, and why something may be deleted |
//! | [`etcd`] | the members of etcd, and which of them it can do without |
//! | [`plans`] | which machine begins the cluster, which plan each machine gets, when it may restart Kubernetes |
//! | [`machines`] | which machine the control plane creates, changes or deletes next; how one leaves etcd |
//! | [`healing`] | the next step of healing an unhealthy machine in place |
//! | [`budget`] | how many workers of a group may be unavailable at the same time |
//! | [`windows`] | when machines may be drained and restarted for planned changes |
//! | [`ending`] | the order in which a control plane is deleted |
//! | [`foresee`] | the same decisions, repeated on facts of the future, for `capstan plan` |
//! | [`change`], [`Version`], [`role`], [`fingerprint`], [`spare`], [`annotations`], [`text`], [`wait`] | the vocabulary of all of them |
//!
//! Data in, data out. Nothing in here does I/O or reads a clock: the time is an argument. What must not live here: a
//! Kubernetes library, an async runtime, API objects and how facts are read from them (`capstan-controlplane`), and what
//! a distribution needs (`capstan-distro`). `xtask/src/borders.rs` checks the whole dependency tree of this crate.

pub mod annotations;
pub mod budget;
pub mod change;
pub mod ending;
pub mod etcd;
pub mod facts;
pub mod fingerprint;
pub mod foresee;
pub mod grounds;
pub mod healing;
pub mod knowledge;
pub mod machines;
pub mod plans;
pub mod role;
pub mod spare;
pub mod text;
pub mod wait;
pub mod windows;

pub use capstan_text::Version;
pub use change::{Change, Cost};
pub use facts::{EtcdView, MachineFacts};
pub use fingerprint::Fingerprint;
pub use grounds::Grounds;
pub use knowledge::Knowledge;
pub use role::Role;
pub use wait::Wait;
