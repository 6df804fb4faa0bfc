//! The two planes, each in its own processes, with their data on the same disk and with fsync.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use capstan_testkit::{DurablePlane, eventually, install_crds};
use capstan_tests::Running;
use http::Method;
use tempfile::TempDir;

use crate::wire::PlaneEndpoint;

const READY: Duration = Duration::from_secs(300);
/// How often it is looked whether a plane is ready.
const LOOK: Duration = Duration::from_millis(2);

/// A plane that can be stopped and started again on its data.
pub(crate) enum BenchPlane {
    Embedded { running: Option<Running>, folder: TempDir },
    Real(Box<DurablePlane>),
}

impl BenchPlane {
    /// `capstan up` without controllers, out of the binary that `CAPSTAN_BINARY` names.
    pub(crate) async fn embedded() -> Result<Self> {
        ensure!(
            std::env::var_os("CAPSTAN_BINARY").is_some(),
            "CAPSTAN_BINARY must name a release build of capstan"
        );
        let mut plane = Self::Embedded { running: None, folder: tempfile::tempdir()? };
        // It brings its CRDs with it.
        plane.start(None).await?;
        Ok(plane)
    }

    /// etcd and kube-apiserver, with the same CRDs.
    pub(crate) async fn real() -> Result<Self> {
        let plane = DurablePlane::start().await?;
        let client = capstan_testkit::client(plane.kubeconfig()).await?;
        install_crds(&client, &capstan_api::crd::all()).await?;
        Ok(Self::Real(Box::new(plane)))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Embedded { .. } => "embedded",
            Self::Real(_) => "real",
        }
    }

    pub(crate) fn endpoint(&self) -> Result<PlaneEndpoint> {
        PlaneEndpoint::of(&self.kubeconfig())
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded { folder, .. } => folder.path().join("kubeconfig"),
            Self::Real(plane) => plane.kubeconfig().to_owned(),
        }
    }

    /// What runs: names and process ids.
    pub(crate) fn processes(&self) -> Vec<(&'static str, u32)> {
        match self {
            Self::Embedded { running, .. } => {
                running.iter().map(|running| ("capstan", running.id())).collect()
            }
            Self::Real(plane) => plane.processes(),
        }
    }

    /// The sum over all that runs.
    pub(crate) fn total<T: std::iter::Sum>(&self, of: fn(u32) -> T) -> T {
        self.processes().into_iter().map(|(_, id)| of(id)).sum()
    }

    /// Stops it in order and starts it anew; how long it took until it was ready and served the object at `path`.
    pub(crate) async fn restart(&mut self, path: &str) -> Result<Duration> {
        match self {
            Self::Embedded { running, .. } => {
                let mut stopped = running.take().context("it does not run")?;
                stopped.terminate()?;
                stopped.ended(READY).await?;
            }
            Self::Real(plane) => plane.stop(),
        }
        self.start(Some(path)).await
    }

    async fn start(&mut self, path: Option<&str>) -> Result<Duration> {
        let started = Instant::now();
        match self {
            Self::Embedded { running, folder } => {
                let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
                let (data, kubeconfig) = (text("data"), text("kubeconfig"));
                let args = ["up", "--controllers=none", "--listen=127.0.0.1:0"];
                let args = [&args[..], &["--data-dir", &data, "--kubeconfig-out", &kubeconfig]].concat();
                let log = folder.path().join("log");
                // What it says next is about this start.
                std::fs::write(&log, "")?;
                *running = Some(Running::start(&args, &log)?);
            }
            Self::Real(plane) => plane.launch()?,
        }
        let deadline = started + READY;
        loop {
            let Err(error) = self.serves(path).await else { return Ok(started.elapsed()) };
            ensure!(Instant::now() < deadline, "not ready: {error:#}");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn serves(&self, path: Option<&str>) -> Result<()> {
        if let Self::Embedded { folder, .. } = self {
            // It answers before it has looked after its CRDs.
            let log = std::fs::read_to_string(folder.path().join("log"))?;
            ensure!(log.lines().any(|line| line.starts_with("ready: ")), "it does not say so yet");
        }
        let mut client = self.endpoint()?.enter().await?;
        for path in std::iter::once("/readyz").chain(path) {
            client.ask(Method::GET, path, Bytes::new()).await?;
        }
        Ok(())
    }

    /// Waits until it uses no processor any more.
    pub(crate) async fn wait_until_idle(&self) -> Result<()> {
        eventually(READY, "the plane to come to rest", async || {
            let before = self.total(capstan_benches::process::processor);
            tokio::time::sleep(Duration::from_secs(2)).await;
            let used = self.total(capstan_benches::process::processor) - before;
            ensure!(used < Duration::from_millis(300), "it used {used:?} of 2 s");
            Ok(())
        })
        .await
    }
}
