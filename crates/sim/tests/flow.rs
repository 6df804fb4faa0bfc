//! From a pool of simulated hosts to a workload cluster and back, on a real API server.

#![cfg(test)]

mod support;

use capstan_api::agent::PlanPhase;
use capstan_api::conditions::get;
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostState};
use capstan_testkit::eventually;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use std::time::Duration;

use support::plans::{INIT, SERVER, WORKER, command};
use support::{DEADLINE, Yard};

const OLD: &str = "v1.33.4+k3s1";
const NEW: &str = "v1.34.1+k3s1";

#[tokio::test(flavor = "multi_thread")]
async fn from_pool_to_nodes_and_back() {
    let yard = Yard::start().await.unwrap();
    yard.pool(4).await.unwrap();
    let port = yard.cluster().await.unwrap();
    let domains = yard.api::<HostCluster>().get("c").await.unwrap().status.unwrap().failure_domains;
    assert_eq!(domains.iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(), ["east", "west"]);

    let machines = [("cp-0", &INIT), ("cp-1", &SERVER), ("w-0", &WORKER)];
    for (name, _) in machines {
        yard.machine(name).await.unwrap();
    }
    // All at once: those who join find nobody at first, and try again.
    let mut plans = Vec::new();
    for (name, role) in machines {
        plans.push((name, yard.plan(name, 1, role, port, OLD).await.unwrap()));
    }
    for (name, plan) in &plans {
        yard.applied(name, *plan).await.unwrap();
    }
    let before = nodes(&yard, port, OLD, 3).await;
    let pods = yard.workload(port, &["-n", "kube-system", "get", "pods", "-o", "name"]).await.unwrap();
    assert_eq!(pods.lines().count(), 8, "{pods}");
    assert!(yard.workload(port, &["get", "nodes"]).await.unwrap().contains("control-plane,etcd,master"));

    // In place: another version, the same Nodes.
    for (name, role) in machines {
        let plan = yard.plan(name, 2, role, port, NEW).await.unwrap();
        yard.applied(name, plan).await.unwrap();
    }
    assert_eq!(nodes(&yard, port, NEW, 3).await, before);

    for (name, _) in machines.iter().rev() {
        yard.delete_machine(name).await.unwrap();
    }
    yard.all_hosts_are(HostState::Available).await.unwrap();
    assert!(
        yard.workload(port, &["get", "nodes"]).await.is_err(),
        "the API server is gone with its last server"
    );
    yard.api::<HostCluster>().delete("c", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "the HostCluster to go", async || {
        anyhow::ensure!(yard.api::<HostCluster>().get_opt("c").await?.is_none());
        Ok(())
    })
    .await
    .unwrap();
    yard.kill().await;
}

