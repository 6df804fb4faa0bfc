//! A management plane that accepts connections and never answers: every verb that waits for it says so on standard error, in
//! plain lines, because standard error is not a terminal here.

#![cfg(test)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A command prints its first line after two seconds; a loaded machine starts programs slowly.
const DEADLINE: Duration = Duration::from_secs(60);

/// A command that is killed when the value is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Accepts every connection, and keeps it open without an answer.
fn silent_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    port
}

fn start(words: &[&str], kubeconfig: &Path, said: mpsc::Sender<(String, String)>) -> Started {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(words)
        .env("KUBECONFIG", kubeconfig)
        .current_dir(kubeconfig.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let name = words.join(" ");
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            // Only the test that ended for another reason does not receive.
            _ = said.send((name.clone(), line));
        }
        _ = said.send((name, String::new()));
    });
    Started(child)
}

#[test]
fn every_verb_that_waits_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let kubeconfig = path("kubeconfig");
    let server = format!("http://127.0.0.1:{}", silent_server());
    std::fs::write(
        &kubeconfig,
        format!(
            "{{clusters: [{{name: a, cluster: {{server: '{server}'}}}}], users: [{{name: a, user: {{token: t}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], current-context: a}}"
        ),
    )
    .unwrap();
    let cluster = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a}, spec: {}}\n";
    std::fs::write(path("cluster.yaml"), cluster).unwrap();
    let verbs: [&[&str]; 31] = [
        &["admin", "revocations"],
        &["admin", "revoke", "--user", "jane"],
        &["backup", "backup.capstan"],
        &["delete", "--all"],
        &["describe", "cluster", "a"],
        &["generate", "cluster", "a", "--from-config-map", "a"],
        &["get", "clusters"],
        &["get", "hosts"],
        &["get", "kubeconfig", "a"],
        &["get", "machines"],
        &["host", "abandon", "a"],
        &["host", "add", "a", "--address", "a", "--credentials", "a", "--trust-on-first-use"],
        &["host", "approve", "a"],
        &["host", "check", "a"],
        &["host", "deny", "a"],
        &["host", "list"],
        &["host", "registrations"],
        &["host", "remove", "a"],
        &["host", "token", "--revoke", "a"],
        &["init"],
        &["logs", "machine/a"],
        &["move", "--to-directory", "moved"],
        &["plan", "-f", "cluster.yaml"],
        &["rollout", "restart", "machinedeployment/a"],
        &["rotate", "plan-key", "a"],
        &["rotate", "token-key"],
        &["support", "bundle"],
        &["ui"],
        &["why", "a"],
        &["why", "machine/a"],
        &["why", "a", "--watch"],
    ];
    let (sender, said) = mpsc::channel();
    let _started: Vec<Started> =
        verbs.iter().map(|words| start(words, &kubeconfig, sender.clone())).collect();
    let mut silent: Vec<String> = verbs.iter().map(|words| words.join(" ")).collect();
    while !silent.is_empty() {
        let (verb, line) = said
            .recv_timeout(DEADLINE)
            .unwrap_or_else(|_| panic!("these say nothing while they wait: {silent:#?}"));
        if !silent.contains(&verb) {
            continue;
        }
        assert!(line.starts_with("waiting: "), "`capstan {verb}` said {line:?} first");
        assert!(!line.contains('\u{1b}') && line.ends_with(" s)"), "{line:?} steers a terminal");
        silent.retain(|other| *other != verb);
    }
}
