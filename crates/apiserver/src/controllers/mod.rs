//! The server's own controllers, on one engine.

pub(crate) mod api_services;
pub(crate) mod certificate_cleaner;
pub(crate) mod certificate_signer;
pub(crate) mod crd_deletion;
mod engine;
pub(crate) mod event_cleaner;
pub(crate) mod flow_schemas;
pub(crate) mod gc;
pub(crate) mod kubernetes_service;
pub(crate) mod namespace;
pub(crate) mod policy_status;
pub(crate) mod resource_quota;
