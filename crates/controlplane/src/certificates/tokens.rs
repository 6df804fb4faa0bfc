//! With which token which machine joins. Pure.
//!
//! The token of servers gives access to the keys of all CAs, so workers have one of their own. Clusters that began before
//! that stay as they are until the user asks for it ([`SEPARATE_AGENT_TOKEN`](crate::names::SEPARATE_AGENT_TOKEN)). Then
//! the servers learn the token of workers first, one after the other. When all of them accept it, its digest is recorded,
//! and workers get it. The record never goes back, so no crash or lost report gives a worker the token of servers again.

use capstan_controller::secrets::{self, AGENT_TOKEN};
use capstan_distro::Role;
use capstan_plan::SecretText;
use k8s_openapi::api::core::v1::Secret;

/// How far a cluster has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// Workers join with the token of servers.
    None,
    /// Servers are told the token of workers, who do not have it yet.
    Servers,
    /// Workers join with their own token.
    Complete,
}

/// What is known of a cluster's tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The Secret has a token of workers.
    pub(crate) is_there: bool,
    /// Its digest is recorded.
    pub(crate) is_recorded: bool,
    /// A machine was elected to begin the cluster, so it may have a plan.
    pub(crate) is_elected: bool,
    /// The cluster has begun.
    pub(crate) is_initialized: bool,
    /// The user asks for a token of workers.
    pub(crate) is_asked_for: bool,
}

impl Seen {
    /// Whether a token of workers is to be made: before any machine has a plan, or when the user asks for it.
    pub(crate) fn is_due(self) -> bool {
        let may_be_made = if self.is_initialized { self.is_asked_for } else { !self.is_elected };
        // One that was recorded and is gone is restored, never made again: machines hold the original.
        !self.is_there && !self.is_recorded && may_be_made
    }

    /// How far the cluster has come.
    pub(crate) fn separation(self) -> Separation {
        match self {
            Self { is_there: false, .. } => Separation::None,
            // Before it begins no server runs without it.
            Self { is_initialized: false, .. } | Self { is_recorded: true, .. } => Separation::Complete,
            _ => Separation::Servers,
        }
    }
}

/// The token of workers in a Secret.
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

    /// Whether all servers accept the same token from workers. One that has joined before is let in by its certificate.
    pub(crate) fn workers_may_join(&self) -> bool {
        self.separation != Separation::Servers
    }

    /// The token of workers, for a server.
    pub(crate) fn of_workers(&self, role: Role) -> Option<&SecretText> {
        self.agent.as_ref().filter(|_| role.is_server() && self.separation != Separation::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_workers_is_made_before_the_first_plan_or_when_asked_for() {
        // is_there, is_recorded, is_elected, is_initialized, is_asked_for; due; separation
        use Separation::{Complete, None, Servers};
        for (seen, is_due, separation) in [
            ([false, false, false, false, false], true, None),
            ([true, false, false, false, false], false, Complete),
            ([true, false, true, false, false], false, Complete),
            ([true, true, true, true, false], false, Complete),
            // An older version has elected a machine, and may have given it a plan.
            ([false, false, true, false, false], false, None),
            ([false, false, true, false, true], false, None),
            // It began before, and stays as it is until the user asks.
            ([false, false, true, true, false], false, None),
            ([false, false, true, true, true], true, None),
            ([true, false, true, true, true], false, Servers),
            ([true, true, true, true, true], false, Complete),
            // The user takes the request back, or the token out.
            ([true, false, true, true, false], false, Servers),
            // It was recorded and is gone: refused elsewhere.
            ([false, true, true, true, true], false, None),
            ([false, true, true, true, false], false, None),
        ] {
            let [is_there, is_recorded, is_elected, is_initialized, is_asked_for] = seen;
            let found = Seen { is_there, is_recorded, is_elected, is_initialized, is_asked_for };
            assert_eq!((found.is_due(), found.separation()), (is_due, separation), "{found:?}");
        }
    }

    #[test]
    fn each_role_has_its_token() {
        let (server, agent) = (SecretText::new("of servers"), SecretText::new("of workers"));
        for (separation, worker, told) in [
            (Separation::None, &server, None),
            (Separation::Servers, &server, Some(&agent)),
            (Separation::Complete, &agent, Some(&agent)),
        ] {
            let tokens = JoinTokens { server: server.clone(), agent: Some(agent.clone()), separation };
            for role in [Role::Init, Role::Server] {
                assert!(
                    *tokens.shown_by(role) == server && tokens.of_workers(role) == told,
                    "{separation:?}"
                );
            }
            assert!(tokens.shown_by(Role::Worker) == worker, "{separation:?}");
            assert!(tokens.of_workers(Role::Worker).is_none(), "{separation:?}");
            assert_eq!(tokens.workers_may_join(), separation != Separation::Servers);
        }
    }
}
