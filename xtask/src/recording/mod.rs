//! `xtask recording`: a real session with `capstan plan` and `capstan why` on simulated hosts, as docs/images/plan-and-why.svg.
//!
//! The plane, the cluster, the change and what is printed are real; only the frame around it is drawn.

mod screen;
mod svg;

use anyhow::{Context, Result, bail, ensure};
use capstan_tools::{Program, locate};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo;
use crate::log::Log;
use svg::Scene;

const PICTURE: &str = "docs/images/plan-and-why.svg";
const LARGEST: usize = 60 * 1024;
const DEADLINE: Duration = Duration::from_secs(180);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";
/// Slow enough for a person to see a step.
const POOL: &str = r#"{"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
    "metadata": {"name": "simulated", "namespace": "default"},
    "spec": {"replicas": 6, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 400}}}"#;

pub(crate) fn run(log: &Log) -> Result<()> {
    cargo::succeed(&["build", "--locked", "--package", "capstan"], log)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let folder = Folder::new()?;
    let stage = Stage::start(folder.0.clone())?;
    let scenes = stage.play()?;
    let picture =
        svg::render("capstan plan and capstan why: an upgrade is planned, applied and followed", &scenes);
    ensure!(picture.len() <= LARGEST, "{PICTURE} would have {} bytes, more than {LARGEST}", picture.len());
    let path = root.join(PICTURE);
    fs::create_dir_all(path.parent().context("it is in a folder")?)?;
    fs::write(&path, &picture).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("{PICTURE}: {} bytes", picture.len());
    Ok(())
}

/// A temporary folder, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("capstan-recording-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A plane that runs; dropping it stops it.
struct Stage {
    folder: PathBuf,
    capstan: PathBuf,
    kubectl: PathBuf,
    plane: Child,
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = self.plane.kill();
        _ = self.plane.wait();
    }
}

impl Stage {
    fn start(folder: PathBuf) -> Result<Self> {
        let capstan = target().join("debug/capstan");
        let kubectl = locate(Program::Kubectl)?;
        let data = folder.join("data");
        let mut plane = Command::new(&capstan)
            .args(["up", "--listen", "127.0.0.1:0", "--artifacts-listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", capstan.display()))?;
        let mut said = BufReader::new(plane.stderr.take().context("it has no standard error")?).lines();
        let ready = said.by_ref().map_while(Result::ok).any(|line| line.starts_with("ready: "));
        // Read on, so that it never waits for somebody to listen.
        std::thread::spawn(move || said.for_each(drop));
        let stage = Self { folder, capstan, kubectl, plane };
        ensure!(ready, "capstan up has ended instead of starting");
        Ok(stage)
    }

    /// The whole session.
    fn play(&self) -> Result<Vec<Scene>> {
        let size = ["--control-plane-machine-count", "3", "--worker-machine-count", "2"];
        let generate = [&["generate", "cluster", "demo", "--kubernetes-version", OLD], &size[..]].concat();
        let manifests = self.capstan(&generate)?;
        let (current, upgraded) = (self.folder.join("demo.yaml"), self.folder.join("upgraded.yaml"));
        fs::write(&current, &manifests)?;
        fs::write(&upgraded, manifests.replace(OLD, NEW))?;
        let (current, upgraded) = (text(&current)?, text(&upgraded)?);
        until("the plane to take a HostPool", || self.kubectl(&["apply", "-f", "-"], POOL).map(|_| true))?;
        self.kubectl(&["apply", "-f", current], "")?;
        eprintln!("waiting until the cluster is there");
        until("every machine to be up to date", || self.counts(|counts| counts == [3, 2]))?;

        let scene = |command: &str, output: String| Scene { command: command.to_owned(), output };
        let plan = self.capstan(&["plan", "-f", upgraded, "--color=true"])?;
        let applied = self.kubectl(&["apply", "-f", upgraded], "")?;
        // What is said while a machine of that owner, and no other before it, is being changed.
        let while_changing = |owner: &str, before: Option<&str>| {
            let mut seen = String::new();
            until(owner, || {
                seen = self.capstan(&["why", "demo", "--color=true"])?;
                let (_, after) = seen.split_once(owner).with_context(|| seen.clone())?;
                let is_first = before.is_none_or(|before| !seen.contains(before));
                let is_changed = after.contains(") of its plan");
                ensure!(is_first && is_changed, "{seen}");
                Ok(true)
            })
            .map(|()| seen)
        };
        eprintln!("waiting until the first server is being changed");
        let first = while_changing("CapstanControlPlane/", None)?;
        eprintln!("waiting until a worker is being changed");
        let later = while_changing("MachineDeployment/", Some("CapstanControlPlane/"))?;
        until("the upgrade to be done", || self.counts(|counts| counts == [3, 2]))?;
        until("nothing to wait", || Ok(self.capstan(&["why", "demo"])?.starts_with("Nothing waits")))?;
        let done = self.capstan(&["why", "demo", "--color=true"])?;
        Ok(vec![
            scene("capstan plan -f upgraded.yaml", plan),
            scene("kubectl apply -f upgraded.yaml", applied),
            scene("capstan why demo", first),
            scene("capstan why demo", later),
            scene("capstan why demo", done),
        ])
    }

    /// Whether the numbers of servers and workers that are up to date and ready are these.
    fn counts(&self, fits: impl Fn([i64; 2]) -> bool) -> Result<bool> {
        let cluster = self.kubectl(&["get", "cluster", "demo", "-o", "json"], "")?;
        let cluster: Value = serde_json::from_str(&cluster).context("kubectl gives no JSON")?;
        let ready = |part: &str| {
            let part = &cluster["status"][part];
            part["upToDateReplicas"].as_i64().unwrap_or(0).min(part["readyReplicas"].as_i64().unwrap_or(0))
        };
        Ok(fits([ready("controlPlane"), ready("workers")]))
    }

    fn capstan(&self, args: &[&str]) -> Result<String> {
        output(Command::new(&self.capstan).args(args).env("KUBECONFIG", self.kubeconfig()), "")
    }

    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        output(Command::new(&self.kubectl).args(args).env("KUBECONFIG", self.kubeconfig()), input)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("data/admin.kubeconfig")
    }
}

fn output(command: &mut Command, input: &str) -> Result<String> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run a program")?;
    // A program that does not read closes it.
    _ = child.stdin.take().context("no standard input")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {errors}");
    String::from_utf8(output.stdout).context("not a text")
}

/// Looks until it is so. Errors count as not yet, and the last one is told.
fn until(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    loop {
        let seen = match look() {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(error) => format!(": {error:#}"),
        };
        if started.elapsed() > DEADLINE {
            bail!("waited {} s for {what}{seen}", DEADLINE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}
