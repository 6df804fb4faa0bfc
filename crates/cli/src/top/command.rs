//! Parses the command line after `:`. Pure.

use super::state::{Name, View};

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Show(View),
    Help,
    Quit,
}

const NAMES: [&str; 5] = ["clusters", "machines", "hosts", "help", "quit"];

/// Parses a command. Any prefix of a command name is accepted. A cluster is named `NAME` or `NAMESPACE/NAME`.
///
/// # Errors
/// The problem, for people.
pub(super) fn parse(text: &str, namespace: &str) -> Result<Command, String> {
    let mut words = text.split_whitespace();
    let (Some(word), argument, None) = (words.next(), words.next(), words.next()) else {
        return Err("a command is one word, and :machines takes the name of a cluster".to_owned());
    };
    let word = word.to_lowercase();
    let name = NAMES.iter().find(|name| name.starts_with(&word) || (word == "q!" && **name == "quit"));
    match (name.copied(), argument) {
        (Some("clusters"), None) => Ok(Command::Show(View::Clusters)),
        (Some("machines"), None) => Ok(Command::Show(View::Machines(None))),
        (Some("machines"), Some(cluster)) => {
            Ok(Command::Show(View::Machines(Some(of_argument(cluster, namespace)))))
        }
        (Some("hosts"), None) => Ok(Command::Show(View::Hosts)),
        (Some("help"), None) => Ok(Command::Help),
        (Some("quit"), None) => Ok(Command::Quit),
        (Some(name), Some(_)) => Err(format!(":{name} takes no argument")),
        _ => Err(format!("there is no command :{word}; try :clusters, :machines, :hosts or :quit")),
    }
}

fn of_argument(text: &str, namespace: &str) -> Name {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    Name { namespace: namespace.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let of = |namespace: &str, name: &str| {
            let name = Name { namespace: namespace.to_owned(), name: name.to_owned() };
            Command::Show(View::Machines(Some(name)))
        };
        for (text, expected) in [
            ("clusters", Command::Show(View::Clusters)),
            ("Cluster", Command::Show(View::Clusters)),
            ("m", Command::Show(View::Machines(None))),
            ("machines shop", of("default", "shop")),
            ("machines prod/shop", of("prod", "shop")),
            ("hosts ", Command::Show(View::Hosts)),
            ("help", Command::Help),
            ("q", Command::Quit),
            ("q!", Command::Quit),
            ("quit", Command::Quit),
        ] {
            assert_eq!(parse(text, "default"), Ok(expected), "{text}");
        }
        for wrong in ["", "pods", "hosts rack-1", "machines a b", "clustersx"] {
            assert!(parse(wrong, "default").is_err(), "{wrong}");
        }
    }
}
