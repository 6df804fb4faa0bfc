//! What somebody destroys on the machines of a real cluster comes back: at rest, while a plan is applied, and while a roll-out goes
//! through the cluster. A full disk stops a change until there is room, whichever file system it is.

#![cfg(test)]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_api::agent::{MachineReport, MachineReportStatus, PlanPhase};
use capstan_api::conditions::ConditionStatus;
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{Cluster, K3S, Yard};
use kube::ResourceExt as _;
use serde_json::json;

/// The agent looks every five minutes, and starts a stopped unit again and again with growing pauses.
const DEADLINE: Duration = Duration::from_secs(900);
const SERVER: &str = "first";
const WORKER: &str = "second";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_destroyed_comes_back() {
    let mut yard = Yard::embedded(&[SERVER, WORKER]).await.unwrap();
    yard.add_hosts(&[SERVER], &[WORKER]).await.unwrap();
    yard.cluster("kept").make(1, 1, K3S[0]).await.unwrap();
    let cluster = yard.cluster("kept");
    cluster.until_ready(2, K3S[0]).await.unwrap();
    let kept = cluster.kept().await.unwrap();
    let (server, worker) = (yard.machine(SERVER).unwrap(), yard.machine(WORKER).unwrap());

    at_rest(&cluster, server, worker).await.unwrap();
    during_a_plan(&cluster, server).await.unwrap();
    during_a_rollout(&cluster, worker).await.unwrap();
    with_full_disks(&cluster, server).await.unwrap();

    cluster.until_ready(2, K3S[0]).await.unwrap();
    assert_eq!(cluster.kept().await.unwrap(), kept, "Machine, Host and Node stay");
    cluster.delete().await.unwrap();
    yard.until_available(&[SERVER, WORKER]).await.unwrap();
}

/// Files that plans have made, and a unit: what they are like.
struct Intact {
    files: String,
    unit: &'static str,
}

const FILES: &str = "/etc/rancher/k3s/config.yaml /opt/capstan/lib/k3s.sh /etc/systemd/system/$UNIT.service";

impl Intact {
    async fn of(machine: &TestMachine, unit: &'static str) -> Result<Self> {
        Ok(Self { files: Self::look(machine, unit).await?, unit })
    }

    async fn look(machine: &TestMachine, unit: &str) -> Result<String> {
        let program = format!(
            "$(readlink --canonicalize $(systemctl show {unit} --property ExecStart | grep --only-matching 'path=[^ ;]*' | cut --delimiter== --fields=2))"
        );
        let look = format!(
            "sha256sum {} {program}; stat --format '%a %u %g' {}",
            FILES.replace("$UNIT", unit),
            FILES.replace("$UNIT", unit)
        );
        machine.run(&look).await
    }

    async fn is_again(&self, machine: &TestMachine) -> Result<()> {
        let now = Self::look(machine, self.unit).await?;
        ensure!(now == self.files, "it was\n{}\nand is\n{now}", self.files);
        let state = format!("systemctl is-active {0}; systemctl is-enabled {0}", self.unit);
        let state = machine.run(&state).await?;
        ensure!(state.split_whitespace().eq(["active", "enabled"]), "{state}");
        Ok(())
    }
}

async fn until_intact(
    cluster: &Cluster<'_>,
    host: &str,
    machine: &TestMachine,
    intact: &Intact,
) -> Result<()> {
    eventually(DEADLINE, &format!("{host} to be as it was"), async || intact.is_again(machine).await).await?;
    cluster.until_condition(host, "MachineAsPlanned", ConditionStatus::True).await
}

async fn at_rest(cluster: &Cluster<'_>, server: &TestMachine, worker: &TestMachine) -> Result<()> {
    let (of_server, of_worker) = (Intact::of(server, "k3s").await?, Intact::of(worker, "k3s-agent").await?);
    server
        .run("rm /etc/rancher/k3s/config.yaml && chmod 0777 /opt/capstan/lib/k3s.sh && systemctl stop k3s")
        .await?;
    worker.run("echo true > /opt/capstan/lib/k3s.sh && systemctl disable --now k3s-agent").await?;
    until_intact(cluster, SERVER, server, &of_server).await?;
    until_intact(cluster, WORKER, worker, &of_worker).await?;
    for host in [SERVER, WORKER] {
        let drift = report(cluster, host).await?.drift;
        ensure!(drift.iter().any(|item| item.repaired.is_some()), "{host} reports nothing: {drift:?}");
    }
    cluster.until_ready(2, K3S[0]).await
}

