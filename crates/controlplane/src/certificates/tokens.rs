//! The token with which each machine joins. Pure.
//!
//! The servers' token gives access to the keys of all CAs, so workers have their own token. A cluster has it from its
//! beginning or never: k3s does not start again on a server whose workers' token was changed, because its password file
//! is then newer than its datastore.

use capstan_controller::secrets::{self, AGENT_TOKEN};
use capstan_distro::Role;
use capstan_plan::SecretText;
use k8s_openapi::api::core::v1::Secret;

/// The token that workers join with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// The servers' token: the cluster began before workers had their own.
    None,
    /// Their own token.
    Complete,
}

/// The known state of a cluster's tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The Secret has a workers' token.
    pub(crate) is_there: bool,
    /// Its digest is recorded, which happens when the cluster is initialized.
    pub(crate) is_recorded: bool,
    /// A machine was elected to initialize the cluster, so it may have a plan.
    pub(crate) is_elected: bool,
    /// The cluster is initialized.
    pub(crate) is_initialized: bool,
}

impl Seen {
    /// Whether a workers' token must be created: before any machine has a plan.
    pub(crate) fn is_due(self) -> bool {
        // One that was recorded and is gone is restored, never made again: machines hold the original.
        !self.is_there && !self.is_recorded && !self.is_elected && !self.is_initialized
    }

    /// The token that workers join with. A token that was added to a cluster later does not count.
    pub(crate) fn separation(self) -> Separation {
        if self.is_there && (self.is_recorded || !self.is_initialized) {
            Separation::Complete
        } else {
            Separation::None
        }
    }
}

/// The workers' token in a Secret.
pub(crate) fn agent_token(secret: &Secret) -> Option<&[u8]> {
    secrets::get(secret, AGENT_TOKEN)
}

/// The tokens of a cluster.
pub(crate) struct JoinTokens {
    pub(crate) server: SecretText,
    pub(crate) agent: Option<SecretText>,
    pub(crate) separation: Separation,
}

impl JoinTokens {
    /// The token with which a machine joins.
    pub(crate) fn shown_by(&self, role: Role) -> &SecretText {
        let own = self.agent.as_ref().filter(|_| self.separation == Separation::Complete);
        own.filter(|_| !role.is_server()).unwrap_or(&self.server)
    }

    /// The workers' token, for a server.
    pub(crate) fn of_workers(&self, role: Role) -> Option<&SecretText> {
        self.agent.as_ref().filter(|_| role.is_server() && self.separation == Separation::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_workers_is_made_before_the_first_plan_and_never_later() {
        // is_there, is_recorded, is_elected, is_initialized; due; separation
        use Separation::{Complete, None};
        for (seen, is_due, separation) in [
            ([false, false, false, false], true, None),
            ([true, false, false, false], false, Complete),
            ([true, false, true, false], false, Complete),
            ([true, true, true, true], false, Complete),
            // An older version has elected a machine, and may have given it a plan.
            ([false, false, true, false], false, None),
            // It began before, and stays as it is, also if a user adds a token.
            ([false, false, true, true], false, None),
            ([true, false, true, true], false, None),
            // It was recorded and is deleted: rejected elsewhere.
            ([false, true, true, true], false, None),
        ] {
            let [is_there, is_recorded, is_elected, is_initialized] = seen;
            let found = Seen { is_there, is_recorded, is_elected, is_initialized };
            assert_eq!((found.is_due(), found.separation()), (is_due, separation), "{found:?}");
        }
    }

    #[test]
    fn each_role_has_its_token() {
        let (server, agent) = (SecretText::new("of servers"), SecretText::new("of workers"));
        for (separation, worker, told) in
            [(Separation::None, &server, None), (Separation::Complete, &agent, Some(&agent))]
        {
            let tokens = JoinTokens { server: server.clone(), agent: Some(agent.clone()), separation };
            for role in [Role::Init, Role::Server] {
                assert!(
                    *tokens.shown_by(role) == server && tokens.of_workers(role) == told,
                    "{separation:?}"
                );
            }
            assert!(tokens.shown_by(Role::Worker) == worker, "{separation:?}");
            assert!(tokens.of_workers(Role::Worker).is_none(), "{separation:?}");
        }
    }
}
