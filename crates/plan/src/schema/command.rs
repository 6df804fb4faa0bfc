//! Commands.

use serde::{Deserialize, Serialize};

use super::{Limit, limits, step::is_false};
use crate::{MachinePath, SecretText};

/// Why a command line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    /// It has too few or too many words.
    #[error("number of words {0}")]
    Words(Limit),
    /// A word is too long.
    #[error("bytes of a word {0}")]
    Bytes(Limit),
    /// A word contains a NUL byte.
    #[error("a word contains a zero byte")]
    Zero,
    /// The program is missing.
    #[error("the first word, which names the program, is empty")]
    Program,
}

/// A program and its arguments. Every user of the machine can see them, so they must not contain a secret: use an
/// environment variable. There is no shell unless the program is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Argv(Vec<String>);

impl Argv {
    /// Creates a command line.
    ///
    /// # Errors
    /// If there is no program, or a limit is exceeded.
    pub fn new<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Result<Self, ArgvError> {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        Limit::check(words.len(), 1, limits::WORDS).map_err(ArgvError::Words)?;
        for word in &words {
            Limit::check(word.len(), 0, limits::WORD_BYTES).map_err(ArgvError::Bytes)?;
            if word.contains('\0') {
                return Err(ArgvError::Zero);
            }
        }
        if words[0].is_empty() { Err(ArgvError::Program) } else { Ok(Self(words)) }
    }

    /// The program: an absolute path, or a name that is looked up in `PATH`.
    pub fn program(&self) -> &str {
        &self.0[0]
    }

    /// Its arguments.
    pub fn arguments(&self) -> &[String] {
        &self.0[1..]
    }

    /// Program and arguments.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for Argv {
    type Error = ArgvError;

    fn try_from(words: Vec<String>) -> Result<Self, ArgvError> {
        Self::new(words)
    }
}

impl From<Argv> for Vec<String> {
    fn from(argv: Argv) -> Self {
        argv.0
    }
}

/// An environment variable of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvVar {
    /// Its name.
    pub name: String,

    /// Its value. Never printed by `Debug`, secret or not.
    pub value: SecretText,

    /// Whether the value must never appear in a report.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

impl EnvVar {
    /// A variable that is not secret.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: SecretText::new(value), secret: false }
    }

    /// A secret variable.
    pub fn secret(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: SecretText::new(value), secret: true }
    }
}

/// A command to run. It succeeds with exit code 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// The command line.
    pub argv: Argv,

    /// Environment variables, in addition to `PATH`. The command does not inherit the agent's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,

    /// Guard: the command is not run if this path exists, because it counts as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates: Option<MachinePath>,

    /// Guard: the command is not run if this command exits with 0, because it counts as done. It must have no effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Argv>,

    /// Command that undoes the effect when the machine is reset. It must succeed if there is nothing to undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
}

impl Command {
    /// A command without variables, guards or undo.
    pub const fn new(argv: Argv) -> Self {
        Self { argv, env: Vec::new(), creates: None, unless: None, undo: None }
    }
}

/// Undoes the effect of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Undo {
    /// The command line.
    pub argv: Argv,

    /// Environment variables, in addition to `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
}
