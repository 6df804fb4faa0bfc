//! The idle agent compared with an idle rancher/system-agent: memory, size and writes, on the same embedded plane, one
//! after the other.
//!
//! `CAPSTAN_AGENT_BINARY` is the path of the released agent, `CAPSTAN_SYSTEM_AGENT` that of the other agent; `make
//! bench` builds both.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "who measures may panic, and prints")]

mod other;
mod rest;
#[allow(dead_code, reason = "the suite uses more of it")]
#[path = "../../tests/suites/agent/stage.rs"]
mod stage;

use capstan_plan::{Action, File, Mode, Step};
use capstan_testkit::install_crds;
use capstan_tests::Embedded;
use rest::{Rest, Watched, at_rest};
use stage::Stage;

/// What the issue allows.
const MOST_MEMORY: u64 = 12_000_000;
const MOST_BYTES: u64 = 15_000_000;

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
    let ours = ours(&stage).await;
    let theirs = other::at_rest_on(&stage, &kubeconfig).await;
    println!(
        "over {} s each, on the embedded plane ({nobody} writes with nobody there)",
        rest::INTERVAL.as_secs()
    );
    println!("{:<24}{:>16}{:>16}{:>10}{:>14}", "", "capstan-agent", "system-agent", "ratio", "limit");
    let line = |what: &str, of: fn(&Rest) -> u64, limit: Option<u64>| {
        let (a, b) = (of(&ours), of(&theirs));
        let ratio = if a == 0 { "-".to_owned() } else { format!("{:.1}", b as f64 / a as f64) };
        println!("{what:<24}{a:>16}{b:>16}{ratio:>10}{:>14}", limit.map_or(String::new(), |l| l.to_string()));
    };
    line("resident memory, bytes", |rest| rest.memory, Some(MOST_MEMORY));
    line("binary, bytes", |rest| rest.binary, Some(MOST_BYTES));
    line("writes on the API", |rest| rest.writes, None);
    line("bytes written to disk", |rest| rest.disk, None);
    println!("capstan-agent wrote its lease {} times, its report {} times", ours.leases, ours.reports);
    assert_eq!(ours.writes, ours.leases, "at rest there is only the heartbeat");
    assert!(ours.memory <= MOST_MEMORY && ours.binary <= MOST_BYTES, "over the limit: {ours:?}");
}

/// Our agent: enrolled, with a plan that it has carried out.
async fn ours(stage: &Stage) -> Rest {
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
    at_rest(stage, &Watched { id: agent.id(), binary: &binary }).await
}
