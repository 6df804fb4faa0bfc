//! Who is asking, and whether they may.

pub(crate) mod authenticate;
pub(crate) mod authorize;

/// Somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name: a certificate's common name.
    pub name: String,
    /// The groups: a certificate's organizations, and those every user is in.
    pub groups: Vec<String>,
}

impl User {
    /// A user who has proved to be one.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups }
    }

    /// The administrator: may do everything.
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", [MASTERS])
    }

    /// Nobody in particular.
    pub(crate) fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()] }
    }

    /// The server's own controllers.
    pub(crate) fn controller(name: &str) -> Self {
        Self::new(format!("system:serviceaccount:kube-system:{name}"), [MASTERS])
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// May do everything.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