/// UIDs by name; checks everything else.
async fn nodes(yard: &Yard, port: u16, version: &str, count: usize) -> Vec<(String, String)> {
    let list = eventually(DEADLINE, "the workload cluster to answer", async || {
        yard.workload(port, &["get", "nodes", "-o", "json"]).await
    })
    .await
    .unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let nodes = list["items"].as_array().unwrap();
    assert_eq!(nodes.len(), count);
    let mut found = Vec::new();
    for node in nodes {
        let name = node["metadata"]["name"].as_str().unwrap();
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], version);
        let conditions = node["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"), "{node}");
        let machine = yard.api::<HostMachine>().get(name).await.unwrap();
        assert_eq!(node["spec"]["providerID"].as_str(), machine.spec.provider_id.as_deref());
        found.push((name.to_owned(), node["metadata"]["uid"].as_str().unwrap().to_owned()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_reported_and_no_host_is_released_dirty() {
    let yard = Yard::start().await.unwrap();
    yard.pool(1).await.unwrap();
    let port = yard.cluster().await.unwrap();
    let fault = |value: Value| json!({"metadata": {"annotations": {"capstan.dev/sim-fault": value}}});

    // Bootstrap data that fails: code, step and last lines; the host comes back clean all the same.
    yard.patch::<Host>("yard-0", fault(json!("fail-bootstrap"))).await.unwrap();
    yard.machine("first").await.unwrap();
    let message = condition_says(&yard, "first", "BootstrapExecuted", "BootstrapFailed").await;
    assert!(message.contains("exit code 1") && message.contains("simulated fault"), "{message}");

    // A second machine has to wait, and says for what.
    yard.machine("second").await.unwrap();
    let message = condition_says(&yard, "second", "HostClaimed", "NoHostAvailable").await;
    assert_eq!(message, "no host is available: 1 of 1 match but are claimed");
    yard.patch::<Host>("yard-0", fault(json!("fail-step=3"))).await.unwrap();
    yard.delete_machine("first").await.unwrap();
    yard.provisioned("second").await.unwrap();

    // A step that fails is told by the agent itself, and a plan from a stranger is refused.
    let plan = yard.plan("second", 1, &INIT, port, OLD).await.unwrap();
    eventually(DEADLINE, "the fault to be told", async || {
        let status = yard.report("second").await?;
        anyhow::ensure!(
            status.message.as_deref().is_some_and(|text| text.contains("simulated fault at step 3"))
        );
        Ok(())
    })
    .await
    .unwrap();
    yard.patch::<Host>("yard-0", fault(json!("dirty-reset"))).await.unwrap();
    let plan = match yard.phase("second", plan, PlanPhase::Failed).await {
        Ok(_) => yard.plan("second", 2, &INIT, port, OLD).await.unwrap(),
        Err(_) => plan,
    };
    yard.applied("second", plan).await.unwrap();
    let shell =
        yard.write_plan("second", 3, vec![command("shell", &["sh", "-c", "true"]).unwrap()]).await.unwrap();
    let status = yard.phase("second", shell, PlanPhase::Failed).await.unwrap();
    assert_eq!(status.step.unwrap().exit_code, Some(126));

    // A host that does not come back clean does not come back.
    yard.delete_machine("second").await.unwrap();
    yard.all_hosts_are(HostState::Quarantined).await.unwrap();
    let host = yard.api::<Host>().get("yard-0").await.unwrap();
    let message = host.spec.quarantine.clone().unwrap().message.unwrap();
    assert!(message.contains("/var/lib/left-behind"), "{message}");
    assert!(get(&host, "Ready").unwrap().message.contains("remove spec.quarantine"));

    // A person puts it right.
    let mended =
        json!({"metadata": {"annotations": {"capstan.dev/sim-fault": null}}, "spec": {"quarantine": null}});
    yard.patch::<Host>("yard-0", mended).await.unwrap();
    yard.machine("third").await.unwrap();
    yard.provisioned("third").await.unwrap();
    yard.delete_machine("third").await.unwrap();
    yard.all_hosts_are(HostState::Available).await.unwrap();
    yard.kill().await;
}

async fn condition_says(yard: &Yard, machine: &str, condition: &str, reason: &str) -> String {
    eventually(DEADLINE, &format!("{condition} of {machine} to say {reason}"), async || {
        let machine = yard.api::<HostMachine>().get(machine).await?;
        let found = get(&machine, condition).filter(|found| found.reason == reason);
        let all = machine.status.as_ref().map(|status| json!(status));
        found.map(|found| found.message.clone()).ok_or_else(|| anyhow::anyhow!("{all:?}"))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_points_it_always_ends_the_same() {
    support::be_the_child().await;
    let seed =
        std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("CAPSTAN_SEED={seed}");
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let yard = Yard::start().await.unwrap();
    yard.pool(3).await.unwrap();
    let port = yard.cluster().await.unwrap();

    let kills = async |rng: &mut rand::rngs::StdRng| {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(rng.random_range(10..700))).await;
            yard.kill().await;
            match rng.random() {
                true => yard.open().await.unwrap(),
                false => yard.open_child("killed_at_random_points_it_always_ends_the_same").await.unwrap(),
            }
        }
    };
    let machines = [("cp-0", &INIT), ("w-0", &WORKER)];
    let make = async {
        for (name, _) in machines {
            yard.machine(name).await.unwrap();
        }
        for (name, role) in machines {
            let plan = yard.plan(name, 1, role, port, OLD).await.unwrap();
            yard.applied(name, plan).await.unwrap();
        }
    };
    tokio::join!(make, kills(&mut rng));
    let before = nodes(&yard, port, OLD, 2).await;

    let change = async {
        for (name, role) in machines {
            let plan = yard.plan(name, 2, role, port, NEW).await.unwrap();
            yard.applied(name, plan).await.unwrap();
        }
    };
    tokio::join!(change, kills(&mut rng));
    assert_eq!(nodes(&yard, port, NEW, 2).await, before);

    let delete = async {
        for (name, _) in machines.iter().rev() {
            yard.delete_machine(name).await.unwrap();
        }
    };
    tokio::join!(delete, kills(&mut rng));
    yard.all_hosts_are(HostState::Available).await.unwrap();
    let hosts: Api<Host> = yard.api();
    let names: Vec<String> =
        hosts.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["yard-0", "yard-1", "yard-2"]);
    yard.kill().await;
}
