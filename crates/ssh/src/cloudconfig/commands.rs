//! `bootcmd` and `runcmd`: all items form one `sh` script, as in cloud-init, so that each item sees the variables of
//! those before it. Pure.

use serde_json::Value;
use std::fmt::Write as _;

use super::{Refused, list};
use crate::script::quote;

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Words, taken as they are.
    Words(Vec<String>),
    /// A line for the shell.
    Line(String),
}

impl Command {
    /// The program it begins with, for people. No more of it: any other word may be secret.
    pub(crate) fn program(&self) -> &str {
        let plain = |word: &&str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte))
        };
        let first = match self {
            Self::Words(words) => words.first().map(String::as_str),
            Self::Line(line) => line.split_whitespace().find(|word| !word.contains('=')),
        };
        first.filter(plain).unwrap_or("sh")
    }

    /// As the shell reads it.
    fn shell(&self) -> String {
        match self {
            Self::Words(words) => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
            Self::Line(line) => line.clone(),
        }
    }

    /// Whether this text is in it.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        match self {
            Self::Words(words) => words.iter().any(|word| word.contains(text)),
            Self::Line(line) => line.contains(text),
        }
    }
}

/// All items as one script. Each is announced in the file `items` of the claim's folder, together with how the one
/// before it ended, which the next item can still ask for.
pub(crate) fn shell_script(key: &str, commands: &[Command]) -> String {
    let mut script = format!(
        "#!/bin/sh\n\
         __capstan() {{\n\
         \t__capstan_code=$?\n\
         \tprintf '{key}.%s %s\\n' \"$1\" \"$__capstan_code\" >>\"$CAPSTAN_ITEMS\"\n\
         \treturn \"$__capstan_code\"\n\
         }}\n"
    );
    for (number, command) in commands.iter().enumerate() {
        // Writing to a String cannot fail.
        _ = writeln!(script, "__capstan {number}\n{}", command.shell());
    }
    script
}

pub(super) fn read(key: &str, value: Option<&Value>) -> Result<Vec<Command>, Refused> {
    let mut commands = Vec::new();
    for (index, item) in list(key, value)?.iter().enumerate() {
        let wrong = || Refused::at(&format!("{key}[{index}]"), "is neither a text nor a list of texts");
        match item {
            Value::Null => {}
            Value::String(line) => commands.push(Command::Line(line.clone())),
            Value::Array(words) => {
                let words =
                    words.iter().map(|word| scalar(word).ok_or_else(wrong)).collect::<Result<_, _>>()?;
                commands.push(Command::Words(words));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(commands)
}

/// YAML makes numbers and truths of words that were meant as words.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        // As Python writes them.
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        _ => None,
    }
}
