//! `capstan up` with all controllers and simulated hosts. It can be stopped and started again on its data.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_benches::fleet::audit::Request;
use capstan_testkit::eventually;
use capstan_tests::Running;
use tempfile::TempDir;

use crate::follow::BENCH;
use crate::traffic::{Log, Sender};

const READY: Duration = Duration::from_secs(600);

/// The plane. Dropping it kills it and removes all it wrote.
pub(crate) struct FleetPlane {
    running: Option<Running>,
    folder: TempDir,
    pub(crate) log: Log,
}

impl FleetPlane {
    pub(crate) async fn start() -> Result<Self> {
        let folder = TempDir::with_prefix("capstan-fleet-").context("no temporary folder")?;
        let log = Log::at(&folder.path().join("audit.log"), sender);
        let mut plane = Self { running: None, folder, log };
        plane.launch().await?;
        Ok(plane)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("data/admin.kubeconfig")
    }

    pub(crate) fn id(&self) -> Result<u32> {
        Ok(self.running.as_ref().context("the plane does not run")?.id())
    }

    /// Fails, with the end of its log, if it has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.running.as_mut().context("the plane does not run")?.ensure_running()
    }

    pub(crate) async fn stop(&mut self) -> Result<()> {
        let mut running = self.running.take().context("the plane does not run")?;
        running.terminate()?;
        running.ended(READY).await?;
        Ok(())
    }

    /// Starts it and returns when it is ready: after so long.
    pub(crate) async fn launch(&mut self) -> Result<Duration> {
        let [data, audit] = ["data", "audit.log"].map(|name| text(&self.path(name)));
        let output = self.path("output");
        // What it says next is about this start.
        std::fs::write(&output, "").context("cannot write a log")?;
        let started = Instant::now();
        let args = ["up", "--listen=127.0.0.1:0", "--data-dir", &data, "--audit-log", &audit];
        let mut running = Running::start(&args, &output)?;
        let ready = eventually(READY, "the plane to be ready", async || {
            if let Err(dead) = running.ensure_running() {
                return Ok(Err(dead));
            }
            let said = std::fs::read_to_string(&output)?;
            ensure!(said.lines().any(|line| line.starts_with("ready: ")), "it does not say so yet");
            Ok(Ok(started.elapsed()))
        })
        .await;
        self.running = Some(running);
        ready?
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Controllers are in the same process as the server. All others come over the network: this program, and agents.
fn sender(request: &Request<'_>) -> Sender {
    match request.is_remote {
        _ if request.agent.as_deref() == Some(BENCH) => Sender::Others,
        true => Sender::Machines,
        false => Sender::Controllers,
    }
}
