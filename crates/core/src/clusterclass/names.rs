//! Condition types and reasons of ClusterClasses.

/// All variables are known, and none is defined in two ways.
pub const VARIABLES_READY: &str = "VariablesReady";
/// All references to templates name the newest version of the kind.
pub const REF_VERSIONS_UP_TO_DATE: &str = "RefVersionsUpToDate";

/// Reasons.
pub mod reasons {
    capstan_api::condition_reasons! {
        /// The variables are known.
        VARIABLES_READY = "VariablesReady";
        /// The variables are not known, or defined in two ways.
        VARIABLE_DISCOVERY_FAILED = "VariableDiscoveryFailed" => "Correct what the message names in the ClusterClass.";
        /// All references name the newest version.
        REF_VERSIONS_UP_TO_DATE = "RefVersionsUpToDate";
        /// A reference names an older version of a kind.
        REF_VERSIONS_NOT_UP_TO_DATE = "RefVersionsNotUpToDate" => "Set the versions that the message names in the `templateRef` fields of the ClusterClass.";
    }
}
