//! A transient systemd scope for each command: a stop of the agent's service, or its end for lack of memory, does not
//! affect the command. `systemd-run --scope` executes the program in its own process, so the process is the supervisor.

use capstan_plan::Digest;
use jiff::Timestamp;
use std::ffi::OsString;
use std::path::Path;

use crate::machine::CommandKey;

/// Whether systemd runs on this machine.
pub(super) fn is_available() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The arguments before those of the supervisor.
pub(super) fn words(key: &CommandKey) -> Vec<OsString> {
    let unit = format!("--unit={}", name(key, Timestamp::now()));
    let description = format!("--description=Capstan agent: {key}");
    ["systemd-run", "--scope", "--collect", "--quiet", "--no-ask-password", &unit, &description, "--"]
        .map(OsString::from)
        .into()
}

/// A unique name: processes that a command leaves behind stay in its scope and keep the name in use.
fn name(key: &CommandKey, now: Timestamp) -> String {
    let unique = Digest::of(format!("{} {}", key.digest(), now.as_nanosecond()).as_bytes()).short();
    match key {
        CommandKey::Step { step, .. } => format!("capstan-step-{step}-{unique}.scope"),
        CommandKey::Undo { step, .. } => format!("capstan-undo-{step}-{unique}.scope"),
        CommandKey::Stop { unit, .. } => format!("capstan-stop-{unit}-{unique}.scope"),
        CommandKey::Periodic { name, .. } => format!("capstan-periodic-{name}-{unique}.scope"),
        CommandKey::Instruction { number, .. } => format!("capstan-instruction-{number}-{unique}.scope"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_has_its_own_name() {
        let key = CommandKey::Undo { step: "install".parse().expect("a name"), undo: Digest::of(b"") };
        let at = |second| Timestamp::from_second(second).expect("a time");
        let first = name(&key, at(1));
        assert!(first.starts_with("capstan-undo-install-") && first.ends_with(".scope"), "{first}");
        assert_ne!(first, name(&key, at(2)));
        let words = words(&key);
        assert_eq!(words.last(), Some(&OsString::from("--")), "{words:?}");
    }
}
