//! The embedded plane, as `capstan up` serves it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_testkit::{eventually, install_crypto_provider};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Place, Running};

const READY_DEADLINE: Duration = Duration::from_secs(120);

/// `capstan up` without controllers, in its own folder. Dropping the value kills it.
pub struct Embedded {
    _running: Running,
    folder: TempDir,
}

impl Embedded {
    /// Starts a plane on loopback, and returns when it is ready.
    pub async fn start() -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// Starts a plane on this address, and returns when it is ready.
    pub async fn start_at(address: Ipv4Addr) -> Result<Self> {
        install_crypto_provider();
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (listen, data, kubeconfig) = (format!("{address}:0"), text("data"), text("kubeconfig"));
        let args = [
            "up",
            "--controllers",
            "none",
            "--listen",
            &listen,
            "--data-dir",
            &data,
            "--kubeconfig-out",
            &kubeconfig,
        ];
        let running = Running::start(&args, &folder.path().join("log"))?;
        let plane = Self { _running: running, folder };
        eventually(READY_DEADLINE, "the plane to be ready", async || {
            let admin = Place::of(&plane.kubeconfig())?.admin().await?;
            let answer = admin.ask("GET", "/readyz", &Value::Null).await?;
            ensure!(answer.code == 200, "{answer:?}");
            Ok(())
        })
        .await?;
        Ok(plane)
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}
