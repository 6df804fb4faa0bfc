//! Names around a MachineHealthCheck.

/// Condition types.
pub mod types {
    /// The number of unhealthy machines permits remediation.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// An external remediation has dealt with an unhealthy Machine.
    pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
}

/// Reasons.
pub mod reasons {
    /// The number of unhealthy machines permits remediation.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// Too many machines are unhealthy: a user must look.
    pub const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";
    /// The Machine is healthy.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// The user has requested remediation with an annotation.
    pub const HAS_REMEDIATE_ANNOTATION: &str = "HasRemediateAnnotation";
    /// A condition of the Machine has exceeded its timeout.
    pub const UNHEALTHY_MACHINE: &str = "UnhealthyMachine";
    /// A condition of the Node has exceeded its timeout.
    pub const UNHEALTHY_NODE: &str = "UnhealthyNode";
    /// The Node has not appeared in time.
    pub const NODE_STARTUP_TIMEOUT: &str = "NodeStartupTimeout";
    /// The Node is deleted.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// The external remediation or the owner of the Machine must act.
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";
    /// The template of the external remediation does not exist.
    pub const TEMPLATE_NOT_FOUND: &str = "RemediationTemplateNotFound";
    /// The request for external remediation cannot be created.
    pub const REQUEST_CREATION_FAILED: &str = "RemediationRequestCreationFailed";
}
