//! All of Capstan: embedded plane, all controllers and simulated hosts in one process. A fleet of clusters is created
//! at once; then it stays idle, gets one more machine, and is restarted.

mod clusters;
mod plane;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use capstan_benches::fleet::census::Wanted;
use capstan_benches::fleet::prometheus;
use capstan_benches::process::{memory, peak_memory, processor as processor_of};
use capstan_tests::namespaced;
use serde_json::json;

use crate::follow::{Follower, client};
use crate::meter::{Meter, megabytes};
use crate::objects;
use crate::traffic::Traffic;
use clusters::{NAMESPACE, Template, hosts};
use plane::FleetPlane;
pub(crate) use report::{destinations, report};

/// The cluster that gets more machines, in the empty plane and in the full one.
const PROBE: &str = "probe";
const PROBE_WORKERS: usize = 3;
/// Machines that it gets each time, one after the other.
const MORE: usize = 5;
/// Controllers that have not written for this period are idle.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// The same after a restart, when controllers first read everything.
const IDLE_PERIOD_AFTER_START: Duration = Duration::from_secs(15);

/// A fleet: clusters of one server and so many workers each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) clusters: usize,
    pub(crate) workers: usize,
}

impl Shape {
    pub(crate) fn machines(self) -> usize {
        self.clusters * (1 + self.workers)
    }

    /// No phase takes longer, unless something is wrong.
    fn deadline(self) -> Duration {
        Duration::from_secs(300 + 2 * self.machines() as u64)
    }
}

/// What a Machine costs that comes to a plane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneMore {
    pub(crate) wall: f64,
    pub(crate) processor: f64,
    pub(crate) writes: f64,
    pub(crate) requests: f64,
}

/// What a plane at rest uses in each second.
#[derive(Clone, Copy, Debug, Default)]
struct Background {
    processor: f64,
    requests: f64,
}

/// What was measured of one fleet.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// From the first creation until every Machine was ready.
    pub(crate) wall: f64,
    /// From the first creation until the controllers had settled, in seconds on a processor.
    pub(crate) processor: f64,
    pub(crate) peak: f64,
    /// Until the controllers were idle.
    pub(crate) traffic: Traffic,
    /// Revisions of the store meanwhile, whoever wrote: a write that changes nothing makes none.
    pub(crate) stored: f64,
    /// Phases after which the controllers did not stop writing.
    pub(crate) not_idle: usize,
    /// Share of a core while nothing happens, in percent.
    pub(crate) idle_processor: f64,
    pub(crate) idle_memory: f64,
    pub(crate) idle: Traffic,
    pub(crate) idle_seconds: f64,
    /// In the empty plane, and in the full one.
    pub(crate) one_more: [OneMore; 2],
    /// From the start of the process until it said that it is ready.
    pub(crate) restart_ready: f64,
    /// From its start until the last request of a controller.
    pub(crate) restart_settled: f64,
    pub(crate) restart_processor: f64,
    pub(crate) restart: Traffic,
    /// Revisions of the store from before the stop until the controllers had settled.
    pub(crate) restart_stored: f64,
}

