//! A simulated host that is a folder.

use capstan_infrastructure::{BootstrapData, BootstrapFailure, BootstrapState, ResetState};
use futures::future::BoxFuture;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::error::SshError;
use crate::job::{HostView, compile};
use crate::redact::Redactor;
use crate::settings::Settings;
use crate::transport::{Output, Shell};
use crate::work::Work;

pub(super) const CLAIM: &str = "0123456789abcdef0123456789abcdef";
pub(super) const PROVIDER_ID: &str = "capstan://default/rack-1/0123456789abcdef0123456789abcdef";
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs scripts here instead of over SSH.
struct LocalShell;

impl Shell for LocalShell {
    fn run<'a>(&'a self, _: &'static str, script: &'a str) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(async move {
            let mut child = Command::new("/bin/sh")
                .args(["-s", "--", "10.0.0.9 51000 10.0.0.1 22"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
            let output = child.wait_with_output().await.unwrap();
            Ok(Output { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
        })
    }
}

/// The folder, and what is asked of it. Whatever still works in it is killed at the end.
pub(super) struct World {
    root: TempDir,
    settings: Settings,
}

impl World {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["etc", "opt", "run", "usr/local/bin", "usr/bin", "var/lib"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let settings = Settings { root: root.path().to_str().unwrap().to_owned(), ..Settings::default() };
        Self { root, settings }
    }

    pub(super) fn root(&self) -> &str {
        &self.settings.root
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn claim(&self) -> PathBuf {
        self.at(&format!("/var/lib/capstan-claims/{CLAIM}"))
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), content).unwrap();
    }

    /// A program that stands in for a real one.
    pub(super) fn program(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(self.at(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    pub(super) fn mode(&self, path: &str) -> u32 {
        std::fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }

    fn work(&self, data: &BootstrapData) -> Work<'_> {
        Work { shell: &LocalShell, settings: &self.settings, user: "root", redactor: Redactor::of_data(data) }
    }

    pub(super) async fn ask(&self, data: &BootstrapData) -> BootstrapState {
        self.work(data).bootstrap(CLAIM, PROVIDER_ID, data).await.unwrap()
    }

    /// Starts the data without asking first what is on the host.
    pub(super) async fn start(&self, data: &BootstrapData) -> Result<(), SshError> {
        let job = compile(data, CLAIM, PROVIDER_ID, &HostView::default()).unwrap();
        let upload = job.upload(self.root(), CLAIM);
        self.work(data).ask("starting the bootstrap data", &upload).await.map(|_| ())
    }

    /// Asks until it has ended.
    pub(super) async fn carried_out(&self, data: &BootstrapData) -> BootstrapState {
        capstan_testkit::eventually(DEADLINE, "the data to be carried out", async || {
            match self.ask(data).await {
                BootstrapState::Running => anyhow::bail!("{:?}", self.listing()),
                state => Ok(state),
            }
        })
        .await
        .unwrap()
    }

    pub(super) async fn failure(&self, data: &BootstrapData) -> BootstrapFailure {
        match self.carried_out(data).await {
            BootstrapState::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn reset_once(&self) -> ResetState {
        self.work(&script("")).reset(CLAIM).await.unwrap()
    }

    /// Asks until it has ended.
    pub(super) async fn given_back(&self) -> ResetState {
        capstan_testkit::eventually(DEADLINE, "the host to be given back", async || {
            match self.reset_once().await {
                ResetState::Running => anyhow::bail!("{:?}", self.listing()),
                state => Ok(state),
            }
        })
        .await
        .unwrap()
    }

    pub(super) async fn until(&self, what: &str, done: impl Fn() -> bool) {
        capstan_testkit::eventually(DEADLINE, what, async || {
            anyhow::ensure!(done());
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Kills whoever works under the claim, as a power cut would.
    pub(super) fn cut_power(&self) {
        let holder = std::fs::read_to_string(self.claim().join("holder")).unwrap();
        let pid = holder.split(' ').nth(1).unwrap();
        let killed =
            std::process::Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status().unwrap();
        assert!(killed.success());
    }

    /// Every path in the tree, with what is in it.
    pub(super) fn listing(&self) -> Vec<(String, Option<String>)> {
        let mut found = Vec::new();
        walk(self.root.path(), self.root.path(), &mut found);
        found.sort();
        found
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, Option<String>)>) {
    // Work goes on while it is listed: a folder can go between being named and being opened.
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        entries => entries.unwrap(),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => {
                found.push((name, None));
                walk(root, &path, found);
            }
            kind if kind.is_symlink() => {
                found.push((name, Some(std::fs::read_link(&path).unwrap().display().to_string())));
            }
            _ => found.push((
                name,
                std::fs::read(&path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            )),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Ok(holder) = std::fs::read_to_string(self.claim().join("holder"))
            && let Some(pid) = holder.split(' ').nth(1)
            // Only if it is still ours: the number may be another's by now.
            && let Ok(words) = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            && words.contains(CLAIM)
        {
            _ = std::process::Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status();
        }
    }
}

pub(super) fn cloud_config(text: &str) -> BootstrapData {
    BootstrapData { value: format!("#cloud-config\n{text}").into_bytes(), format: "cloud-config".to_owned() }
}

pub(super) fn script(text: &str) -> BootstrapData {
    BootstrapData { value: text.as_bytes().to_vec(), format: "script".to_owned() }
}
