//! How the program was called: by its own name, or by a name that makes it a kubectl plugin. Pure, except for reading
//! the name.
//!
//! kubectl runs a program named `kubectl-capstan` for `kubectl capstan`, and one named `kubectl_complete-capstan` to
//! complete its arguments. Both may be links to `capstan`.

use clap::{Command, CommandFactory as _, FromArgMatches as _};
use std::path::Path;

use crate::args::Args;

/// What the program was called for.
pub(crate) enum Invocation {
    Run(Box<Args>),
    /// Complete these words for kubectl.
    CompleteForKubectl(Vec<String>),
}

/// Parses the arguments of this process. Exits if they are invalid, as clap does.
pub(crate) fn read() -> Invocation {
    let mut words = std::env::args_os();
    let name = program(words.next().unwrap_or_default().as_ref());
    if name == "kubectl_complete-capstan" {
        return Invocation::CompleteForKubectl(
            words.map(|word| word.to_string_lossy().into_owned()).collect(),
        );
    }
    let mut command = command(&name);
    let matches = command.clone().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
    Invocation::Run(Box::new(args))
}

/// The last part of a path, without `.exe`.
fn program(path: &Path) -> String {
    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// With the name by which users have called it, as help and errors print it.
fn command(name: &str) -> Command {
    match name {
        "kubectl-capstan" => Args::command().bin_name("kubectl capstan"),
        _ => Args::command(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_called_as_kubectl_calls_it() {
        for (path, usage) in [
            ("/usr/local/bin/kubectl-capstan", "Usage: kubectl capstan why "),
            ("kubectl-capstan", "Usage: kubectl capstan why "),
            ("/usr/bin/capstan", "Usage: capstan why "),
            ("anything", "Usage: anything why "),
        ] {
            let error = command(&program(Path::new(path))).try_get_matches_from([path, "why"]);
            let message = error.expect_err("a name is missing").to_string();
            assert!(message.contains(usage), "{path}: {message}");
        }
    }
}
