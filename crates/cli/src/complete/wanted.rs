//! Determines which names complete the word at the cursor. Pure.

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Args;

/// A completion request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) wanted: Wanted,
    /// The beginning of the word.
    pub(super) typed: String,
    pub(super) namespace: Option<String>,
    pub(super) kubeconfig: Option<String>,
    pub(super) context: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Names of objects of these kinds, each with a prefix.
    Names(Vec<(CompletableKind, &'static str)>),
    Namespaces,
    Contexts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletableKind {
    Cluster,
    Machine,
    Host,
    MachineDeployment,
    ControlPlane,
}

/// The request, if the word is the name of an object on the plane.
pub(super) fn wanted(words: &[String]) -> Option<Request> {
    let (typed, before) = words.split_last()?;
    let root = Args::command();
    let mut command = &root;
    let mut path: Vec<&str> = Vec::new();
    let mut flags: Vec<(String, String)> = Vec::new();
    let mut positionals = 0;
    // A flag whose value comes next.
    let mut open: Option<&Arg> = None;
    for word in before {
        if let Some(flag) = open.take() {
            flags.push((flag.get_id().to_string(), word.clone()));
        } else if word.starts_with('-') && word.len() > 1 {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            match (flag(command, name), value) {
                (Some(flag), Some(value)) => flags.push((flag.get_id().to_string(), value.to_owned())),
                (flag, None) => open = flag.filter(|flag| takes_value(flag)),
                (None, Some(_)) => {}
            }
        } else if let Some(below) = command.find_subcommand(word) {
            path.push(below.get_name());
            command = below;
        } else {
            positionals += 1;
        }
    }
    let wanted = match open {
        Some(flag) => of_flag(flag.get_id().as_str())?,
        None if typed.starts_with('-') => return None,
        None => of_position(&path, positionals, typed)?,
    };
    let value = |id: &str| flags.iter().find(|(flag, _)| flag == id).map(|(_, value)| value.clone());
    Some(Request {
        wanted,
        typed: typed.clone(),
        namespace: value("namespace"),
        kubeconfig: value("kubeconfig"),
        context: value("kubeconfig_context"),
    })
}

fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => name.chars().nth(1).is_some_and(|letter| arg.get_short() == Some(letter)),
    })
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
        && flag.get_num_args().is_none_or(|number| number.min_values() > 0)
        && !flag.is_require_equals_set()
}

fn of_flag(id: &str) -> Option<Wanted> {
    match id {
        "namespace" | "target_namespace" | "from_config_map_namespace" => Some(Wanted::Namespaces),
        "kubeconfig_context" | "to_kubeconfig_context" => Some(Wanted::Contexts),
        "cluster" => Some(Wanted::Names(vec![(CompletableKind::Cluster, "")])),
        _ => None,
    }
}

fn of_position(path: &[&str], position: usize, typed: &str) -> Option<Wanted> {
    let kinds = match (path, position) {
        (["get", "clusters"], _) | (["describe", "cluster"] | ["get", "kubeconfig"] | ["rotate", _], 0) => {
            vec![(CompletableKind::Cluster, "")]
        }
        (["get", "machines"], _) => vec![(CompletableKind::Machine, "")],
        (["get", "hosts"] | ["host", "check"], _) | (["host", "remove" | "abandon"], 0) => {
            vec![(CompletableKind::Host, "")]
        }
        (["why"], 0) => match typed.split_once('/') {
            // Most ask about a cluster.
            None => vec![(CompletableKind::Cluster, ""), (CompletableKind::Machine, "machine/")],
            Some(("cluster", _)) => vec![(CompletableKind::Cluster, "cluster/")],
            Some(_) => vec![(CompletableKind::Machine, "machine/")],
        },
        (["logs"], 0) => vec![(CompletableKind::Machine, "machine/")],
        (["rollout", _] | ["alpha", "rollout", _], _) => {
            vec![
                (CompletableKind::MachineDeployment, "machinedeployment/"),
                (CompletableKind::ControlPlane, "capstancontrolplane/"),
            ]
        }
        _ => return None,
    };
    Some(Wanted::Names(kinds))
}

/// The names that begin with `typed`. Names that a shell would split or expand are omitted.
pub(super) fn offered(typed: &str, names: Vec<String>) -> Vec<String> {
    let is_plain = |name: &String| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/@:".contains(letter);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
    };
    let mut names: Vec<String> =
        names.into_iter().filter(|name| is_plain(name) && name.starts_with(typed)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Request> {
        wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn kinds(line: &str) -> Option<Vec<(CompletableKind, &'static str)>> {
        match of(line)?.wanted {
            Wanted::Names(kinds) => Some(kinds),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn names_fit_where_they_are_typed() {
        let cluster = Some(vec![(CompletableKind::Cluster, "")]);
        let host = Some(vec![(CompletableKind::Host, "")]);
        for (line, expected) in [
            ("describe cluster ", cluster.clone()),
            ("describe cluster -n shop de", cluster.clone()),
            ("describe cluster demo ", None),
            ("get kubeconfig ", cluster.clone()),
            ("get cluster a ", cluster.clone()),
            ("get machines --cluster ", cluster),
            ("get machines x", Some(vec![(CompletableKind::Machine, "")])),
            ("host remove ", host.clone()),
            ("host check a b", host),
            ("host add ", None),
            ("why ", Some(vec![(CompletableKind::Cluster, ""), (CompletableKind::Machine, "machine/")])),
            ("why -o json --watch machine/", Some(vec![(CompletableKind::Machine, "machine/")])),
            ("why cluster/d", Some(vec![(CompletableKind::Cluster, "cluster/")])),
            ("logs ", Some(vec![(CompletableKind::Machine, "machine/")])),
            (
                "rollout restart ",
                Some(vec![
                    (CompletableKind::MachineDeployment, "machinedeployment/"),
                    (CompletableKind::ControlPlane, "capstancontrolplane/"),
                ]),
            ),
            ("why --", None),
            ("", None),
            ("up ", None),
        ] {
            assert_eq!(kinds(line), expected, "{line}");
        }
    }

    #[test]
    fn flags_say_where_to_look_and_have_values_of_their_own() {
        let request = of("why -n shop --kubeconfig=/k --context there d").unwrap();
        assert_eq!(
            (request.namespace.as_deref(), request.kubeconfig.as_deref(), request.context.as_deref()),
            (Some("shop"), Some("/k"), Some("there"))
        );
        assert_eq!(
            (of("why demo -n s").unwrap().wanted, of("why -n s").unwrap().typed),
            (Wanted::Namespaces, "s".to_owned())
        );
        assert_eq!(of("get clusters --kubeconfig-context ").unwrap().wanted, Wanted::Contexts);
        assert_eq!(of("why --kubeconfig "), None, "a file: the shell knows files");
        assert_eq!(kinds("why --color ").unwrap().len(), 2, "its value needs an equals sign");
    }

    #[test]
    fn only_plain_words_that_go_on_are_offered() {
        let names = ["demo", "dev", "other", "d$(rm)", "d e", "", "dev"].map(str::to_owned).to_vec();
        assert_eq!(offered("d", names), ["demo", "dev"]);
        assert_eq!(offered("", vec!["-x".to_owned()]), Vec::<String>::new());
    }
}
