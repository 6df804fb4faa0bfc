//! A real plane for benchmarks: etcd with fsync and kube-apiserver, and no other program. They can be stopped and
//! started again on their data.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::pki::Authority;
use crate::plane::Files;
use crate::process::{Crew, Process};
use crate::{eventually, install_crypto_provider, kubeconfig, ports};

const READY_DEADLINE: Duration = Duration::from_secs(120);
const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// etcd and kube-apiserver. Dropping the value stops them and removes their data.
pub struct DurablePlane {
    // In this order: what runs in the folder ends before the folder goes.
    crew: Crew,
    folder: TempDir,
    files: Files,
    /// Of etcd's clients, etcd's peers, and kube-apiserver.
    ports: [u16; 3],
    admin: PathBuf,
}

impl DurablePlane {
    /// Starts a plane, and returns when it is ready.
    pub async fn start() -> Result<Self> {
        install_crypto_provider();
        ports::retrying(Self::start_once).await.context("a durable plane does not start")
    }

    async fn start_once() -> Result<Self> {
        let folder = TempDir::with_prefix("capstan-durable-").context("no temporary folder")?;
        let ports = ports::free()?;
        let authority = Authority::new("plane")?;
        let files = Files::write(folder.path(), &authority, ADDRESS)?;
        let admin = folder.path().join("admin.kubeconfig");
        let server = format!("https://{ADDRESS}:{}", ports[2]);
        let identity = authority.client("admin", &["system:masters"])?;
        kubeconfig::write_kubeconfig(&admin, &server, &authority.certificate(), &identity)?;
        let client = kubeconfig::client(&admin).await?;
        let mut plane = Self { crew: Crew::default(), folder, files, ports, admin };
        plane.launch()?;
        let waited = eventually(READY_DEADLINE, "the API server to be ready", async || {
            if let Err(dead) = plane.crew.ensure_running() {
                return Ok(Err(dead));
            }
            client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            Ok(Ok(()))
        })
        .await;
        waited.with_context(|| format!("the ends of the logs:\n{}", plane.crew.tails()))??;
        Ok(plane)
    }

    /// Starts the programs and returns at once: kube-apiserver waits for etcd by itself.
    pub fn launch(&mut self) -> Result<()> {
        let [etcd, peer, apiserver] = self.ports;
        let launches = [
            ("etcd", self.files.etcd(etcd, peer)?),
            ("kube-apiserver", self.files.apiserver(ADDRESS, apiserver, etcd)?),
        ];
        for (name, launch) in launches {
            self.crew.add(Process::spawn(name, &launch, self.folder.path())?);
        }
        Ok(())
    }

    /// Stops the programs and keeps their data.
    pub fn stop(&mut self) {
        self.crew = Crew::default();
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Names and process IDs of the programs.
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        ["etcd", "kube-apiserver"].into_iter().zip(self.crew.ids()).collect()
    }
}