/// Measures one fleet on a plane of its own.
pub(crate) async fn measure(shape: Shape, idle: Duration) -> Result<Figures> {
    let (Shape { clusters, workers }, deadline) = (shape, shape.deadline());
    eprintln!("capstan whole: {clusters} clusters of 1 server and {workers} workers");
    let mut plane = FleetPlane::start().await?;
    let client = client(&plane.kubeconfig()).await?;
    let count = shape.machines() + 1 + PROBE_WORKERS + 2 * MORE;
    hosts(&client, count, deadline).await?;
    eprintln!("  {count} hosts are available");
    let mut follower = Follower::start(&client, NAMESPACE);
    let mut not_idle = 0;

    objects::create(&client, Template::with_workers(PROBE_WORKERS)?.objects(PROBE)?).await?;
    follower.machines(Some(PROBE), 1 + PROBE_WORKERS, deadline).await?;
    not_idle += usize::from(!plane.log.wait_until_idle(IDLE_PERIOD, deadline).await?.is_idle);
    let nothing = Background::default();
    let empty = one_more(&mut plane, &client, &mut follower, PROBE_WORKERS, nothing, deadline).await?;

    let template = Template::with_workers(workers)?;
    let names = (0..clusters).map(|number| format!("c{number:04}"));
    let wanted: Vec<_> = names.map(|name| template.objects(&name)).collect::<Result<Vec<_>>>()?;
    plane.log.take()?;
    let before_fleet = revision(&client).await?;
    let meter = Meter::start(plane.id()?);
    let creating = objects::create(&client, wanted.into_iter().flatten().collect());
    let ready = follower.clusters(clusters, Wanted { machines: 1 + workers, version: None }, deadline);
    tokio::try_join!(creating, ready)?;
    plane.ensure_running()?;
    let wall = meter.wall();
    let rest = plane.log.wait_until_idle(IDLE_PERIOD, deadline).await?;
    let (processor, peak) = (meter.processor(), megabytes(peak_memory(plane.id()?)));
    not_idle += usize::from(!rest.is_idle);
    let writes = rest.traffic.sum(|tally| tally.writes);
    eprintln!("  ready in {wall:.1} s; settled after {processor:.1} s of CPU, {peak:.0} MB, {writes} writes");

    let of_the_fleet = rest.traffic;
    let stored = revision(&client).await? - before_fleet;
    pause(&mut plane, idle).await?;
    eprintln!("  at rest for {} s", idle.as_secs());
    let meter = Meter::start(plane.id()?);
    tokio::time::sleep(idle).await;
    let idle_seconds = meter.wall();
    let idle_processor = meter.processor() / idle_seconds;
    let at_rest = plane.log.take()?;
    let idle_memory = megabytes(memory(plane.id()?));

    let before = PROBE_WORKERS + MORE;
    let requests = at_rest.controllers.total().requests as f64 / idle_seconds;
    let background = Background { processor: idle_processor, requests };
    let full = one_more(&mut plane, &client, &mut follower, before, background, deadline).await?;
    drop(follower);

    pause(&mut plane, idle).await?;
    let before_stop = revision(&client).await?;
    plane.stop().await?;
    plane.log.take()?;
    let started = Instant::now();
    let restart_ready = plane.launch().await?.as_secs_f64();
    let ready_after = started.elapsed();
    let again = plane.log.wait_until_idle(IDLE_PERIOD_AFTER_START, deadline).await?;
    not_idle += usize::from(!again.is_idle);
    // The process is a new one: all it has used.
    let restart_processor = processor_of(plane.id()?).as_secs_f64();
    let restart_stored = revision(&client).await? - before_stop;
    let mut follower = Follower::start(&client, NAMESPACE);
    follower.machines(None, shape.machines() + 1 + PROBE_WORKERS + 2 * MORE, deadline).await?;
    ensure!(follower.census().machines() == count, "there are other Machines after the restart");
    plane.ensure_running()?;
    Ok(Figures {
        wall,
        processor,
        peak,
        traffic: of_the_fleet,
        stored,
        not_idle,
        idle_processor: idle_processor * 100.0,
        idle_memory,
        idle: at_rest,
        idle_seconds,
        one_more: [empty, full],
        restart_ready,
        restart_settled: (ready_after + again.last_request).as_secs_f64(),
        restart_processor,
        restart: again.traffic,
        restart_stored,
    })
}

/// The last revision of the plane's store.
async fn revision(client: &kube::Client) -> Result<f64> {
    let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    Ok(prometheus::sum(&text, "apiserver_storage_revision", |_| true))
}

/// Waits until controllers have not written for longer than they are watched at rest, so that what they do once a minute after a change
/// is done. If they never stop, the figures at rest say so.
async fn pause(plane: &mut FleetPlane, idle: Duration) -> Result<()> {
    let idle_period = idle + IDLE_PERIOD;
    plane.log.wait_until_idle(idle_period, 3 * idle_period).await?;
    Ok(())
}

/// Gives the probe [`MORE`] workers, one after the other. What the plane uses anyway is taken off.
async fn one_more(
    plane: &mut FleetPlane,
    client: &kube::Client,
    follower: &mut Follower,
    workers: usize,
    background: Background,
    deadline: Duration,
) -> Result<OneMore> {
    let deployments = namespaced(client, NAMESPACE, "cluster.x-k8s.io/v1beta2", "MachineDeployment");
    plane.log.take()?;
    let meter = Meter::start(plane.id()?);
    for more in 1..=MORE {
        let change = json!({"spec": {"replicas": workers + more}});
        objects::patch(&deployments, &[format!("{PROBE}-workers")], &change).await?;
        follower.machines(Some(PROBE), 1 + workers + more, deadline).await?;
    }
    let wall = meter.wall();
    let traffic = plane.log.wait_until_idle(IDLE_PERIOD, deadline).await?.traffic;
    let processor = meter.processor() - background.processor * meter.wall();
    let requests = traffic.controllers.total().requests as f64 - background.requests * meter.wall();
    let each = |value: f64| value / MORE as f64;
    Ok(OneMore {
        wall: each(wall),
        processor: each(processor),
        writes: each(traffic.sum(|tally| tally.writes) as f64),
        requests: each(requests),
    })
}
