//! Constructors of plan steps.

use capstan_plan::{Action, Argv, Command, Content, EnvVar, File, MachinePath, Mode, Step, StepName};

use crate::user::{UserCommand, UserFile};

pub(super) fn file(step: &str, path: &str, content: Content, secret: bool) -> Step {
    let path = MachinePath::new(path).expect("a path of this module, absolute and plain");
    let file = File { path, content, mode: Mode::PRIVATE, owner: 0, group: 0, secret };
    Step::new(name(step), Action::File(file))
}

pub(super) fn user_file(file: UserFile) -> Step {
    let UserFile { step, path, content, mode, owner, group, secret, .. } = file;
    Step::new(step, Action::File(File { path, content, mode, owner, group, secret }))
}

pub(super) fn user_command(command: UserCommand) -> Step {
    let UserCommand { step, argv, timeout_seconds } = command;
    Step { timeout_seconds, ..Step::new(step, Action::Command(Command::new(argv))) }
}

pub(super) fn command(step: &str, argv: Argv, env: Vec<EnvVar>) -> Step {
    Step::new(name(step), Action::Command(Command { env, ..Command::new(argv) }))
}

pub(super) fn name(text: &str) -> StepName {
    StepName::new(text).expect("a name of this module, a DNS label")
}

pub(super) fn argv(words: &[&str]) -> Argv {
    Argv::new(words.iter().copied())
        .expect("a handful of words; versions and names have at most 256 characters and no zero byte")
}
