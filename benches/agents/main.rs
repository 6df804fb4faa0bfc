//! Three thousand agents on one embedded plane: requests, processor time and memory of the plane while nothing happens, how late
//! heartbeats are, and how long a plan takes to reach a machine.
//!
//! Some of the agents are the released program, each in a folder of its own. The others speak its protocol: a connection with a
//! watch of the plan, and one that renews the Lease in the interval that a fleet of this size has. All are enrolled machines with a
//! token and rights of their own. They come from many loopback addresses, because the plane limits the connections of one.
//!
//! `CAPSTAN_BINARY` and `CAPSTAN_AGENT_BINARY` are the released programs; `make bench` builds them. With `SMALL` the benchmark only
//! shows that it works.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "who measures may panic, and prints")]

mod herd;
#[allow(dead_code, reason = "the suite uses more of it")]
#[path = "../../tests/suites/agent/stage.rs"]
mod stage;
#[allow(dead_code, reason = "the benchmark of the plane uses more of it")]
#[path = "../plane/wire.rs"]
mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use capstan_benches::process::{memory, processor};
use capstan_plan::{Action, Argv, Command, Step};
use capstan_testkit::eventually;
use capstan_tests::Running;
use herd::Herd;
use serde_json::{Value, json};
use stage::{Agent, Stage};
use tempfile::TempDir;

struct Sizes {
    /// Agents that are the released program.
    real: usize,
    /// Agents that speak its protocol.
    others: usize,
    /// How long they have before anything is measured.
    settling: Duration,
    watched: Duration,
    /// Plans that are written to see when their first step begins.
    plans: u64,
}

const FULL: Sizes = Sizes {
    real: 60,
    others: 2_940,
    settling: Duration::from_secs(150),
    watched: Duration::from_secs(240),
    plans: 200,
};
const SMALL: Sizes = Sizes {
    real: 2,
    others: 50,
    settling: Duration::from_secs(10),
    watched: Duration::from_secs(20),
    plans: 5,
};

/// The interval of heartbeats in a fleet of more than 1,500 machines.
const INTERVAL: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() {
    capstan_testkit::install_crypto_provider();
    let sizes = if std::env::var_os("SMALL").is_some() { SMALL } else { FULL };
    let (plane, kubeconfig, _folder) = plane().await;
    let stage = Stage::new(&kubeconfig).await;
    println!(
        "{} agents: {} released programs, {} by protocol",
        sizes.real + sizes.others,
        sizes.real,
        sizes.others
    );
    let empty = memory(plane.id());

    let began = Instant::now();
    let mut real = Vec::new();
    for number in 0..sizes.real {
        real.push(start(&stage, number).await);
    }
    let herd = Herd::start(&stage, &kubeconfig, sizes.others, INTERVAL).await.unwrap();
    println!("all connected after {:.0?}", began.elapsed());
    tokio::time::sleep(sizes.settling).await;

    let (used, requests) = (processor(plane.id()), herd.requests());
    let since = Instant::now();
    tokio::time::sleep(sizes.watched).await;
    let (used, requests) = (processor(plane.id()) - used, herd.requests() - requests);
    let seconds = since.elapsed().as_secs_f64();
    let per_second = requests as f64 / seconds * (sizes.real + sizes.others) as f64 / sizes.others as f64;
    println!("at rest, over {seconds:.0} s:");
    println!(
        "  requests of agents       {per_second:.1}/s (a watch lasts 300 to 600 s, a heartbeat is due every {INTERVAL:?})"
    );
    println!("  processor of the plane   {:.2} % of a core", used.as_secs_f64() / seconds * 100.0);
    println!(
        "  memory of the plane      {:.0} MB ({:.0} MB without agents)",
        mb(memory(plane.id())),
        mb(empty)
    );
    let agents: Vec<u64> = real.iter().map(|(_, agent)| agent.memory()).collect();
    println!("  memory of an agent       {:.1} MB at most", mb(agents.into_iter().max().unwrap_or_default()));
    let delays = herd.delays();
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| percentile(&delays, share));
    println!(
        "  heartbeats               {} renewed; answered after p50 {p50:.1?}, p99 {p99:.1?}, at most {most:.1?}",
        delays.len()
    );
    println!("  failures of any request  {}", herd.failures());

    let mut times = Vec::new();
    for number in 0..sizes.plans {
        let at = number as usize % real.len();
        times.push(until_first_step(&real[at].0, 2 + number / real.len() as u64).await);
    }
    times.sort_unstable();
    let [p50, p99] = [0.5, 0.99].map(|share| percentile(&times, share));
    println!(
        "from the write of a plan to its first step, {} plans: p50 {p50:.1?}, p99 {p99:.1?}",
        sizes.plans
    );
    assert_eq!(herd.failures(), 0, "no request of an agent fails");
}

