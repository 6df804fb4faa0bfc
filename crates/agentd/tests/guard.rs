//! `check` and `guard` of the program, in a folder that stands for a machine.

#![cfg(test)]

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_plan::Digest;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const PROGRAM: &str = "opt/capstan/capstan-agent";
const PREVIOUS: &str = "opt/capstan/capstan-agent.previous";
const STATE: &str = "var/lib/capstan/upgrade";

fn agent(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan-agent"));
    command.arg("--root").arg(root).args(words).output().expect("started")
}

fn write(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("written");
}

/// A machine with a new program on trial, which was started so often.
fn on_trial(starts: u32) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    write(root, PROGRAM, b"new");
    write(root, PREVIOUS, b"old");
    let to = json!({
        "sha256": Digest::of(b"new").to_string(), "size": 3, "sources": [{"url": "https://plane.example/agent"}],
    });
    let state = json!({"phase": "trial", "to": to, "from": Digest::of(b"old").to_string(), "starts": starts});
    write(root, STATE, state.to_string().as_bytes());
    // As it was put there from a plan.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(root.join(PROGRAM), fs::Permissions::from_mode(0o755)).expect("executable");
    folder
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).expect("it is there")
}

#[test]
fn the_guard_counts_three_starts_and_puts_the_previous_program_back() {
    let folder = on_trial(0);
    let root = folder.path();
    for start in 1..=3 {
        assert!(agent(root, &["guard"]).status.success());
        assert!(read(root, STATE).contains(&format!("\"starts\":{start}")), "{}", read(root, STATE));
        assert_eq!(read(root, PROGRAM), "new");
    }
    let output = agent(root, &["guard"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((read(root, PROGRAM), read(root, PREVIOUS)), ("old".to_owned(), "old".to_owned()));
    assert!(read(root, STATE).contains("\"phase\":\"rejected\""), "{}", read(root, STATE));
    // And leaves it alone from then on.
    let before = read(root, STATE);
    assert!(
        agent(root, &["guard"]).status.success() && agent(root, &["guard", "--expired"]).status.success()
    );
    assert_eq!((read(root, PROGRAM), read(root, STATE)), ("old".to_owned(), before));
}

#[test]
fn the_guard_puts_the_previous_program_back_when_the_time_is_over() {
    let folder = on_trial(1);
    let root = folder.path();
    assert!(agent(root, &["guard", "--expired"]).status.success());
    assert_eq!(read(root, PROGRAM), "old");
    assert!(read(root, STATE).contains("within 10 minutes"), "{}", read(root, STATE));
}

#[test]
fn the_guard_puts_nothing_back_that_is_not_what_was_kept() {
    let folder = on_trial(3);
    let root = folder.path();
    write(root, PREVIOUS, b"other");
    assert!(!agent(root, &["guard"]).status.success());
    assert_eq!(read(root, PROGRAM), "new");
}

#[test]
fn the_guard_of_a_machine_without_a_replacement_does_nothing() {
    let folder = TempDir::new().expect("a folder");
    assert!(agent(folder.path(), &["guard"]).status.success());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Every file below a folder, with its content.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.display().to_string(), fs::read(&path).expect("a file"))),
        }
    }
    found.sort();
    found
}

#[test]
fn check_succeeds_on_an_enrolled_machine_unless_its_journal_is_of_a_later_version() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    let key = rcgen::KeyPair::generate().expect("a key");
    let config = json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": "https://127.0.0.1:1",
        "caData": "UEVN", "namespace": "default", "machine": "web-0", "machineID": "0123", "plane": "a",
        "planPublicKey": BASE64_STANDARD.encode([7; 32]),
    });
    let credential = json!({
        "validFor": Digest::of(b"a\nhttps://127.0.0.1:1\nUEVN").short(), "requestNonce": "n", "token": "t",
        "issuedAt": "2026-11-15T00:00:00Z", "expiresAt": "2027-11-15T00:00:00Z",
    });
    write(root, "etc/capstan/agent.json", config.to_string().as_bytes());
    write(root, "etc/capstan/agent.key", key.serialize_pem().as_bytes());
    write(root, "etc/capstan/agent.credential", credential.to_string().as_bytes());
    let before = files(root);
    let output = agent(root, &["check"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(root), before);

    let line = r#"{"seq":0,"entry":{"sang":{"song":1}}}"#;
    let line = format!("{} {line}\n", Digest::of(line.as_bytes()).short());
    write(root, "var/lib/capstan/journal", line.as_bytes());
    let before = files(root);
    let output = agent(root, &["check"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("later version"), "{output:?}");
    assert_eq!(files(root), before);
}

#[test]
fn check_names_what_is_missing_and_writes_nothing() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = agent(root, &["check"]);
    assert!(!output.status.success() && said(&output).contains("agent.json"), "{output:?}");
    write(root, "etc/capstan/agent.json", b"{\"surprise\": 1}");
    let before = files(root);
    let output = agent(root, &["check"]);
    assert!(!output.status.success() && said(&output).contains("is not an AgentConfig"), "{output:?}");
    assert_eq!(files(root), before);
}
