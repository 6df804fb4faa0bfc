//! Condition types and reasons of ClusterResourceSets.

/// Condition: all resources are applied to all selected clusters.
pub const RESOURCES_APPLIED: &str = "ResourcesApplied";

/// Reasons.
pub mod reasons {
    capstan_api::condition_reasons! {
        /// Everything is applied to every selected cluster.
        APPLIED = "Applied";
        /// Something is not applied to a selected cluster.
        NOT_APPLIED = "NotApplied" => "The message names the cluster, the ConfigMap or Secret, and the object. Correct the manifest; it is applied again. Details of Secrets are in none.";
        /// A Secret has a type that is not supported.
        WRONG_SECRET_TYPE = "WrongSecretType" => "Create the Secret with the type `addons.cluster.x-k8s.io/resource-set`.";
    }
}
