//! What an identity reaches with its rights, and with what these rights lead to. This module does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Namespaces that differ in what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// With clusters: keys of clusters, plans, credentials of hosts, service accounts of machines.
    Clusters,
    /// Of Capstan's managers.
    Managers,
    /// `kube-system`, with the service accounts of Kubernetes' own controllers.
    System,
    /// Of somebody else.
    Other,
}

pub(super) const SCOPES: [Scope; 4] = [Scope::Clusters, Scope::Managers, Scope::System, Scope::Other];

impl Scope {
    pub(super) const fn namespace(self) -> &'static str {
        match self {
            Self::Clusters => crate::script::NAMESPACE,
            Self::Managers => "managers",
            Self::System => "kube-system",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clusters => "in namespaces with clusters",
            Self::Managers => "in the namespace of the managers",
            Self::System => "in kube-system",
            Self::Other => "in other namespaces",
        })
    }
}

/// A right that leads to others, as RBAC grants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    /// Reads every Secret.
    ReadSecrets(Scope),
    /// Creates Secrets, which may be tokens of a service account.
    CreateSecrets(Scope),
    /// Requests tokens of every service account.
    RequestTokens(Scope),
    /// Runs something with any service account: pods, and what makes pods.
    RunPods(Scope),
    /// Enters pods.
    EnterPods(Scope),
    /// Acts as another user, group or service account.
    Impersonate,
    /// Creates requests for client certificates.
    RequestCertificates,
    /// Approves client certificates for any user.
    ApproveCertificates,
    /// Signs client certificates by itself.
    SignCertificates,
    /// Grants rights that it does not have.
    GrantRights,
    /// Sees and changes the requests of others.
    InterceptRequests,
    /// Its own plan.
    ReadOwnPlan,
    /// Status of its own report.
    WriteOwnReport,
    /// Its own Lease.
    WriteOwnLease,
}

/// What is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// All of the management plane.
    Everything,
    /// Every user but the group `system:masters`, which the API server never certifies by request.
    AnyUser,
    /// Service accounts of these namespaces.
    Accounts(Scope),
    /// Keys of clusters: administrator of workload clusters, their CAs, plan-signing keys.
    ClusterKeys,
    /// Root on machines: by credentials of hosts, or by a signed plan.
    Machines,
    /// Secrets of these namespaces.
    Secrets(Scope),
    /// Its own plan.
    OwnPlan,
    /// Status of its own report.
    OwnReport,
    /// Its own Lease.
    OwnLease,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("everything on the management plane"),
            Self::AnyUser => f.write_str("any user outside of system:masters"),
            Self::Accounts(scope) => write!(f, "service accounts {scope}"),
            Self::ClusterKeys => f.write_str("keys of clusters and of plans"),
            Self::Machines => f.write_str("root on machines and hosts"),
            Self::Secrets(scope) => write!(f, "Secrets {scope}"),
            Self::OwnPlan => f.write_str("its own plan"),
            Self::OwnReport => f.write_str("its own report"),
            Self::OwnLease => f.write_str("its own Lease"),
        }
    }
}

/// Whose service accounts are in a namespace of these. Those of Kubernetes' own controllers reach everything.
fn accounts<'a>(
    all: &'a BTreeMap<String, BTreeSet<Right>>,
    home: &BTreeMap<String, Scope>,
    scope: Scope,
) -> Vec<&'a BTreeSet<Right>> {
    all.iter().filter(|(name, _)| home.get(*name) == Some(&scope)).map(|(_, rights)| rights).collect()
}

/// What an identity with these rights reaches. `all` are the rights of all identities, and `home` says in which namespaces
/// the service accounts among them are.
pub(super) fn reached(
    rights: &BTreeSet<Right>,
    all: &BTreeMap<String, BTreeSet<Right>>,
    home: &BTreeMap<String, Scope>,
) -> BTreeSet<Reach> {
    let (mut rights, mut reached) = (rights.clone(), BTreeSet::new());
    loop {
        let before = (rights.len(), reached.len());
        step(&mut rights, &mut reached, all, home);
        if before == (rights.len(), reached.len()) {
            return reached;
        }
    }
}

