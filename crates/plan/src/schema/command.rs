//! Commands.

use serde::{Deserialize, Serialize};

use super::{Limit, limits, step::is_false};
use crate::{MachinePath, SecretText};

/// Words that cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    /// Too few or too many of them.
    #[error("number of words {0}")]
    Words(Limit),
    /// One is too long.
    #[error("bytes of a word {0}")]
    Bytes(Limit),
    /// The operating system has no such words.
    #[error("a word contains a zero byte")]
    Zero,
    /// There is nothing to run.
    #[error("the first word, which names the program, is empty")]
    Program,
}

/// A program and its arguments. They can be seen by every user of the machine, so they are no place for a
/// secret: use a variable. There is no shell unless the program is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Argv(Vec<String>);

impl Argv {
    /// The words of a command.
    ///
    /// # Errors
    /// If there is no program or a limit is overstepped.
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

    /// The program: an absolute path, or a name that is looked for where the system keeps programs.
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

/// A variable in the environment of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvVar {
    /// Its name.
    pub name: String,

    /// Its value. Never printed for debugging, secret or not.
    pub value: SecretText,

    /// Whether the value must never appear in a report.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

impl EnvVar {
    /// A variable that everybody may see.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: SecretText::new(value), secret: false }
    }

    /// A variable that nobody may see.
    pub fn secret(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: SecretText::new(value), secret: true }
    }
}

/// A command to run. It has succeeded when it exits with 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// What to run.
    pub argv: Argv,

    /// Variables it sees, beside `PATH`. It sees none of the agent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,

    /// Guard: not run when there is something at this path, because then it has been done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates: Option<MachinePath>,

    /// Guard: not run when this command exits with 0, because then it has been done. Must change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Argv>,

    /// How to take its effect back when the machine is reset. Must succeed when there is nothing to take back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
}

impl Command {
    /// A command without variables, guards or undo.
    pub const fn new(argv: Argv) -> Self {
        Self { argv, env: Vec::new(), creates: None, unless: None, undo: None }
    }
}

/// Takes the effect of a command back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Undo {
    /// What to run.
    pub argv: Argv,

    /// Variables it sees, beside `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
}
