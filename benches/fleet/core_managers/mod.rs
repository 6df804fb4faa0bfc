//! Compares core managers: upstream's, then Capstan's, alternating, on the same API server with the same providers.
//! Clusters are created at once, stay idle, and are scaled, upgraded and deleted.

mod report;
mod stage;

use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_benches::fleet::census::Wanted;
use capstan_benches::process::{memory, peak_memory};
use capstan_testkit::eventually;
use capstan_tests::{InMemoryCluster, namespaced};
use kube::api::ListParams;
use serde_json::json;

use crate::follow::Follower;
use crate::meter::{Meter, megabytes};
use crate::objects;
use crate::traffic::Traffic;
pub(crate) use report::{destinations, report};
use stage::Stage;

const NAMESPACE: &str = "default";
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANES: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const OLD: &str = "v1.36.0";
const NEW: &str = "v1.36.1";
const WORKERS: usize = 3;
/// A core manager that has not written for so long has settled.
const IDLE_PERIOD: Duration = Duration::from_secs(5);

/// Whose core manager it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Upstream,
    Ours,
}

/// What was measured of one core manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Name of each phase, and its seconds.
    pub(crate) phases: Vec<(&'static str, f64)>,
    /// Seconds on a processor, over all phases.
    pub(crate) processor: f64,
    pub(crate) peak: f64,
    pub(crate) started_memory: f64,
    /// Over all phases, without the time at rest.
    pub(crate) traffic: Traffic,
    /// Of all clients, at rest as well.
    pub(crate) answered: f64,
    /// Machines there have been.
    pub(crate) machines: f64,
    /// Percent of a core.
    pub(crate) idle_processor: f64,
    pub(crate) idle_seconds: f64,
    pub(crate) idle: Traffic,
    pub(crate) not_idle: usize,
}

/// Measures one core manager on a plane of its own.
pub(crate) async fn measure(contender: Contender, clusters: usize, idle: Duration) -> Result<Figures> {
    eprintln!("core of {contender:?}: {clusters} clusters of 1 server and {WORKERS} workers");
    let deadline = Duration::from_secs(600 + 20 * clusters as u64);
    let mut stage = Stage::start(contender).await?;
    let core = stage.core()?;
    let mut follower = Follower::start(&stage.client, NAMESPACE);
    let names: Vec<String> = (0..clusters).map(|number| format!("c{number:04}")).collect();
    let api = |version: &str, kind: &str| namespaced(&stage.client, NAMESPACE, version, kind);
    let (all, deployments) = (api(CORE, "Cluster"), api(CORE, "MachineDeployment"));
    let (planes, answered) = (api(CONTROL_PLANES, "KubeadmControlPlane"), stage.answered().await?);
    let workers: Vec<String> = names.iter().map(|name| format!("{name}-worker")).collect();
    let mut figures = Figures { started_memory: megabytes(memory(core)), ..Figures::default() };
    stage.log.take()?;

    let meter = Meter::start(core);
    let wanted: Vec<_> = names.iter().flat_map(|name| cluster(name).objects()).collect();
    let ready = follower.clusters(clusters, Wanted { machines: 1 + WORKERS, version: None }, deadline);
    tokio::try_join!(objects::create(&stage.client, wanted), ready)?;
    figures.phase(&mut stage, "created", &meter, deadline).await?;

    // What a core manager does once after a while is done before it is watched at rest.
    let idle_period = idle + IDLE_PERIOD;
    figures.traffic.merge(&stage.log.wait_until_idle(idle_period, 3 * idle_period).await?.traffic);
    eprintln!("  at rest for {} s", idle.as_secs());
    let meter = Meter::start(core);
    tokio::time::sleep(idle).await;
    figures.idle_seconds = meter.wall();
    figures.idle_processor = 100.0 * meter.processor() / figures.idle_seconds;
    figures.idle = stage.log.take()?;

    let meter = Meter::start(core);
    objects::patch(&deployments, &workers, &json!({"spec": {"replicas": WORKERS + 1}})).await?;
    follower.clusters(clusters, Wanted { machines: 2 + WORKERS, version: None }, deadline).await?;
    figures.phase(&mut stage, "scaled", &meter, deadline).await?;

    let meter = Meter::start(core);
    objects::patch(&planes, &names, &json!({"spec": {"version": NEW}})).await?;
    eventually(deadline, "control planes of the new version", async || {
        let planes = planes.list(&ListParams::default()).await?.items;
        let new = planes.iter().filter(|plane| plane.data["status"]["version"] == NEW).count();
        ensure!(new == clusters, "{new} of {clusters} control planes are upgraded");
        Ok(())
    })
    .await?;
    let change = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    objects::patch(&deployments, &workers, &change).await?;
    let upgraded = Wanted { machines: 2 + WORKERS, version: Some(NEW) };
    follower.clusters(clusters, upgraded, deadline).await?;
    figures.phase(&mut stage, "upgraded", &meter, deadline).await?;

    let meter = Meter::start(core);
    objects::delete(&all, &names).await?;
    follower.gone(0, deadline).await?;
    eventually(deadline, "the clusters to be deleted", async || {
        let left = all.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} clusters are left");
        Ok(())
    })
    .await?;
    figures.phase(&mut stage, "deleted", &meter, deadline).await?;

    figures.machines = follower.census().ever() as f64;
    figures.peak = megabytes(peak_memory(core));
    figures.answered = stage.answered().await? - answered;
    stage.ensure_running()?;
    Ok(figures)
}

impl Figures {
    /// Closes a phase: its time ends now, its requests and its processor when the manager is idle.
    async fn phase(
        &mut self,
        stage: &mut Stage,
        name: &'static str,
        meter: &Meter,
        deadline: Duration,
    ) -> Result<()> {
        let wall = meter.wall();
        let rest = stage.log.wait_until_idle(IDLE_PERIOD, deadline).await?;
        eprintln!("  {name} in {wall:.1} s, {:.2} s of CPU", meter.processor());
        self.phases.push((name, wall));
        self.processor += meter.processor();
        self.traffic.merge(&rest.traffic);
        self.not_idle += usize::from(!rest.is_idle);
        Ok(())
    }
}

fn cluster(name: &str) -> InMemoryCluster {
    InMemoryCluster {
        namespace: NAMESPACE.into(),
        name: name.into(),
        version: OLD.into(),
        control_planes: 1,
        workers: WORKERS as u32,
    }
}
