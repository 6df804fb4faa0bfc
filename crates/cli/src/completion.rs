//! `capstan completion`: prints completion scripts for shells. Verbs and flags are in the script; `capstan complete`
//! provides the names of objects while the user types.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;

use crate::args::Args;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
bash: source <(capstan completion bash)\n\
zsh:  capstan completion zsh > \"${fpath[1]}/_capstan\"\n\
fish: capstan completion fish > ~/.config/fish/completions/capstan.fish\n\
kubectl: ln -s \"$(command -v capstan)\" ~/.local/bin/kubectl_complete-capstan")]
pub(crate) struct CompletionArgs {
    /// Shell to print the script for
    pub(crate) shell: Shell,
}

/// Names first; where there are none, what the rest of the script knows.
const BASH: &str = r#"
_capstan_or_names() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    unset IFS
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        _capstan "$@"
    fi
}
complete -F _capstan_or_names -o nosort -o bashdefault -o default capstan
"#;

const ZSH_FUNCTION: &str = "_capstan() {\n";
const ZSH: &str = r#"    local -a names
    names=(${(f)"$(_call_program names capstan complete -- ${(q)words[2,CURRENT]} 2>/dev/null)"})
    if (( $#names )); then
        compadd -a names
        return
    fi
"#;

const FISH: &str = "complete -c capstan -f -a '(capstan complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'\n";

pub(crate) fn run(args: &CompletionArgs) -> Result<()> {
    std::io::stdout().write_all(script(args.shell).as_bytes()).map_err(Into::into)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "capstan", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => script.replacen(ZSH_FUNCTION, &format!("{ZSH_FUNCTION}{ZSH}"), 1),
        Shell::Fish => script + FISH,
        _ => script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn every_shell_gets_every_verb() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for verb in ["generate", "move", "rollout", "describe", "init", "top"] {
                assert!(script.contains(verb), "{shell} does not know {verb}");
            }
            assert!(
                script.contains("capstan complete --") || script.contains("\" complete --"),
                "{shell} asks for no names"
            );
        }
    }

    #[test]
    fn bash_offers_names_and_else_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, script(Shell::Bash)).unwrap();
        // A program that knows two clusters, and nothing about anything else.
        let program = folder.path().join("capstan");
        std::fs::write(
            &program,
            "#!/bin/sh\ncase \"$*\" in 'complete -- why ') printf 'demo\\nshop\\n';; esac\n",
        )
        .unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let offered = |words: &str, count: usize| {
            let typed = format!(
                "source {}; COMP_WORDS=({} {words}); COMP_CWORD={count}; _capstan_or_names {} \"${{COMP_WORDS[$COMP_CWORD]}}\" \
                 \"${{COMP_WORDS[$((COMP_CWORD-1))]}}\"; echo \"${{COMPREPLY[@]}}\"",
                path.display(),
                program.display(),
                program.display(),
            );
            let output = Command::new("bash").args(["--norc", "-c", &typed]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(offered("why ''", 2), "demo shop");
        assert!(offered("descr", 1).contains("describe"), "{}", offered("descr", 1));
    }

    #[test]
    fn the_arguments_contradict_each_other_nowhere() {
        Args::command().debug_assert();
    }
}
