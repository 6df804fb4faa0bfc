//! The condition that tells how far a machine is with its enrolment. Pure.

use capstan_api::bootstrap::AGENT_ENROLLED;
use capstan_api::conditions::NewCondition;

use super::decide::Standing;

/// `AgentEnrolled` of its CapstanConfig.
pub(crate) fn condition(standing: &Standing) -> NewCondition {
    NewCondition::new(AGENT_ENROLLED, standing.is_enrolled, standing.reason).message(&standing.message)
}
