//! Tokens to join with, as k3s reads them, and what a server accepts. Pure.

use capstan_plan::Digest;

use super::Start;
use crate::vm::state::K3sRole;

/// A token: `K10<digest of the CA>::<user>:<password>`, or only the password. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// The digest of the CA that its owner expects.
    ca: Option<String>,
    password: String,
}

impl JoinToken {
    /// Reads it. An error is what k3s would complain of.
    ///
    /// # Errors
    /// If it has no password, or a digest of another length.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("--token is required".to_owned());
        }
        let Some(rest) = text.strip_prefix("K10") else {
            return Ok(Self { ca: None, password: text.to_owned() });
        };
        let (ca, credentials) = rest.split_once("::").map_or((None, rest), |(ca, rest)| (Some(ca), rest));
        let ca = ca.filter(|ca| !ca.is_empty()).map(str::to_owned);
        if ca.as_ref().is_some_and(|ca| ca.len() != 64) {
            return Err("invalid token CA hash length".to_owned());
        }
        let password = credentials.split_once(':').map(|(_, password)| password).unwrap_or_default();
        match password.is_empty() {
            true => Err("invalid token format".to_owned()),
            false => Ok(Self { ca, password: password.to_owned() }),
        }
    }

    /// Of its password: what must be shown is not kept.
    pub(super) fn digest(&self) -> String {
        Digest::of(self.password.as_bytes()).to_string()
    }
}

/// The tokens with which machines join a server that runs.
#[derive(Clone, Debug)]
pub(super) struct JoinTokens {
    /// Digest of its CA.
    ca: String,
    /// Digest of the password of workers.
    workers: String,
}

impl JoinTokens {
    /// That of a server which starts; none for a worker.
    pub(super) fn of(start: &Start) -> Option<Self> {
        let ca = Digest::of(start.authorities.as_ref()?.server_ca.as_bytes()).to_string();
        Some(Self { ca, workers: start.agent_token.as_ref().unwrap_or(&start.token).digest() })
    }

    /// Whether it lets a machine in. An error is what k3s would complain of there. The password of servers is the same on
    /// all of them, and is looked at elsewhere.
    pub(super) fn admits(&self, start: &Start) -> Result<(), String> {
        if start.token.ca.as_ref().is_some_and(|ca| *ca != self.ca) {
            return Err("token CA hash does not match the Cluster CA certificate hash".to_owned());
        }
        match start.kind {
            K3sRole::Agent if !start.has_certificate && start.token.digest() != self.workers => {
                Err("token is not valid".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Authorities, NodeFacts};
    use super::*;

    #[test]
    fn tokens_are_read_as_k3s_reads_them() {
        let digest = "0".repeat(64);
        let long = |user: &str| format!("K10{digest}::{user}:a::b:c");
        for (text, ca, password) in [
            ("a::b:c", None, "a::b:c"),
            ("K10::server:a", None, "a"),
            (&long("server"), Some(digest.as_str()), "a::b:c"),
            (&long("node"), Some(digest.as_str()), "a::b:c"),
        ] {
            let token = JoinToken::parse(text).expect("a token");
            assert_eq!((token.ca.as_deref(), token.password.as_str()), (ca, password), "{text}");
        }
        for (text, complaint) in [
            ("", "is required"),
            ("K10abc::server:a", "hash length"),
            ("K10abc", "format"),
            (&format!("K10{digest}::a"), "format"),
        ] {
            let error = JoinToken::parse(text).err().expect("no token");
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    fn start(kind: K3sRole, token: &str, agent_token: Option<&str>) -> Start {
        let parse = |text: &str| JoinToken::parse(text).expect("a token");
        Start {
            kind,
            is_init: false,
            port: 6443,
            token: parse(token),
            agent_token: agent_token.map(parse),
            has_certificate: false,
            node: NodeFacts {
                name: "n".to_owned(),
                provider_id: None,
                version: String::new(),
                labels: Vec::new(),
                taints: Vec::new(),
                machine_id: String::new(),
                boot_id: String::new(),
            },
            authorities: (kind == K3sRole::Server).then(|| Authorities {
                server_ca: "the CA".to_owned(),
                server_ca_key: String::new(),
                client_ca: String::new(),
                names: Vec::new(),
            }),
        }
    }

    #[test]
    fn workers_are_let_in_with_their_own_token_only() {
        let shared = JoinTokens::of(&start(K3sRole::Server, "s", None)).expect("a server");
        let separate = JoinTokens::of(&start(K3sRole::Server, "s", Some("w"))).expect("a server");
        assert!(JoinTokens::of(&start(K3sRole::Agent, "s", None)).is_none());
        let (right, wrong) = (Digest::of(b"the CA").to_string(), "0".repeat(64));
        for (token, by_shared, by_separate) in [
            ("s".to_owned(), true, false),
            ("w".to_owned(), false, true),
            (format!("K10{right}::node:s"), true, false),
            (format!("K10{right}::node:w"), false, true),
            (format!("K10{wrong}::node:s"), false, false),
            (format!("K10{wrong}::node:w"), false, false),
        ] {
            let worker = start(K3sRole::Agent, &token, None);
            let admitted = (shared.admits(&worker).is_ok(), separate.admits(&worker).is_ok());
            assert_eq!(admitted, (by_shared, by_separate), "{token}");
            // It has joined before.
            let again = Start { has_certificate: true, ..worker };
            assert_eq!(separate.admits(&again).is_ok(), !token.contains(&wrong), "{token}");
        }
        assert!(separate.admits(&start(K3sRole::Server, &format!("K10{right}::server:s"), None)).is_ok());
        assert!(separate.admits(&start(K3sRole::Server, &format!("K10{wrong}::server:s"), None)).is_err());
    }
}
