//! The plane for both core managers: a real API server and etcd, and all of upstream's providers. Only the core manager
//! differs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_benches::fleet::audit::Request;
use capstan_benches::fleet::prometheus;
use capstan_testkit::{
    CrdSet, FeatureGates, Manager, RealPlane, UpstreamManagers, eventually, install_crds,
    install_upstream_crds,
};
use capstan_tests::Running;

use super::Contender;
use crate::follow::client;
use crate::traffic::{Log, Sender};

const READY: Duration = Duration::from_secs(120);
/// The user that the core manager is: only its requests are in the audit log.
const CORE: &str = "core-manager";
const PROVIDERS: [Manager; 3] = [Manager::KubeadmBootstrap, Manager::KubeadmControlPlane, Manager::Dev];
const PROVIDER_CRDS: [CrdSet; 3] = [CrdSet::KubeadmBootstrap, CrdSet::KubeadmControlPlane, CrdSet::Dev];

/// The core manager that is measured. Dropping it ends it.
enum Core {
    Upstream(UpstreamManagers),
    Ours(Running),
}

/// The plane with everything that runs on it.
pub(crate) struct Stage {
    // In this order: managers end before the plane does.
    core: Core,
    providers: UpstreamManagers,
    pub(crate) log: Log,
    pub(crate) client: kube::Client,
    plane: RealPlane,
}

impl Stage {
    /// Starts everything, and returns when all are ready.
    pub(crate) async fn start(contender: Contender) -> Result<Self> {
        let plane = RealPlane::start_audited(CORE).await?;
        // The same CRDs for both: ours, which need no webhook. Upstream's core is spared its own.
        install_crds(&plane.client(), &capstan_api::crd::all()).await?;
        install_upstream_crds(&plane.client(), &PROVIDER_CRDS).await?;
        let none = FeatureGates::new();
        let providers = UpstreamManagers::start_on(plane.kubeconfig(), &PROVIDERS, &none).await?;
        let kubeconfig = plane.kubeconfig_for(CORE, &["system:masters"])?;
        let core = match contender {
            Contender::Upstream => {
                Core::Upstream(UpstreamManagers::start_on(&kubeconfig, &[Manager::Core], &none).await?)
            }
            Contender::Ours => Core::Ours(ours(&plane, kubeconfig).await?),
        };
        let client = client(plane.kubeconfig()).await?;
        let log = Log::at(&plane.audit_log(), sender);
        Ok(Self { core, providers, log, client, plane })
    }

    /// The process id of the core manager.
    pub(crate) fn core(&self) -> Result<u32> {
        match &self.core {
            Core::Upstream(managers) => managers.process_ids().first().copied().context("no core manager"),
            Core::Ours(running) => Ok(running.id()),
        }
    }

    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.providers.ensure_running()?;
        match &mut self.core {
            Core::Upstream(managers) => managers.ensure_running(),
            Core::Ours(running) => running.ensure_running(),
        }
    }

    /// How many requests the API server has answered, whoever sent them.
    pub(crate) async fn answered(&self) -> Result<f64> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.plane.client().request_text(request).await.context("no metrics")?;
        Ok(prometheus::sum(&text, "apiserver_request_total", |_| true))
    }
}

/// `capstan manager` with the core controllers only.
async fn ours(plane: &RealPlane, kubeconfig: PathBuf) -> Result<Running> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let (kubeconfig, data) = (text(kubeconfig), text(plane.folder().join("capstan")));
    let output = plane.folder().join("capstan.log");
    let args = ["manager", "--controllers=core", "--kubeconfig", &kubeconfig, "--data-dir", &data];
    let mut running = Running::start(&args, &output)?;
    eventually(READY, "capstan manager to work", async || {
        if let Err(dead) = running.ensure_running() {
            return Ok(Err(dead));
        }
        let said = std::fs::read_to_string(&output)?;
        ensure!(said.lines().any(|line| line.starts_with("controllers: ")), "it does not say so yet");
        Ok(Ok(()))
    })
    .await??;
    Ok(running)
}

fn sender(request: &Request<'_>) -> Sender {
    if request.user == CORE { Sender::Controllers } else { Sender::Others }
}
