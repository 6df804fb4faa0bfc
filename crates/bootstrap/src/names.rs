//! What the objects of one machine are called. Pure.

/// Annotation of a report: digest of the request that its certificate answers.
pub(crate) const ANSWERED: &str = "capstan.dev/answered-request";
/// Annotation of a report: when that was.
pub(crate) const ANSWERED_AT: &str = "capstan.dev/answered-at";
/// Annotation of a report: digest of the last request that was answered before the machine had to be told to follow. It
/// stands there still, and asks for nothing.
pub(crate) const PARTED: &str = "capstan.dev/parted-request";
/// Annotation of a bootstrap Secret: the plane that the data in it leads to.
pub(crate) const LEADS_TO: &str = "capstan.dev/leads-to";
/// Annotation of a bootstrap Secret: when the token in it ends.
pub(crate) const TOKEN_EXPIRES: &str = "capstan.dev/token-expires";
/// Annotation of a bootstrap Secret: when another token should take its place.
pub(crate) const TOKEN_RENEWAL: &str = "capstan.dev/token-renewal";
/// Annotation of a bootstrap Secret: UID of the Secret that the token in it lives and dies with.
pub(crate) const TOKEN_BOUND_TO: &str = "capstan.dev/token-bound-to";
/// Label of a CertificateSigningRequest of ours.
pub(crate) const REQUEST_LABEL: &str = "capstan.dev/machine-certificate";
/// Annotation of a CertificateSigningRequest: namespace and name of the CapstanConfig it is made for.
pub(crate) const REQUESTED_FOR: &str = "capstan.dev/capstanconfig";

/// Who a machine is. The names of what it touches itself come from the name of the Machine, which is what it knows;
/// all others from the CapstanConfig.
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

    /// Its ServiceAccount, and the Role and RoleBinding of the machine once it has enrolled.
    pub(crate) fn agent(&self) -> String {
        format!("{}-agent", self.config)
    }

    /// The Role and RoleBinding that its token has.
    pub(crate) fn enrol(&self) -> String {
        format!("{}-enrol", self.config)
    }

    /// The Secret that its token lives and dies with.
    pub(crate) fn enrolment(&self) -> String {
        format!("{}-enrolment", self.config)
    }

    /// Who it is to the API server, once it has enrolled.
    pub(crate) fn user(&self) -> String {
        format!("capstan:machine:{}:{}", self.namespace, self.machine_id)
    }
}
