//! How much of the time a cluster takes is Capstan's: the same k3s on the same kind of machine, once started by hand and
//! once through every hand-off, in turn. Nothing is asserted; `make bench` prints what comes out.

#![cfg(test)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{K3S, Yard, settings};
use capstan_tools::k3s_bundle;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(600);
const ROUNDS: usize = 3;
const CONFIG: &str = "/etc/rancher/k3s/config.yaml";

#[tokio::test(flavor = "multi_thread")]
async fn what_capstan_adds_to_k3s() {
    let mut yard = Yard::embedded(&["alone", "ours"]).await.unwrap();
    yard.add_hosts(&["ours"], &[]).await.unwrap();
    let mut times = Times::default();
    for round in 0..ROUNDS {
        by_hand(yard.machine("alone").unwrap(), &mut times).await.unwrap();
        by_capstan(&yard, &format!("round-{round}"), &mut times).await.unwrap();
    }
    times.print();
}

/// Medians are printed: one slow start says little.
#[derive(Default)]
struct Times {
    start_alone: Vec<Duration>,
    start: Vec<Duration>,
    change_alone: Vec<Duration>,
    change: Vec<Duration>,
}

impl Times {
    fn print(&self) {
        for (what, ours, alone, limit) in [
            ("Cluster applied to Node ready", &self.start, &self.start_alone, 15.0),
            ("configuration changed in place", &self.change, &self.change_alone, 10.0),
        ] {
            let (ours, alone) = (median(ours), median(alone));
            let share = ours - alone;
            println!(
                "{what}: {ours:.1} s, of which k3s alone {alone:.1} s; Capstan's share {share:.1} s (limit {limit:.0} s), \
                 ratio {:.2}; median of {ROUNDS}",
                ours / alone
            );
        }
    }
}

fn median(times: &[Duration]) -> f64 {
    let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// k3s as a person would start it who has everything in place already.
async fn by_hand(machine: &TestMachine, times: &mut Times) -> Result<()> {
    let bundle = k3s_bundle(K3S[0])?;
    machine.put(&bundle.program.path, "/usr/local/bin/k3s", 0o755).await?;
    machine.put(&bundle.images.path, "/var/lib/rancher/k3s/agent/images/images.tar", 0o644).await?;
    let mut config = settings();
    config["cluster-init"] = json!(true);
    config["node-name"] = json!("alone");
    let unit = "[Service]\nType=notify\nExecStart=/usr/local/bin/k3s server\nKillMode=process\nDelegate=yes\n\
                LimitNOFILE=1048576\nTasksMax=infinity\nTimeoutStartSec=0\n";
    let write = |path: &str, text: &str| format!("cat > {path} <<'END'\n{text}\nEND\n");
    machine
        .run(&format!(
            "set -e; umask 077; mkdir -p /etc/rancher/k3s\n{}{}systemctl daemon-reload",
            write(CONFIG, &config.to_string()),
            write("/etc/systemd/system/k3s.service", unit)
        ))
        .await?;
    let began = Instant::now();
    machine.run("systemctl start k3s").await?;
    let kubeconfig = machine.run("cat /etc/rancher/k3s/k3s.yaml").await?;
    let kubeconfig = kubeconfig.replace("127.0.0.1", &machine.address().to_string());
    let (kubeconfig, options) = (Kubeconfig::from_yaml(&kubeconfig)?, KubeConfigOptions::default());
    let client = Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await?)?;
    until_node_is_ready(async || Ok(client.clone())).await?;
    times.start_alone.push(began.elapsed());

    config_says_debug(machine).await?;
    let began = Instant::now();
    machine.run("systemctl restart k3s").await?;
    until_node_is_ready(async || Ok(client.clone())).await?;
    times.change_alone.push(began.elapsed());
    machine
        .run(
            "systemctl stop k3s; pkill -9 containerd-shim; \
             mount | awk '/k3s|kubelet/ {print $3}' | sort -r | xargs -r umount -l; \
             ip link delete cni0 2>/dev/null; rm -rf /var/lib/rancher/k3s/server /var/lib/rancher/k3s/agent \
             /var/lib/rancher/k3s/data /var/lib/kubelet /var/lib/cni /etc/rancher /run/k3s /run/flannel; true",
        )
        .await?;
    Ok(())
}

async fn config_says_debug(machine: &TestMachine) -> Result<()> {
    machine.run(&format!("sed -i 's/^{{/{{\"debug\":true,/' {CONFIG} && grep -q debug {CONFIG}")).await?;
    Ok(())
}

/// The same through every hand-off.
async fn by_capstan(yard: &Yard, name: &str, times: &mut Times) -> Result<()> {
    let cluster = yard.cluster(name);
    let began = Instant::now();
    cluster.make(1, 0, K3S[0]).await?;
    until_node_is_ready(async || cluster.client().await).await?;
    times.start.push(began.elapsed());
    cluster.until_ready(1, K3S[0]).await?;

    let began = Instant::now();
    cluster.change_control_plane(json!({"config": {"settings": {"debug": true}}})).await?;
    cluster.until_ready(1, K3S[0]).await?;
    times.change.push(began.elapsed());
    cluster.delete().await?;
    yard.until_available(&["ours"]).await
}

async fn until_node_is_ready(mut client: impl AsyncFnMut() -> Result<Client>) -> Result<()> {
    eventually(DEADLINE, "the Node to be ready", async || {
        let nodes: Api<Node> = Api::all(client().await?);
        let nodes = nodes.list(&ListParams::default()).await?.items;
        let status = nodes.first().context("no Node yet")?.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let is_ready =
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        ensure!(is_ready, "it is not");
        Ok(())
    })
    .await
}
