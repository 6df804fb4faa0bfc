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
    capstan_api::condition_reasons! {
        /// The number of unhealthy machines permits remediation.
        REMEDIATION_ALLOWED = "RemediationAllowed";
        /// Too many machines are unhealthy: a user must look.
        TOO_MANY_UNHEALTHY = "TooManyUnhealthy" => "Find the common cause first: the MachineHealthCheck acts again when fewer machines are unhealthy than `spec.remediation.triggerIf` allows.";
        /// The Machine is healthy.
        HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded";
        /// The user has requested remediation with an annotation.
        HAS_REMEDIATE_ANNOTATION = "HasRemediateAnnotation" => "Wait for the remediation, or remove the annotation `cluster.x-k8s.io/remediate-machine`.";
        /// A condition of the Machine has exceeded its timeout.
        UNHEALTHY_MACHINE = "UnhealthyMachine" => "Look at the condition of the Machine that the message names: `capstan why machine/NAME`.";
        /// A condition of the Node has exceeded its timeout.
        UNHEALTHY_NODE = "UnhealthyNode" => "Look at the condition of the Node that the message names (`kubectl describe node`).";
        /// The Node has not appeared in time.
        NODE_STARTUP_TIMEOUT = "NodeStartupTimeout" => "Look at the plan of the machine: `capstan why machine/NAME`.";
        /// The Node is deleted.
        NODE_DELETED = "NodeDeleted" => "Wait for the remediation of the Machine.";
        /// The external remediation or the owner of the Machine must act.
        WAITING_FOR_REMEDIATION = "WaitingForRemediation" => "Wait for the owner of the Machine, or for the controller of the external remediation.";
        /// The template of the external remediation does not exist.
        TEMPLATE_NOT_FOUND = "RemediationTemplateNotFound" => "Create the template, or correct `spec.remediation.templateRef` of the MachineHealthCheck.";
        /// The request for external remediation cannot be created.
        REQUEST_CREATION_FAILED = "RemediationRequestCreationFailed" => "Read the message; often a right is missing.";
    }
}
