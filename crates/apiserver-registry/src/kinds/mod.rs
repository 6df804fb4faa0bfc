//! The rules of the built-in kinds that have any.

pub mod api_service;
pub mod autoscaler;
pub(crate) mod cells;
mod certificates;
mod classes;
mod core;
mod cron_job;
pub mod definition;
mod escalation;
pub mod events;
pub mod flow_control;
mod ingress;
mod jobs;
mod limit_range;
mod policies;
mod replication_controller;
mod resource_quota;
mod webhooks;

pub use self::{
    core::UNDELETABLE_NAMESPACES,
    definition::{CLEANUP_FINALIZER, DEFINITIONS},
    resource_quota::RESOURCE_QUOTAS,
};

pub(crate) use self::{
    api_service::API_SERVICE,
    autoscaler::AUTOSCALER,
    certificates::{APPROVAL, CERTIFICATE_SIGNING_REQUEST},
    classes::{CSI_NODE, PRIORITY_CLASS, RUNTIME_CLASS},
    core::{
        CONFIG_MAP, CREATED_ON_UPDATE, DAEMON_SET, DEPLOYMENT, EVENT, FINALIZE, LEASE, NAMESPACE, NODE, POD,
        POD_TEMPLATE, REPLICA_SET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, WITH_GENERATION,
    },
    cron_job::CRON_JOB,
    definition::CUSTOM_RESOURCE_DEFINITION,
    flow_control::{FLOW_SCHEMA, PRIORITY_LEVEL},
    ingress::INGRESS,
    jobs::JOB,
    limit_range::LIMIT_RANGE,
    policies::{
        MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING, VALIDATING_ADMISSION_POLICY,
        VALIDATING_ADMISSION_POLICY_BINDING,
    },
    replication_controller::REPLICATION_CONTROLLER,
    resource_quota::RESOURCE_QUOTA,
    webhooks::WEBHOOK_CONFIGURATION,
};
