//! The undo of a command, as the journal has it: the values of secret variables are not in it. They are in files beside it
//! that only root can read, and the journal names them by digest. Data only.
//!
//! Agents of the first release wrote the values into the journal. They are read, and hidden when the next plan is accepted.

use capstan_plan::{Argv, Digest, EnvVar, Undo};
use serde::{Deserialize, Serialize};

/// How to undo a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwedUndo {
    /// The command line.
    pub argv: Argv,
    /// Environment variables, in addition to `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<OwedVariable>,
}

/// An environment variable of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OwedVariable {
    /// A secret one.
    Kept(KeptVariable),
    /// One that is not secret; or a secret one in a journal of the first release.
    Plain(EnvVar),
}

/// A secret environment variable, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptVariable {
    /// Its name.
    pub name: String,
    /// Digest of its value, which is kept in the store.
    pub kept: Digest,
}

/// The need of a journal line that names kept values: agents of the first release would run the undo without them.
pub const KEPT_VARIABLES: &str = "keptVariables";

impl OwedUndo {
    /// The undo without the values of its secret variables, and these values. A variable is secret if the plan says so, or if its
    /// value contains a secret of the plan.
    pub fn hide(undo: &Undo, secrets: &[&[u8]]) -> (Self, Vec<Vec<u8>>) {
        let mut hidden = Vec::new();
        let is_secret = |variable: &EnvVar| {
            let value = variable.value.expose().as_bytes();
            let has = |secret: &&[u8]| {
                !secret.is_empty() && value.windows(secret.len()).any(|part| part == *secret)
            };
            variable.secret || secrets.iter().any(has)
        };
        let mut env = Vec::new();
        for variable in &undo.env {
            env.push(if is_secret(variable) {
                let value = variable.value.expose().as_bytes();
                hidden.push(value.to_vec());
                OwedVariable::Kept(KeptVariable { name: variable.name.clone(), kept: Digest::of(value) })
            } else {
                OwedVariable::Plain(variable.clone())
            });
        }
        (Self { argv: undo.argv.clone(), env }, hidden)
    }

    /// Digests of the values that are kept.
    pub fn kept(&self) -> impl Iterator<Item = Digest> {
        self.env.iter().filter_map(|variable| match variable {
            OwedVariable::Kept(variable) => Some(variable.kept),
            OwedVariable::Plain(_) => None,
        })
    }

    /// Whether a secret value is in it, as in a journal of the first release.
    pub fn shows_secrets(&self) -> bool {
        self.env.iter().any(|variable| matches!(variable, OwedVariable::Plain(plain) if plain.secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo() -> Undo {
        let env = vec![
            EnvVar::new("MODE", "all"),
            EnvVar::secret("TOKEN", "hunter2"),
            EnvVar::new("URL", "https://u:s3cret@a/"),
        ];
        Undo { argv: Argv::new(["leave", "--now"]).expect("words"), env }
    }

    #[test]
    fn secret_values_are_hidden_and_others_stay() {
        let (owed, hidden) = OwedUndo::hide(&undo(), &[b"", b"s3cret"]);
        assert_eq!(hidden, [&b"hunter2"[..], b"https://u:s3cret@a/"]);
        let text = serde_json::to_string(&owed).expect("JSON");
        assert!(!text.contains("hunter2") && !text.contains("s3cret") && text.contains("all"), "{text}");
        let digests = [Digest::of(b"hunter2"), Digest::of(b"https://u:s3cret@a/")];
        assert_eq!(owed.kept().collect::<Vec<_>>(), digests);
        assert!(!owed.shows_secrets());
        assert_eq!(serde_json::from_str::<OwedUndo>(&text).expect("an undo"), owed);
    }

    #[test]
    fn an_undo_of_the_first_release_is_read_and_one_without_secrets_is_written_as_there() {
        let text = serde_json::to_string(&undo()).expect("JSON");
        let owed: OwedUndo = serde_json::from_str(&text).expect("an undo");
        assert!(owed.shows_secrets() && owed.kept().next().is_none());
        let plain = Undo { env: vec![EnvVar::new("MODE", "all")], ..undo() };
        let (owed, hidden) = OwedUndo::hide(&plain, &[]);
        assert!(hidden.is_empty());
        assert_eq!(serde_json::to_string(&owed).expect("JSON"), serde_json::to_string(&plain).expect("JSON"));
    }
}
