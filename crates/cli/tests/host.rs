//! `capstan host` as users run it: against `capstan up`, with a real SSH server as host.

#![cfg(test)]

// The server is the same as in the suites of the driver, which use more of it.
#[allow(dead_code)]
#[path = "../../ssh/tests/sshd/server.rs"]
mod server;

use serde_json::Value;
use server::{Server, ed25519, openssh};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CAPSTAN: &str = env!("CARGO_BIN_EXE_capstan");
const DEADLINE: Duration = Duration::from_secs(60);
const PLANTED: &str = "pl4nted-passw0rd-1234";

struct Up {
    folder: TempDir,
    child: Child,
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Up {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("/usr/bin/setpriv")
            .args(["--pdeathsig", "KILL", "--", CAPSTAN, "up", "--listen", "127.0.0.1:0"])
            .args(["--controllers", "infrastructure", "--data-dir"])
            .arg(folder.path())
            .stderr(std::fs::File::create(folder.path().join("up.log")).unwrap())
            .spawn()
            .unwrap();
        let up = Self { folder, child };
        let log = up.path("up.log");
        up.until("the plane", || std::fs::read_to_string(&log).unwrap().contains("next: "));
        up
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            let log = || std::fs::read_to_string(self.path("up.log")).unwrap_or_default();
            assert!(started.elapsed() < DEADLINE, "waited in vain for {what}: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn host(&self, words: &[&str]) -> Ran {
        self.host_with(words, "")
    }

    fn host_with(&self, words: &[&str], input: &str) -> Ran {
        let mut child = Command::new(CAPSTAN)
            .arg("host")
            .args(words)
            .arg("--kubeconfig")
            .arg(self.path("admin.kubeconfig"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let ran = Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.stdout.contains(PLANTED) && !ran.stderr.contains(PLANTED), "{words:?} prints a secret");
        ran
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.host(words).stdout).unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_host_is_added_listed_checked_and_removed() {
    let server = Server::start();
    let up = Up::start();
    let identity = write(&up.path("identity"), &server.client_key);
    let stranger = write(&up.path("stranger"), &openssh(&ed25519()));
    let (port, user) = (server.port.to_string(), server.user.as_str());
    let key = format!("[127.0.0.1]:{port} {}", server.host_key.to_openssh().unwrap());
    let reach = ["--address", "127.0.0.1", "--port", &port, "--user", user];
    let add = |name: &str, more: &[&str]| up.host(&[&["add", name], &reach[..], more].concat());

    // What cannot be right is refused before anything is written.
    let nonsense = write(&up.path("nonsense"), PLANTED);
    let ran = add("bad", &["--identity-file", &nonsense, "--host-key", &key]);
    assert!(ran.code == 1 && ran.stderr.contains("is not a private key"), "{}", ran.stderr);
    let ran = add("bad", &["--identity-file", &identity, "--host-key", "ssh-ed25519 AAAA"]);
    assert!(ran.code == 1 && ran.stderr.contains("--host-key"), "{}", ran.stderr);
    assert_eq!(add("bad", &["--identity-file", &identity]).code, 2, "whom to trust must be said");
    assert!(up.host(&["list"]).stderr.contains("no hosts"));

    let right = ["--identity-file", &identity, "--host-key", &key];
    let ran = add("rack-1", &[&right[..], &["--label", "disk=fast", "--failure-domain", "a"]].concat());
    assert!(ran.code == 0 && ran.stdout.starts_with("host/rack-1 added"), "{}", ran.stderr);
    assert!(add("rack-1", &right).stderr.contains("already"));
    assert_eq!(add("rack-2", &["--identity-file", &stranger, "--trust-on-first-use"]).code, 0);
    let by_password =
        [&["add", "rack-3"], &reach[..], &["--password-stdin", "--trust-on-first-use"]].concat();
    assert_eq!(up.host_with(&by_password, &format!("{PLANTED}\n")).code, 0);

    // The manager looks at them too.
    let of = |name: &str| {
        up.json(&["list", "-o", "json"])["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|host| host["metadata"]["name"] == name)
            .unwrap()
            .clone()
    };
    // The host is whatever machine this runs on: both see the same of it.
    let usable = up.json(&["check", "rack-1", "-o", "json"])[0]["usable"] == true;
    let state = if usable { "Available" } else { "Unusable" };
    up.until("rack-1 to be looked at", || of("rack-1")["status"]["state"] == state);
    up.until("rack-2 to be refused", || of("rack-2")["status"]["state"] == "Unreachable");
    assert_eq!(of("rack-2")["spec"]["ssh"]["hostKeys"].as_array().unwrap().len(), 1, "pinned all the same");
    let listed = up.host(&["list", "-o", "wide", "-l", "disk=fast"]).stdout;
    assert!(listed.contains("rack-1") && listed.contains(state) && !listed.contains("rack-2"), "{listed}");
    up.until("the reason", || up.host(&["list"]).stdout.contains("CredentialsRefused"));

    let reports = up.json(&["check", "--all", "-o", "json"]);
    let problem = |index: usize| reports[index]["findings"][0]["subject"].as_str().unwrap().to_owned();
    assert_eq!((problem(1), problem(2)), ("credential".to_owned(), "credential".to_owned()));
    let subjects: Vec<&Value> =
        reports[0]["findings"].as_array().unwrap().iter().map(|finding| &finding["subject"]).collect();
    assert!(
        !subjects
            .iter()
            .any(|subject| ["reachability", "credential", "host key"].contains(&subject.as_str().unwrap()))
    );
    let ran = up.host(&["check", "rack-2"]);
    assert!(
        ran.code == 3 && ran.stdout.contains("rack-2: cannot be used\n  problem  credential: "),
        "{}",
        ran.stdout
    );
    assert!(up.host(&["check", "nobody"]).stderr.contains("there is no Host nobody"));

    let ran = up.host(&["remove", "rack-2"]);
    assert!(ran.code == 0 && ran.stdout == "host/rack-2 removed\n", "{}", ran.stderr);
    assert_eq!(up.host(&["remove", "rack-2"]).code, 1);
    assert_eq!(add("rack-2", &right).code, 0, "nothing of it is left");
}