fn step(
    rights: &mut BTreeSet<Right>,
    reached: &mut BTreeSet<Reach>,
    all: &BTreeMap<String, BTreeSet<Right>>,
    home: &BTreeMap<String, Scope>,
) {
    let has = |rights: &BTreeSet<Right>, wanted: &[Right]| wanted.iter().all(|right| rights.contains(right));
    let certifies = has(rights, &[Right::RequestCertificates, Right::ApproveCertificates]);
    if certifies || rights.contains(&Right::SignCertificates) {
        reached.insert(Reach::AnyUser);
    }
    let is_unbounded = [Right::Impersonate, Right::GrantRights, Right::InterceptRequests];
    if reached.contains(&Reach::AnyUser) || is_unbounded.iter().any(|right| rights.contains(right)) {
        reached.insert(Reach::Everything);
    }
    for scope in SCOPES {
        if rights.contains(&Right::ReadSecrets(scope)) {
            reached.insert(Reach::Secrets(scope));
        }
        let by_secret = has(rights, &[Right::ReadSecrets(scope), Right::CreateSecrets(scope)]);
        let directly = [Right::RequestTokens(scope), Right::RunPods(scope), Right::EnterPods(scope)];
        if by_secret || directly.iter().any(|right| rights.contains(right)) {
            reached.insert(Reach::Accounts(scope));
            rights.extend(accounts(all, home, scope).into_iter().flatten().copied());
            if scope == Scope::System {
                reached.insert(Reach::Everything);
            }
        }
    }
    if rights.contains(&Right::ReadSecrets(Scope::Clusters)) {
        // Among them: kubeconfigs, CAs, plan keys, SSH credentials.
        reached.extend([Reach::ClusterKeys, Reach::Machines]);
    }
    // Nobody but a machine has anything of its own: others reach it with all the rest.
    if !rights.contains(&Right::ReadSecrets(Scope::Clusters)) {
        let own = [
            (Right::ReadOwnPlan, Reach::OwnPlan),
            (Right::WriteOwnReport, Reach::OwnReport),
            (Right::WriteOwnLease, Reach::OwnLease),
        ];
        reached.extend(own.into_iter().filter(|(right, _)| rights.contains(right)).map(|(_, reach)| reach));
    }
}

/// The table of the documentation: identities and what they reach at most.
pub(super) fn table(all: &BTreeMap<String, BTreeSet<Right>>, home: &BTreeMap<String, Scope>) -> String {
    let mut text = "| Credential of | Reaches |\n|---|---|\n".to_owned();
    for (name, rights) in all {
        let mut found = reached(rights, all, home);
        if found.contains(&Reach::Everything) {
            // All else is part of it.
            found.retain(|reach| [Reach::Everything, Reach::AnyUser].contains(reach));
        }
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let found = if found.is_empty() { "nothing of these".to_owned() } else { found.join("; ") };
        text += &format!("| {name} | {found} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached_with(rights: &[Right]) -> BTreeSet<Reach> {
        let all = BTreeMap::from([
            ("manager".to_owned(), BTreeSet::from([Right::RequestCertificates, Right::ApproveCertificates])),
            ("machine".to_owned(), BTreeSet::from([Right::WriteOwnReport])),
        ]);
        let home = BTreeMap::from([
            ("manager".to_owned(), Scope::Managers),
            ("machine".to_owned(), Scope::Clusters),
        ]);
        reached(&rights.iter().copied().collect(), &all, &home)
    }

    #[test]
    fn rights_lead_on_only_together() {
        assert!(reached_with(&[Right::RequestCertificates]).is_empty());
        assert!(reached_with(&[Right::ApproveCertificates]).is_empty());
        let both = reached_with(&[Right::RequestCertificates, Right::ApproveCertificates]);
        assert_eq!(both, BTreeSet::from([Reach::AnyUser, Reach::Everything]));
        assert!(reached_with(&[Right::CreateSecrets(Scope::Clusters)]).is_empty());
    }

    #[test]
    fn whoever_gets_the_token_of_another_has_its_rights() {
        let reached = reached_with(&[Right::RequestTokens(Scope::Managers)]);
        assert!(reached.contains(&Reach::Everything), "{reached:?}");
        let reached = reached_with(&[Right::RequestTokens(Scope::Clusters)]);
        assert_eq!(reached, BTreeSet::from([Reach::Accounts(Scope::Clusters), Reach::OwnReport]));
        let by_secret =
            reached_with(&[Right::ReadSecrets(Scope::Managers), Right::CreateSecrets(Scope::Managers)]);
        assert!(by_secret.contains(&Reach::Everything), "{by_secret:?}");
        assert!(reached_with(&[Right::RunPods(Scope::System)]).contains(&Reach::Everything));
        assert!(!reached_with(&[Right::RunPods(Scope::Other)]).contains(&Reach::Everything));
    }

    #[test]
    fn secrets_with_keys_are_root_on_machines() {
        let reached = reached_with(&[Right::ReadSecrets(Scope::Clusters)]);
        assert!(reached.contains(&Reach::Machines) && reached.contains(&Reach::ClusterKeys));
        assert!(!reached_with(&[Right::ReadSecrets(Scope::Other)]).contains(&Reach::Machines));
    }
}
