//! The user of a request: name, groups and further attributes. How a user is authenticated is not decided here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Common name of the client certificate, or the user name of the service account.
    pub name: String,
    /// Organizations of the client certificate, and the groups of every user.
    pub groups: Vec<String>,
    /// UID of the service account, which differs from that of a deleted account with the same name. Other users have
    /// none.
    pub uid: String,
    /// Further attributes, such as the ID of the credential.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user; `system:authenticated` is added to the groups.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups, uid: String::new(), extra: BTreeMap::new() }
    }

    /// The administrator, in the group `system:masters`.
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", [MASTERS])
    }

    /// The user of a request without a credential.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, uid: String::new(), extra: BTreeMap::new() }
    }

    /// The user of a request whose credential is invalid.
    pub fn unknown() -> Self {
        Self { name: String::new(), groups: Vec::new(), uid: String::new(), extra: BTreeMap::new() }
    }

    /// The server's own controllers.
    pub fn controller(name: &str) -> Self {
        Self::new(format!("system:serviceaccount:kube-system:{name}"), [MASTERS])
    }

    /// A service account.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self::new(
            format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
            [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")],
        );
        uid.clone_into(&mut user.uid);
        user
    }

    /// The same with the credential that was shown.
    pub fn with_credential(mut self, id: String) -> Self {
        self.extra.insert(CREDENTIAL_ID.to_owned(), vec![id]);
        self
    }

    /// Whether it is a ServiceAccount whose name ends so.
    pub fn is_account(&self, suffix: &str) -> bool {
        self.name.starts_with("system:serviceaccount:") && self.name.ends_with(suffix)
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// As reviews show it: what is empty is left out.
    pub fn info(&self) -> Value {
        let mut info = json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without a credential.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// Every service account is in this group, and in the one of its namespace.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// What the names of service accounts begin with.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
