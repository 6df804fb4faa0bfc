//! Names around a MachineHealthCheck.

/// Condition types.
pub mod types {
    /// So few machines are unhealthy that something may be done about them.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// Somebody else's remediation has dealt with an unhealthy Machine.
    pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
}

/// Reasons.
pub mod reasons {
    /// So few machines are unhealthy that something may be done about them.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// So many machines are unhealthy that a person should look.
    pub const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";
    /// Nothing speaks against the Machine.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// The user says so.
    pub const HAS_REMEDIATE_ANNOTATION: &str = "HasRemediateAnnotation";
    /// A condition of the Machine has lasted too long.
    pub const UNHEALTHY_MACHINE: &str = "UnhealthyMachine";
    /// A condition of the Node has lasted too long.
    pub const UNHEALTHY_NODE: &str = "UnhealthyNode";
    /// The Node has not appeared in time.
    pub const NODE_STARTUP_TIMEOUT: &str = "NodeStartupTimeout";
    /// The Node is gone.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// Somebody is asked to deal with the Machine.
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";
    /// The template for somebody else's remediation is not there.
    pub const TEMPLATE_NOT_FOUND: &str = "RemediationTemplateNotFound";
    /// Somebody else's remediation could not be asked for.
    pub const REQUEST_CREATION_FAILED: &str = "RemediationRequestCreationFailed";
}
