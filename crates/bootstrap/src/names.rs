//! The names of the objects of one machine. Pure.

use capstan_api::access::MACHINE_ACCOUNTS;

/// Annotation of a report: digest of the request that was answered last.
pub(crate) const ANSWERED: &str = "capstan.dev/answered-request";
/// Annotation of a report: when that request was answered.
pub(crate) const ANSWERED_AT: &str = "capstan.dev/answered-at";
/// Annotation of a bootstrap Secret: the management plane to which the data leads.
pub(crate) const LEADS_TO: &str = "capstan.dev/leads-to";
/// Annotation of a bootstrap Secret: expiry of its token.
pub(crate) const TOKEN_EXPIRES: &str = "capstan.dev/token-expires";
/// Annotation of a bootstrap Secret: when its token is to be replaced.
pub(crate) const TOKEN_RENEWAL: &str = "capstan.dev/token-renewal";
/// Annotation of a bootstrap Secret: UID of the ServiceAccount of its token.
pub(crate) const TOKEN_BOUND_TO: &str = "capstan.dev/token-bound-to";
/// The identity of a machine. Names of objects that the machine uses are derived from the name of the Machine, which
/// the machine knows; all others from the CapstanConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) config: String,
    pub(crate) machine: String,
    pub(crate) machine_id: String,
}

impl Names {
    /// Its MachineReport.
    pub(crate) fn report(&self) -> String {
        self.machine.clone()
    }

    /// The Secret with its plan.
    pub(crate) fn plan(&self) -> String {
        format!("{}-plan", self.machine)
    }

    /// Its Lease.
    pub(crate) fn lease(&self) -> String {
        format!("{}-agent", self.machine)
    }

    /// The Role and RoleBinding of the machine once it has enrolled.
    pub(crate) fn agent(&self) -> String {
        format!("{}-agent", self.config)
    }

    /// The Role and RoleBinding that its enrolment token has.
    pub(crate) fn enrol(&self) -> String {
        format!("{}-enrol", self.config)
    }

    /// The ServiceAccount of the machine once it has enrolled.
    pub(crate) fn account(&self) -> String {
        format!("{}.agent{MACHINE_ACCOUNTS}", self.config)
    }

    /// The ServiceAccount of its enrolment token, which ends with it.
    pub(crate) fn enrolment_account(&self) -> String {
        format!("{}.enrol{MACHINE_ACCOUNTS}", self.config)
    }
}
