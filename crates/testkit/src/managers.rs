//! Runs Cluster API's own managers as processes.
//!
//! Their webhook servers run, because a manager does not start without one. A test that needs the webhooks called must
//! configure the plane with their URLs ([`UpstreamManagers::webhook`]); otherwise it must create objects with all
//! defaults set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_tools::{Program, locate};
use tempfile::TempDir;

use crate::machine_lock::MachineLock;
use crate::pki::Authority;
use crate::process::{Crew, Launch, Process};
use crate::{RealPlane, eventually, health, install_crypto_provider, ports};

/// A manager is healthy when its webhook server runs; before that come discovery and all its set-up.
const HEALTHY_DEADLINE: Duration = Duration::from_secs(120);
/// The dev manager's debug server, which has no flag. Its workload clusters take the ports from 20000 on.
const DEV_DEBUG_PORT: u16 = 19000;

/// One of upstream's managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manager {
    /// Cluster, Machine, MachineSet, MachineDeployment and the rest of core.
    Core,
    /// KubeadmConfig.
    KubeadmBootstrap,
    /// KubeadmControlPlane.
    KubeadmControlPlane,
    /// DevCluster and DevMachine. Only one runs at a time on a computer: a start waits until the others have ended.
    Dev,
}

impl Manager {
    /// All managers.
    pub const ALL: [Self; 4] = [Self::Core, Self::KubeadmBootstrap, Self::KubeadmControlPlane, Self::Dev];

    fn program(self) -> Program {
        match self {
            Self::Core => Program::CapiCore,
            Self::KubeadmBootstrap => Program::CapiKubeadmBootstrap,
            Self::KubeadmControlPlane => Program::CapiKubeadmControlPlane,
            Self::Dev => Program::CapiDev,
        }
    }
}

/// Upstream's feature gates by name, enabled or disabled; gates that are not listed keep upstream's default.
pub type FeatureGates = BTreeMap<String, bool>;

/// Running managers of upstream. Dropping the value stops them.
pub struct UpstreamManagers {
    // In this order: the next dev manager may start when ours has ended.
    crew: Crew,
    _folder: TempDir,
    _machine_lock: Option<MachineLock>,
    webhooks: BTreeMap<Manager, ManagerWebhook>,
}

/// URL and CA of a manager's webhooks.
#[derive(Clone, Debug)]
pub struct ManagerWebhook {
    /// URL of the webhook server, without a path.
    pub url: String,
    /// CA of the serving certificate, as PEM.
    pub authority: String,
}

/// What came of one attempt to start.
type Started = (Crew, TempDir, BTreeMap<Manager, ManagerWebhook>);

impl UpstreamManagers {
    /// Starts the managers `which` on `plane`, and returns when all are healthy. The plane must have the CRDs of all
    /// kinds that they watch; a manager exits after some minutes if one is missing.
    pub async fn start(plane: &RealPlane, which: &[Manager]) -> Result<Self> {
        Self::start_on(plane.kubeconfig(), which, &FeatureGates::new()).await
    }

    /// Like [`UpstreamManagers::start`], for any API server, with feature gates.
    pub async fn start_on(kubeconfig: &Path, which: &[Manager], gates: &FeatureGates) -> Result<Self> {
        install_crypto_provider();
        let machine_lock = match which.contains(&Manager::Dev) {
            true => Some(MachineLock::take("capi-dev", DEV_DEBUG_PORT).await?),
            false => None,
        };
        let start = async || Self::start_once(kubeconfig, which, gates).await;
        let started = ports::retrying(start).await.context("upstream's managers do not start")?;
        let (crew, folder, webhooks) = started;
        Ok(Self { crew, _folder: folder, _machine_lock: machine_lock, webhooks })
    }

    async fn start_once(kubeconfig: &Path, which: &[Manager], gates: &FeatureGates) -> Result<Started> {
        let folder = TempDir::with_prefix("capstan-managers-").context("no temporary folder")?;
        let mut crew = Crew::default();
        let mut health_ports = Vec::new();
        let mut webhooks = BTreeMap::new();
        for &manager in which {
            let name = manager.program().name();
            let [webhook, health, diagnostics] = ports::free()?;
            let certificates = folder.path().join(name);
            fs::create_dir(&certificates)
                .with_context(|| format!("cannot make {}", certificates.display()))?;
            let authority = Authority::new(name)?;
            authority.server(name, &[])?.write(&certificates, "tls")?;
            let (url, authority) = (format!("https://127.0.0.1:{webhook}"), authority.certificate());
            webhooks.insert(manager, ManagerWebhook { url, authority });
            let mut launch = Launch::new(locate(manager.program())?)
                .path_arg("--kubeconfig", kubeconfig)
                .path_arg("--webhook-cert-dir", &certificates)
                .arg(format!("--webhook-port={webhook}"))
                .arg(format!("--health-addr=127.0.0.1:{health}"))
                .arg(format!("--diagnostics-address=127.0.0.1:{diagnostics}"))
                .arg("--insecure-diagnostics")
                // Where it tells workload clusters to be reached.
                .env("POD_IP", "127.0.0.1");
            if !gates.is_empty() {
                let gates: Vec<_> = gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
                launch = launch.arg(format!("--feature-gates={}", gates.join(",")));
            }
            crew.add(Process::spawn(name, &launch, folder.path())?);
            health_ports.push((name, health));
        }
        for (name, port) in health_ports {
            let healthy = eventually(HEALTHY_DEADLINE, &format!("{name} to be healthy"), async || {
                if let Err(dead) = crew.ensure_running() {
                    return Ok(Err(dead));
                }
                health::ok(port, "/readyz").await?;
                health::ok(port, "/healthz").await.map(Ok)
            })
            .await;
            healthy.with_context(|| format!("the ends of the logs:\n{}", crew.tails()))??;
        }
        Ok((crew, folder, webhooks))
    }

    /// Fails with the end of the manager's log if one of them has exited.
    pub fn ensure_running(&mut self) -> Result<()> {
        self.crew.ensure_running()
    }

    /// The webhooks of a manager, if it was started.
    pub fn webhook(&self, manager: Manager) -> Option<&ManagerWebhook> {
        self.webhooks.get(&manager)
    }

    /// The lines of all logs that contain one of `words`, each prefixed with the name of its manager.
    pub fn log_lines(&self, words: &[&str]) -> Vec<String> {
        self.crew.log_lines(words)
    }

    /// Process IDs of the managers.
    pub fn process_ids(&self) -> Vec<u32> {
        self.crew.ids()
    }
}
