//! The real program as the supervisor of a command, and what it says about it.

#![cfg(test)]

use capstan_agent::Machine as _;
use capstan_agent::machine::{CommandKey, Exit, Invocation, Resumed};
use capstan_agent::real::Linux;
use capstan_plan::{Argv, Digest};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capstan-agent");

fn explain(root: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new(PROGRAM).arg("--root").arg(root).arg("explain").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_command_outlives_the_process_that_started_it_and_explain_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let commands = root.join("var/lib/capstan/commands");
    let linux = || Linux::new().unwrap().supervising(&commands, vec![PROGRAM.into(), "supervise".into()]);
    let script =
        "cd \"$0\"; echo begin; cat /proc/$PPID/comm > name; while [ ! -e go ]; do sleep 0.02; done; exit 3";
    let argv = Argv::new(["sh", "-c", script, root.to_str().unwrap()]).unwrap();
    let key = CommandKey::Undo { step: "slow".parse().unwrap(), undo: Digest::of(b"") };
    let timeout = Duration::from_secs(60);
    let first = linux();
    let has_begun = async {
        while fs::read_to_string(root.join("name")).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ran = first.run(Invocation { argv: &argv, env: &[], timeout, key: Some(&key) }) => panic!("{ran:?}"),
        () = has_begun => {}
    }
    assert_eq!(fs::read_to_string(root.join("name")).unwrap(), "capstan-command\n");

    let text = explain(root, &[]);
    assert!(text.contains("\nruns         undo command of step slow since 2"), "{text}");
    let explained: Value = serde_json::from_str(&explain(root, &["-o", "json"])).unwrap();
    assert_eq!(explained["running"][0]["command"], "undo command of step slow");

    fs::write(root.join("go"), "").unwrap();
    let second = linux();
    let resumed = second.resume(&key).await.unwrap();
    let Resumed::Ended(ran) = resumed else { panic!("{resumed:?}") };
    assert_eq!((ran.exit, &ran.stdout.head[..]), (Exit::Code(3), &b"begin\n"[..]));
    second.dismiss(&key).await.unwrap();
    let explained: Value = serde_json::from_str(&explain(root, &["-o", "json"])).unwrap();
    assert_eq!(explained["running"], json!([]));
}

#[test]
fn only_the_agent_needs_to_know_of_it() {
    let help = Command::new(PROGRAM).arg("--help").output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("supervise"));
}
