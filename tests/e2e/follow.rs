//! A real machine follows its cluster to another management plane and back: from `capstan up` to a real API server, with
//! the real `clusterctl move`, over SSH. k3s and its pods do not notice, the new plane changes the machine in place, and
//! the machine refuses whoever had it before. Both managers run all the time.

#![cfg(test)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_testkit::{RealPlane, eventually};
use capstan_tests::{K3S, Running, Yard, capstan_output, clusterctl, condition, namespaced, not_true};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(600);
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1alpha1";
const CLUSTER: &str = "roving";

#[tokio::test(flavor = "multi_thread")]
async fn a_real_machine_follows_and_refuses_who_had_it_before() {
    let mut yard = Yard::embedded(&["first"]).await.unwrap();
    yard.add_hosts(&["first"], &[]).await.unwrap();
    let cluster = yard.cluster(CLUSTER);
    cluster.make(1, 0, K3S[0]).await.unwrap();
    cluster.until_ready(1, K3S[0]).await.unwrap();
    cluster.run_pods().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client().await.unwrap());
    let node = nodes.list(&ListParams::default()).await.unwrap().items[0].clone();
    let before = AgentConfig::by(&yard).await.unwrap();
    before.obeys(1).unwrap();
    let runs = runs(&yard).await.unwrap();

    let plane = RealPlane::start_at(yard.machines().gateway()).await.unwrap();
    let (code, _, stderr) =
        capstan_output(&["init", "--kubeconfig", plane.kubeconfig().to_str().unwrap()], "").unwrap();
    assert_eq!(code, 0, "{stderr}");
    let mut manager = manager(&yard, &plane).unwrap();
    let old = yard.machine("first").unwrap().run("cat /etc/capstan/agent.json").await.unwrap();

    clusterctl_move(&yard.kubeconfig(), plane.kubeconfig()).unwrap();
    until_followed(&yard, &plane.client(), plane.server(), 2).await.unwrap();
    assert_eq!(self::runs(&yard).await.unwrap(), runs, "k3s or the machine was started anew");
    manager.ensure_running().unwrap();

    // The new plane changes it in place.
    let change = json!({"spec": {"config": {"settings": {"node-label": ["e2e.capstan.dev/followed=yes"]}}}});
    let control_planes = namespaced(&plane.client(), "default", CONTROL_PLANE, "CapstanControlPlane");
    let name = format!("{CLUSTER}-control-plane");
    control_planes.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    eventually(DEADLINE, "the Node to have its label", async || {
        let found = nodes.get(&node.name_any()).await?;
        ensure!(found.uid() == node.uid(), "another Node");
        ensure!(found.labels().contains_key("e2e.capstan.dev/followed"), "{:?}", found.labels());
        Ok(())
    })
    .await
    .unwrap();
    until_followed(&yard, &plane.client(), plane.server(), 2).await.unwrap();

    // Whoever had it before, with root and with what it was given then.
    let behind = format!("printf '%s' '{}' | /opt/capstan/capstan-agent follow -o json", old.trim());
    let said = yard.machine("first").unwrap().run(&behind).await.unwrap();
    let said: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(said["follows"], false, "{said}");
    assert!(said["refused"].as_str().unwrap().contains("epoch 2"), "{said}");
    AgentConfig::by(&yard).await.unwrap().obeys(2).unwrap();

    clusterctl_move(plane.kubeconfig(), &yard.kubeconfig()).unwrap();
    until_followed(&yard, &yard.client(), &before.server, 3).await.unwrap();
    cluster.until_ready(1, K3S[0]).await.unwrap();
    assert_eq!(nodes.get(&node.name_any()).await.unwrap().uid(), node.uid());
    manager.ensure_running().unwrap();
    cluster.delete().await.unwrap();
    yard.until_available(&["first"]).await.unwrap();
}

/// What the agent says of itself.
struct AgentConfig {
    server: String,
    whole: Value,
}

impl AgentConfig {
    async fn by(yard: &Yard) -> Result<Self> {
        let text = yard.machine("first")?.run("/opt/capstan/capstan-agent explain -o json").await?;
        let whole: Value = serde_json::from_str(&text)?;
        let server = whole["machine"]["server"].as_str().context("no server")?.to_owned();
        Ok(Self { server, whole })
    }

    fn obeys(&self, epoch: u64) -> Result<()> {
        let Self { whole, .. } = self;
        ensure!(whole["machine"]["epoch"] == epoch && whole["obstacles"] == json!([]), "{whole:#}");
        ensure!(whole["machine"]["tokenLeft"] == false && whole["connection"] == "ok", "{whole:#}");
        Ok(())
    }
}

/// Every run of what must not be started anew, and of the machine.
async fn runs(yard: &Yard) -> Result<String> {
    let look = "cat /proc/sys/kernel/random/boot_id; systemctl show k3s --property=InvocationID,ExecMainPID; \
                cat /srv/kept/born; ls -i /etc/capstan/agent.key";
    yard.machine("first")?.run(look).await
}

/// A manager of the second plane, beside the one that runs.
fn manager(yard: &Yard, plane: &RealPlane) -> Result<Running> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is text");
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agent/capstan-agent");
    let args = [
        ("--kubeconfig", text(plane.kubeconfig())?),
        ("--data-dir", text(&yard.folder().join("there"))?),
        ("--artifacts-dir", text(&yard.folder().join("artifacts"))?),
        ("--artifacts-listen", format!("{}:6442", yard.machines().gateway())),
        ("--agent-binary", text(&agent)?),
    ];
    let args = args.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    let args: Vec<String> = std::iter::once("manager".to_owned()).chain(args).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Running::start(&args, &yard.folder().join("there.log"))
}

fn clusterctl_move(from: &Path, to: &Path) -> Result<()> {
    let [from, to] = [from, to].map(|path| path.to_str().unwrap());
    let args = ["move", "--namespace", "default", "--kubeconfig", from, "--to-kubeconfig", to];
    clusterctl(&args, &[], "").map(drop)
}

/// Waits until the cluster stands at a plane, and the agent of its machine is there, too.
async fn until_followed(yard: &Yard, plane: &Client, server: &str, epoch: u64) -> Result<()> {
    eventually(DEADLINE, "the agent to follow", async || {
        let cluster = namespaced(plane, "default", CORE, "Cluster").get(CLUSTER).await?;
        ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
        let machines =
            namespaced(plane, "default", CORE, "Machine").list(&ListParams::default()).await?.items;
        ensure!(machines.len() == 1, "{} machines", machines.len());
        ensure!(condition(&machines[0], "UpToDate") == Some("True"), not_true(&machines[0]));
        let secrets: Api<Secret> = Api::namespaced(plane.clone(), "default");
        let asked = secrets.list(&ListParams::default().labels("capstan.dev/follow")).await?.items;
        ensure!(asked.is_empty(), "it is told still");
        let config = AgentConfig::by(yard).await?;
        ensure!(config.server.trim_end_matches('/') == server.trim_end_matches('/'), "{}", config.whole);
        config.obeys(epoch)
    })
    .await
}
