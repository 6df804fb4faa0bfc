//! A machine and its management plane after two hundred days apart: the machine goes on with its plan, its credential expires, and
//! with a new enrolment token it obeys again. The clock of all programs is moved by libfaketime.

#![cfg(test)]

#[allow(dead_code, reason = "the suite of the agent uses more of it")]
#[path = "agent/stage.rs"]
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capstan_plan::{Action, Argv, File, Mode, Probe, Step, Target};
use capstan_testkit::{eventually, free_ports, install_crds};
use capstan_tests::{Running, agent_binary, capstan_binary};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stage::{Agent, DEADLINE, Stage};

/// The file with the offset of the clock.
const CLOCK: &str = "FAKETIME_TIMESTAMP_FILE";
const AWAY_DAYS: i64 = 200;
/// The agent looks for drift every five minutes.
const PATROL: Duration = Duration::from_secs(420);

/// The test starts itself in another process, whose clock can be moved, with all programs that it starts.
#[test]
fn a_machine_obeys_after_two_hundred_days_without_its_plane() {
    if std::env::var_os(CLOCK).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(with_a_clock_that_moves());
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    fs::write(&clock, "+0").unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_machine_obeys_after_two_hundred_days_without_its_plane", "--nocapture"])
        .env("LD_PRELOAD", library())
        .env(CLOCK, &clock)
        // Each look at the clock reads the file. Durations are those of the kernel, and times of files, too: cargo compares them.
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1")
        // Cargo builds nothing under another clock.
        .env("CAPSTAN_BINARY", capstan_binary().unwrap())
        .env("CAPSTAN_AGENT_BINARY", agent_binary().unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// The package `libfaketime` of Debian.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut found =
        folders.map(|folder| folder.join("faketime/libfaketime.so.1")).filter(|path| path.exists());
    found.next().expect("libfaketime is installed: sh tools/packages.sh clock")
}

/// Moves the clock of all programs to so many days from now.
fn move_clock(days: i64) {
    fs::write(std::env::var_os(CLOCK).unwrap(), format!("+{days}d")).unwrap();
}

/// The plane at an address that stays, on its data.
struct Plane {
    running: Option<Running>,
    folder: tempfile::TempDir,
    port: u16,
}

impl Plane {
    async fn start(&mut self) {
        let text = |name: &str| self.folder.path().join(name).to_string_lossy().into_owned();
        let (data, kubeconfig, listen) =
            (text("data"), text("kubeconfig"), format!("127.0.0.1:{}", self.port));
        let args = ["up", "--controllers", "none", "--listen", &listen, "--data-dir", &data];
        let args = [&args[..], &["--kubeconfig-out", &kubeconfig]].concat();
        let log = self.folder.path().join("log");
        fs::write(&log, "").unwrap();
        self.running = Some(Running::start(&args, &log).unwrap());
        eventually(DEADLINE, "the plane to be ready", async || {
            let log = fs::read_to_string(&log)?;
            ensure!(log.lines().any(|line| line.starts_with("ready: ")), "{log}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn stop(&mut self) {
        let mut running = self.running.take().unwrap();
        running.terminate().unwrap();
        running.ended(DEADLINE).await.unwrap();
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

async fn with_a_clock_that_moves() {
    capstan_testkit::install_crypto_provider();
    let before = Timestamp::now();
    let [port] = free_ports().unwrap();
    let mut plane = Plane { running: None, folder: tempfile::tempdir().unwrap(), port };
    plane.start().await;
    let client = capstan_testkit::client(&plane.kubeconfig()).await.unwrap();
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    let mut stage = Stage::new(&plane.kubeconfig()).await;
    let agent = enrolled(&stage).await;
    let first = stage.plan(&sealed(&stage, 1, "first"), &[]).await;
    stage.says(first, "Applied").await;

    plane.stop().await;
    move_clock(AWAY_DAYS);
    let passed = Timestamp::now().duration_since(before);
    assert!(passed >= SignedDuration::from_hours(24 * AWAY_DAYS), "the clock does not move: {passed}");
    sabotage_is_repaired(&stage).await;
    drop(agent);
    // A machine that boots has nothing but what is on its disk.
    let agent = stage.spawn(&["run"]);
    sabotage_is_repaired(&stage).await;

    // Its certificates are new, its data and its authority are those of before.
    plane.start().await;
    stage.meet_again(&plane.kubeconfig()).await;
    let second = stage.plan(&sealed(&stage, 2, "second"), &[]).await;
    let explained = eventually(DEADLINE, "the agent to say what is wrong", async || {
        let explained = explain(&stage).await;
        ensure!(explained["obstacles"].to_string().contains("the credential expired at"), "{explained:#}");
        Ok(explained)
    })
    .await
    .unwrap();
    assert_eq!(explained["journal"]["current"]["revision"], 1, "{explained:#}");
    assert_eq!(stage.read("/etc/app/config"), "first");

    // A new enrolment token, as the manager brings it over SSH.
    let key = stage.read("/etc/capstan/agent.key");
    drop(agent);
    let _agent = enrolled(&stage).await;
    stage.says(second, "Applied").await;
    assert_eq!(stage.read("/etc/app/config"), "second");
    assert_eq!(stage.read("/etc/capstan/agent.key"), key, "it is the same machine");
    let explained = explain(&stage).await;
    assert_eq!(explained["obstacles"], json!([]), "{explained:#}");
}

/// Enrols the machine with a new token, and starts its agent.
async fn enrolled(stage: &Stage) -> Agent {
    let request = || async { stage.report().await["status"].get("credentialRequest").cloned() };
    let old = request().await;
    stage.start_machine().await;
    let mut enrolling = stage.spawn(&["enroll", "--no-service"]);
    eventually(DEADLINE, "a request", async || {
        let asked = request().await.context("none")?;
        ensure!(Some(&asked) != old.as_ref(), "the old one");
        Ok(())
    })
    .await
    .unwrap();
    stage.answer().await.unwrap();
    enrolling.succeeds().await;
    stage.spawn(&["run"])
}

/// A plan with a file and a probe, by the clock of the manager.
fn sealed(stage: &Stage, revision: u64, content: &str) -> capstan_plan::SealedPlan {
    let path = "/etc/app/config".parse().unwrap();
    let file =
        File { path, content: content.into(), mode: Mode::READABLE, owner: 0, group: 0, secret: false };
    let probe = Target::Exec(Argv::new(["/bin/true"]).unwrap());
    let mut plan =
        stage.sealed(revision, vec![Step::new("config".parse().unwrap(), Action::File(file))]).plan().clone();
    plan.probes = vec![Probe::new("alive".parse().unwrap(), probe)];
    plan.seal().unwrap()
}

async fn sabotage_is_repaired(stage: &Stage) {
    let config: &Path = &stage.at("/etc/app/config");
    fs::remove_file(config).unwrap();
    eventually(PATROL, "the file to be repaired", async || {
        ensure!(fs::read_to_string(config)? == "first", "another content");
        Ok(())
    })
    .await
    .unwrap();
}

async fn explain(stage: &Stage) -> Value {
    let output = stage.run(&["explain", "-o", "json"]).await;
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}
