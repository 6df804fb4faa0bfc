//! The agents of a real cluster are replaced on the machines: by a program that works, by one that fails its check, and by one that
//! passes it and does not work. Machines go back by themselves, and Kubernetes is not touched.

#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_api::agent::{MachineReport, MachineReportStatus};
use capstan_api::conditions::ConditionStatus;
use capstan_plan::Digest;
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{Cluster, K3S, Yard};
use kube::ResourceExt as _;

/// A program on trial has ten minutes at most.
const DEADLINE: Duration = Duration::from_secs(900);
const HOSTS: [&str; 2] = ["first", "second"];

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_replaced_and_come_back() {
    let mut yard = Yard::embedded(&HOSTS).await.unwrap();
    yard.add_hosts(&["first"], &["second"]).await.unwrap();
    yard.cluster("years").make(1, 1, K3S[0]).await.unwrap();
    yard.cluster("years").until_ready(2, K3S[0]).await.unwrap();
    let kept = yard.cluster("years").kept().await.unwrap();
    let kubernetes = processes(&yard).await.unwrap();
    let agent = fs::read(yard.agent()).unwrap();

    // The same program with a byte more, which no loader looks at, is another program for the agent.
    let next = program(&yard, "next", [&agent[..], b"\n"].concat());
    yard.offer_agent(&next).await.unwrap();
    for host in HOSTS {
        until_it_runs(&yard, host, &next).await.unwrap();
        let condition = condition(&yard.cluster("years"), host).await.unwrap();
        assert_ne!(condition, Some(ConditionStatus::False), "{host}");
    }

    // One fails its check, and one passes every check and does nothing. The server comes last, so only the worker tries them.
    for useless in ["false", "true"] {
        let useless = program(&yard, useless, fs::read(format!("/bin/{useless}")).unwrap());
        yard.offer_agent(&useless).await.unwrap();
        let cluster = yard.cluster("years");
        cluster.until_condition("second", "AgentUpgraded", ConditionStatus::False).await.unwrap();
        eventually(DEADLINE, "the worker to reject the program", async || {
            let rejected =
                report(&cluster, "second").await?.agent_program.and_then(|program| program.rejected);
            ensure!(rejected.is_some_and(|rejected| rejected.sha256 == digest(&useless)), "not yet");
            Ok(())
        })
        .await
        .unwrap();
        for host in HOSTS {
            until_it_runs(&yard, host, &next).await.unwrap();
            cluster.until_condition(host, "AgentConnected", ConditionStatus::True).await.unwrap();
        }
    }

    // A program that works takes the condition away again.
    let last = program(&yard, "last", [&agent[..], b"\n\n"].concat());
    yard.offer_agent(&last).await.unwrap();
    for host in HOSTS {
        until_it_runs(&yard, host, &last).await.unwrap();
    }
    let cluster = yard.cluster("years");
    cluster.until_condition("second", "AgentUpgraded", ConditionStatus::True).await.unwrap();

    assert_eq!(cluster.kept().await.unwrap(), kept);
    assert_eq!(processes(&yard).await.unwrap(), kubernetes, "Kubernetes was restarted");
    cluster.delete().await.unwrap();
    yard.until_available(&HOSTS).await.unwrap();
}

fn program(yard: &Yard, name: &str, content: Vec<u8>) -> PathBuf {
    let path = yard.folder().join(format!("agent-{name}"));
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn digest(program: &Path) -> String {
    Digest::of(&fs::read(program).unwrap()).to_string()
}

async fn report(cluster: &Cluster<'_>, host: &str) -> Result<MachineReportStatus> {
    let machine = cluster.machine_on(host).await?.name_any();
    let report = cluster.yard().api::<MachineReport>().get(&machine).await?;
    report.status.context("nothing was reported")
}

async fn condition(cluster: &Cluster<'_>, host: &str) -> Result<Option<ConditionStatus>> {
    let machine = cluster.machine_on(host).await?;
    Ok(capstan_api::conditions::get(&machine, "AgentUpgraded").map(|condition| condition.status))
}

/// Waits until a program is that of the running agent, by its own report, and by the machine.
async fn until_it_runs(yard: &Yard, host: &str, program: &Path) -> Result<()> {
    let (cluster, wanted) = (yard.cluster("years"), digest(program));
    eventually(DEADLINE, &format!("{host} to run {}", program.display()), async || {
        let reported = report(&cluster, host).await?.agent_program.context("no program is reported")?;
        ensure!(reported.sha256 == wanted && !reported.on_trial.unwrap_or_default(), "{reported:?}");
        let look = "sha256sum /proc/$(systemctl show capstan-agent --property MainPID --value)/exe";
        let runs = yard.machine(host)?.run(look).await?;
        ensure!(runs.starts_with(&wanted), "{runs}");
        Ok(())
    })
    .await
}

/// The processes of Kubernetes, told from any that ran before them.
async fn processes(yard: &Yard) -> Result<[String; 2]> {
    let process = async |machine: &TestMachine, unit: &str| {
        machine
            .run(&format!("systemctl show {unit} --property MainPID,ExecMainStartTimestampMonotonic"))
            .await
    };
    Ok([process(yard.machine("first")?, "k3s").await?, process(yard.machine("second")?, "k3s-agent").await?])
}
