//! The idle agent compared with an idle rancher/system-agent: memory, processor time, size and writes, on the same embedded plane,
//! one after the other. Then how long it takes from the write of a plan until the agent begins its first step.
//!
//! `CAPSTAN_AGENT_BINARY` is the path of the released agent, `CAPSTAN_SYSTEM_AGENT` that of the other agent; `make
//! bench` builds both.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "who measures may panic, and prints")]

mod other;
mod rest;
#[allow(dead_code, reason = "the suite uses more of it")]
#[path = "../../tests/suites/agent/stage.rs"]
mod stage;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capstan_plan::{Action, Argv, Command, File, Mode, Step};
use capstan_testkit::install_crds;
use capstan_tests::Embedded;
use rest::{Rest, Watched, at_rest};
use stage::Stage;

/// Limits of the agent.
const MOST_MEMORY: u64 = 8_000_000;
const MOST_BYTES: u64 = 8_000_000;
/// In hundredths of a per cent of a core.
const MOST_PROCESSOR: u64 = 5;
const LATEST_STEP: Duration = Duration::from_millis(250);
/// How many plans are written to see when their first step begins.
const PLANS: u64 = 200;

#[tokio::main]
async fn main() {
    let plane = Embedded::start().await.unwrap();
    let kubeconfig = plane.kubeconfig();
    let config = kube::config::Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    let stage = Stage::new(&kubeconfig).await;

    let nobody = rest::writes(&stage, rest::INTERVAL).await;
    let (ours, begun) = ours(&stage).await;
    let theirs = other::at_rest_on(&stage, &kubeconfig).await;
    println!(
        "over {} s each, on the embedded plane ({nobody} writes with nobody there)",
        rest::INTERVAL.as_secs()
    );
    println!("{:<32}{:>16}{:>16}{:>10}{:>14}", "", "capstan-agent", "system-agent", "ratio", "limit");
    let line = |what: &str, of: fn(&Rest) -> u64, limit: Option<u64>| {
        let (a, b) = (of(&ours), of(&theirs));
        let ratio = if a == 0 { "-".to_owned() } else { format!("{:.1}", b as f64 / a as f64) };
        println!("{what:<32}{a:>16}{b:>16}{ratio:>10}{:>14}", limit.map_or(String::new(), |l| l.to_string()));
    };
    line("resident memory, bytes", |rest| rest.memory, Some(MOST_MEMORY));
    line("processor, 0.01 % of a core", share, Some(MOST_PROCESSOR));
    line("binary, bytes", |rest| rest.binary, Some(MOST_BYTES));
    line("writes on the API", |rest| rest.writes, None);
    line("bytes written to disk", |rest| rest.disk, None);
    println!("capstan-agent wrote its lease {} times, its report {} times", ours.leases, ours.reports);
    assert_eq!(ours.writes, ours.leases, "at rest there is only the heartbeat");
    let [p50, p99] = [0.5, 0.99].map(|part| begun[(begun.len() as f64 * part) as usize]);
    println!(
        "from the write of a plan to its first step, {PLANS} plans: p50 {p50:.1?}, p99 {p99:.1?} (limit {LATEST_STEP:?})"
    );
    let is_small = ours.memory <= MOST_MEMORY && ours.binary <= MOST_BYTES;
    assert!(is_small && share(&ours) <= MOST_PROCESSOR && p99 <= LATEST_STEP, "over the limit: {ours:?}");
}

/// Its share of a core, in hundredths of a per cent.
fn share(rest: &Rest) -> u64 {
    (rest.processor.as_secs_f64() / rest::INTERVAL.as_secs_f64() * 10_000.0).round() as u64
}

/// Our agent: enrolled, with a plan that it has carried out. Then the times until the first step of later plans, in order.
async fn ours(stage: &Stage) -> (Rest, Vec<Duration>) {
    stage.start_machine().await;
    let mut enrolling = stage.spawn(&["enroll", "--no-service"]);
    capstan_testkit::eventually(stage::DEADLINE, "a request", async || stage.answer().await).await.unwrap();
    enrolling.succeeds().await;
    let agent = stage.spawn(&["run"]);
    let path = "/etc/motd".parse().unwrap();
    let file =
        File { path, content: "at rest".into(), mode: Mode::READABLE, owner: 0, group: 0, secret: false };
    let steps = vec![Step::new("motd".parse().unwrap(), Action::File(file))];
    let plan = stage.plan(&stage.sealed(1, steps), &[]).await;
    stage.says(plan, "Applied").await;
    let binary = capstan_tests::agent_binary().unwrap();
    let rest = at_rest(stage, &Watched { id: agent.id(), binary: &binary }).await;
    let mut times = Vec::new();
    for revision in 2..2 + PLANS {
        times.push(until_first_step(stage, revision).await);
    }
    times.sort_unstable();
    (rest, times)
}

/// Writes a plan, and returns how long it took from the answer of the plane until its first step ran.
async fn until_first_step(stage: &Stage, revision: u64) -> Duration {
    let mark = stage.at(&format!("/began-{revision}"));
    let script = format!("date +%s%N > {}", mark.display());
    let command = Command::new(Argv::new(["/bin/sh", "-c", &script]).unwrap());
    let step = Step::new(format!("mark-{revision}").parse().unwrap(), Action::Command(command));
    let plan = stage.plan(&stage.sealed(revision, vec![step]), &[]).await;
    let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    stage.says(plan, "Applied").await;
    let began: u64 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
    // A step that begins before the answer has arrived took no time.
    Duration::from_nanos(began).saturating_sub(written)
}
