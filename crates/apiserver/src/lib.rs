//! A Kubernetes-compatible API server as a library, with no cluster behind it.
//!
//! What lives here: watches, the one generic path that every request takes, discovery, OpenAPI, tables, authentication and
//! authorization, namespaces and garbage collection. The store, the registry of resources (built-ins and CRDs), schemas, patches
//! and the protobuf form are crates below.
//!
//! What must not live here: anything about Cluster API, and typed Kubernetes objects. An object is a
//! `serde_json::Value`; what a kind needs is data in the registry.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use capstan_apiserver::{ApiServer, Options, Storage, User};
//!
//! let server = ApiServer::open(Options::new(Storage::Memory)).await?;
//! let service = server.service(User::admin()); // for `kube::Client::new(service, "default")`
//! # drop(service);
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod admission;
mod audit;
mod audit_policy;
mod auth;
mod authentication;
mod authority;
mod bootstrap;
mod call;
mod chunked_list;
mod controllers;
mod cpu_time;
mod discovery;
mod dispatch;
mod documents;
mod fair_seats;
mod fields;
mod flow;
mod health;
mod heavy;
mod limit_range;
mod limits;
mod listener_certificates;
mod metrics;
mod openapi;
mod options;
mod plane;
mod policy_cache;
mod process_admission;
mod quota;
mod quota_admission;
mod request;
mod respond;
mod response_body;
mod restriction;
mod sender;
mod server;
mod service;
mod shutdown;
mod start_error;
mod table;
mod tls;
mod unread_body;
mod validation;
mod verbs;
mod virtual_resources;
mod watch;
mod watch_guard;
mod webhook;

pub use audit_policy::{AuditPolicy, AuditPolicyError};
pub use auth::token_keys::KeyError;
pub use authority::{Authority, AuthorityError};
pub use capstan_net::Rate;
pub use capstan_text::health::{Check, Health};
pub use limits::{AccountLimits, Limits};
pub use options::{Clock, MoreMetrics, Options};
pub use process_admission::{Admission, AdmissionRequest, Mutated, Operation};
pub use response_body::Body;
pub use restriction::Restriction;
pub use server::ApiServer;
pub use service::InProcess;
pub use start_error::StartError;
pub use status::{ApiError, Cause};
pub use store::{
    OpenError, Storage,
    backup::{Backup, BackupError, PartialFile},
};
pub use tls::{Tls, TlsError};
pub use user::User;

use capstan_apiserver_proto as protobuf;
use capstan_apiserver_registry::{
    self as registry, age, certificates, match_criteria, names, policy, quantity, rbac, selector, status,
    user,
};
use capstan_apiserver_store::{self as store, object};
