//! `capstan completion`: what a shell needs to complete our words.

use anyhow::Result;
use clap::CommandFactory as _;
use std::io::Write as _;

use crate::args::Args;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
bash: source <(capstan completion bash)\n\
zsh:  capstan completion zsh > \"${fpath[1]}/_capstan\"\n\
fish: capstan completion fish > ~/.config/fish/completions/capstan.fish")]
pub(crate) struct CompletionArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn run(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "capstan", &mut script);
    std::io::stdout().write_all(&script).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_every_verb() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "capstan", &mut script);
            let script = String::from_utf8_lossy(&script);
            for verb in ["generate", "move", "rollout", "describe", "init"] {
                assert!(script.contains(verb), "{shell} does not know {verb}");
            }
        }
    }

    #[test]
    fn the_arguments_contradict_each_other_nowhere() {
        Args::command().debug_assert();
    }
}