/// While a command of a plan runs, the program of k3s and its configuration go.
async fn during_a_plan(cluster: &Cluster<'_>, server: &TestMachine) -> Result<()> {
    let wait = json!([{"name": "slow", "command": ["/bin/sleep", "40"]}]);
    cluster.change_control_plane(json!({"config": {"before": wait, "settings": {"debug": true}}})).await?;
    until_step(cluster, SERVER, "before-slow").await?;
    server.run("rm /etc/rancher/k3s/config.yaml && rm --recursive /opt/capstan/lib/k3s.sh").await?;
    cluster.until_ready(2, K3S[0]).await?;
    let config = server.run("cat /etc/rancher/k3s/config.yaml").await?;
    ensure!(config.contains("\"debug\":true") || config.contains("\"debug\": true"), "{config}");
    Intact::of(server, "k3s").await?.is_again(server).await?;
    cluster.until_condition(SERVER, "MachineAsPlanned", ConditionStatus::True).await
}

/// While the server gets another configuration, the worker loses its unit and its files.
async fn during_a_rollout(cluster: &Cluster<'_>, worker: &TestMachine) -> Result<()> {
    let intact = Intact::of(worker, "k3s-agent").await?;
    let wait = json!([{"name": "slower", "command": ["/bin/sleep", "41"]}]);
    cluster.change_control_plane(json!({"config": {"before": wait, "settings": {"debug": false}}})).await?;
    until_step(cluster, SERVER, "before-slower").await?;
    worker.run("systemctl stop k3s-agent && rm /etc/rancher/k3s/config.yaml").await?;
    until_intact(cluster, WORKER, worker, &intact).await?;
    cluster.until_ready(2, K3S[0]).await
}

/// The file system of the journal, and that of a file: a change waits, says why, and goes on when there is room.
async fn with_full_disks(cluster: &Cluster<'_>, server: &TestMachine) -> Result<()> {
    for (number, folder) in ["/var/lib/capstan", "/srv/small"].into_iter().enumerate() {
        let size = server
            .run(&format!("mkdir --parents {folder}; du --summarize --bytes {folder} | cut --fields=1"))
            .await?;
        let size = size.trim().parse::<u64>().context("a size")? + (4 << 20);
        let mount = format!(
            "systemctl stop capstan-agent && cp --archive {folder} /root/saved && \
             mount -t tmpfs -o size={size},mode=$(stat --format %a {folder}) tmpfs {folder} && \
             cp --archive /root/saved/. {folder}/ && rm --recursive /root/saved && systemctl start capstan-agent"
        );
        server.run(&mount).await?;
        cluster.until_condition(SERVER, "AgentConnected", ConditionStatus::True).await?;
        server.run(&format!("dd if=/dev/zero of={folder}/ballast bs=4k || true")).await?;
        let content = format!("{number} {}", "x".repeat(100_000));
        let files = json!([{"path": format!("/srv/small/file-{number}"), "content": content}]);
        cluster.change_control_plane(json!({"config": {"files": files}})).await?;
        eventually(DEADLINE, &format!("the report to say that {folder} is full"), async || {
            let status = report(cluster, SERVER).await?;
            ensure!(status.phase != Some(PlanPhase::Failed), "it must not give up: {:?}", status.message);
            let texts = [status.message, status.problem].into_iter().flatten().collect::<Vec<_>>().join("; ");
            ensure!(texts.contains("make room on that disk"), "{texts:?}");
            Ok(())
        })
        .await?;
        server.run(&format!("rm {folder}/ballast")).await?;
        cluster.until_ready(2, K3S[0]).await?;
        let written = server.run(&format!("cat /srv/small/file-{number}")).await?;
        ensure!(written == content, "the file is not what the plan says");
    }
    Ok(())
}

async fn report(cluster: &Cluster<'_>, host: &str) -> Result<MachineReportStatus> {
    let machine = cluster.machine_on(host).await?.name_any();
    let report = cluster.yard().api::<MachineReport>().get(&machine).await?;
    report.status.context("nothing was reported")
}

async fn until_step(cluster: &Cluster<'_>, host: &str, step: &str) -> Result<()> {
    eventually(DEADLINE, &format!("{host} to run {step}"), async || {
        let status = report(cluster, host).await?;
        let current = status.step.map(|current| current.name).unwrap_or_default();
        ensure!(status.phase == Some(PlanPhase::Applying) && current.starts_with(step), "{current}");
        Ok(())
    })
    .await
}