/// `capstan up` without controllers.
async fn plane() -> (Running, PathBuf, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (data, kubeconfig) = (text("data"), text("kubeconfig"));
    let args = [
        "up",
        "--controllers=none",
        "--listen=127.0.0.1:0",
        "--data-dir",
        &data,
        "--kubeconfig-out",
        &kubeconfig,
    ];
    let log = folder.path().join("log");
    let running = Running::start(&args, &log).unwrap();
    eventually(Duration::from_secs(120), "the plane to be ready", async || {
        let log = std::fs::read_to_string(&log)?;
        anyhow::ensure!(log.lines().any(|line| line.starts_with("ready: ")), "it does not say so yet");
        Ok(())
    })
    .await
    .unwrap();
    (running, kubeconfig.into(), folder)
}

/// An agent that is the released program, with an applied plan.
async fn start(stage: &Stage, number: usize) -> (Stage, Agent) {
    let machine = stage.another(&format!("real-{number}"), &format!("life-{number}")).await;
    let lease = stage::leases(&format!("/real-{number}-agent"));
    let annotation = json!({"metadata": {"annotations": {"capstan.dev/heartbeat-seconds": INTERVAL.as_secs().to_string()}}});
    machine.ask("PATCH", &lease, annotation).await;
    machine.start_machine().await;
    let mut enrolling = machine.spawn(&["enroll", "--no-service"]);
    eventually(stage::DEADLINE, "a request", async || machine.answer().await).await.unwrap();
    enrolling.succeeds().await;
    let agent = machine.spawn(&["run"]);
    let command = Command::new(Argv::new(["/bin/true"]).unwrap());
    let step = Step::new("first".parse().unwrap(), Action::Command(command));
    let plan = machine.plan(&machine.sealed(1, vec![step]), &[]).await;
    machine.says(plan, "Applied").await;
    (machine, agent)
}

/// Writes a plan, and returns how long it took from the answer of the plane until its first step ran.
async fn until_first_step(machine: &Stage, revision: u64) -> Duration {
    let mark = machine.at(&format!("/began-{revision}"));
    let script = format!("date +%s%N > {}", mark.display());
    let command = Command::new(Argv::new(["/bin/sh", "-c", &script]).unwrap());
    let step = Step::new(format!("mark-{revision}").parse().unwrap(), Action::Command(command));
    let plan = machine.plan(&machine.sealed(revision, vec![step]), &[]).await;
    let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    machine.says(plan, "Applied").await;
    let began: u64 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
    Duration::from_nanos(began).saturating_sub(written)
}

fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Also used by the herd: the body of a heartbeat.
fn renewal(holder: &str) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    let whole = k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let time = format!("{}.{:06}Z", whole.trim_end_matches('Z'), now.subsec_microsecond());
    json!({"spec": {
        "holderIdentity": holder, "leaseDurationSeconds": 3 * INTERVAL.as_secs(), "acquireTime": time, "renewTime": time,
    }})
}
