//! Fuzz targets: every reader of bytes from outside, as a function of those bytes.
//!
//! A target panics if the code that it calls does something wrong: it panics itself, the API server answers with a
//! failure of its own, or a value is not the same after it was written and read. Inputs that are worth keeping are in
//! `corpus` ([`corpus`]); a test of this crate tries all of them. The test program `libfuzzer` searches for others, guided
//! by coverage.
//!
//! What must not live here: anything that the product needs, and a second implementation of what a target calls.

mod admission;
mod backup;
mod bodies;
mod bootstrap_data;
mod certificates;
pub mod corpus;
mod hooks;
mod journal;
mod plans;
mod queries;
mod registrations;
mod registries;
mod schemas;
mod server;
mod tokens;

pub use server::works;

/// One way in for bytes from outside.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its file in `corpus`.
    pub name: &'static str,
    /// Tries one input, and panics if something is wrong.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    // Bodies of requests to the API server.
    target("json", bodies::json),
    target("yaml", bodies::yaml),
    target("protobuf", bodies::protobuf),
    target("json-patch", bodies::json_patch),
    target("merge-patch", bodies::merge_patch),
    target("strategic-patch", bodies::strategic_patch),
    target("apply", bodies::apply),
    target("crd", bodies::crd),
    // Their URLs and headers.
    target("label-selector", queries::label_selector),
    target("field-selector", queries::field_selector),
    target("continue", queries::page),
    target("resource-version", queries::resource_version),
    target("query", queries::path_and_query),
    target("accept", queries::accept),
    // What CRDs contain.
    target("cel", schemas::cel),
    target("schema", schemas::schema),
    // Credentials.
    target("csr", certificates::request),
    target("certificate", certificates::certificate),
    target("jwt", tokens::token),
    // Files of ours, which may be damaged or another's.
    target("backup", backup::backup),
    target("journal", journal::journal),
    // Between the manager and machines.
    target("plan", plans::plan),
    target("plan-secret", plans::secret),
    target("report", plans::report),
    target("join-token", registrations::join_token),
    target("instruction", registrations::instruction),
    target("cloud-config", bootstrap_data::cloud_config),
    target("hooks", hooks::hooks),
    // Writes of Cluster API's objects, on the embedded plane and in webhooks.
    target("admission", admission::admission),
    // Images of plans of rancher/system-agent.
    target("registry", registries::registry),
];

/// The target with this name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().find(|target| target.name == name).copied()
}
