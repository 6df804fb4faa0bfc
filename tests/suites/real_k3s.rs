//! k3s as `make tools` builds it, installed by hand on real machines: what every plan of Capstan's counts on, proved
//! without Capstan. A server and an agent come up without a network, run pods that reach each other, are upgraded in
//! place, and survive a reboot and a power cut.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::{Machines, TestMachine, eventually};
use capstan_tools::{K3S_VERSIONS, K3sBundle, TEST_IMAGE, k3s_bundle};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_up_is_upgraded_and_survives() {
    let [old, new] = K3S_VERSIONS.map(|version| k3s_bundle(version).unwrap());
    let machines = Machines::start(&["server", "worker"]).await.unwrap();
    let (server, worker) = (machines.get("server").unwrap(), machines.get("worker").unwrap());

    let began = Instant::now();
    install(
        server,
        &old,
        "server",
        "cluster-init: true\ndisable: [coredns, servicelb, traefik, local-storage, metrics-server]",
    )
    .await
    .unwrap();
    ready(server, "server", &old).await.unwrap();
    eprintln!("the server is ready after {:.1} s", began.elapsed().as_secs_f64());
    install(worker, &old, "agent", &format!("server: https://{}:6443", server.address())).await.unwrap();
    ready(server, "worker", &old).await.unwrap();
    eprintln!("the worker is ready after {:.1} s", began.elapsed().as_secs_f64());

    pod(server, "near", "server", "sleep 2147483647").await.unwrap();
    pod(server, "far", "worker", "echo hello > /www/index.html; httpd -f -p 80 -h /www").await.unwrap();
    reaches(server).await.unwrap();
    let uid = uid(server).await.unwrap();

    // What a control plane asks etcd, and keeps before it changes anything.
    let members: Value = serde_json::from_str(&etcd(server, "cluster/member/list").await.unwrap()).unwrap();
    let peers = &members["members"][0]["peerURLs"][0];
    assert_eq!(peers, &Value::from(format!("https://{}:2380", server.address())), "{members}");
    let saved = server
        .run("k3s etcd-snapshot save --name before 2>&1; ls /var/lib/rancher/k3s/server/db/snapshots")
        .await;
    assert!(saved.unwrap().lines().any(|line| line.starts_with("before-server-")));

    for (machine, unit) in [(server, "k3s"), (worker, "k3s-agent")] {
        machine.put(&new.program.path, "/usr/local/bin/k3s", 0o755).await.unwrap();
        machine.run(&format!("systemctl restart {unit}")).await.unwrap();
        ready(server, machine.name(), &new).await.unwrap();
    }
    assert_eq!(self::uid(server).await.unwrap(), uid, "the node is another one");
    reaches(server).await.unwrap();

    server.reboot().await.unwrap();
    ready(server, "server", &new).await.unwrap();
    server.pull_the_plug().await.unwrap();
    server.start().await.unwrap();
    ready(server, "server", &new).await.unwrap();
    worker.reboot().await.unwrap();
    ready(server, "worker", &new).await.unwrap();
    running(server, "far").await.unwrap();
    running(server, "near").await.unwrap();
    reaches(server).await.unwrap();
    assert_eq!(self::uid(server).await.unwrap(), uid, "the node is another one");
}

/// Puts k3s on a machine and starts it, as a person would who has a release and no network.
async fn install(machine: &TestMachine, bundle: &K3sBundle, role: &str, config: &str) -> Result<()> {
    let unit = if role == "server" { "k3s" } else { "k3s-agent" };
    machine.put(&bundle.program.path, "/usr/local/bin/k3s", 0o755).await?;
    let said = machine.run("sha256sum /usr/local/bin/k3s; k3s --version").await?;
    ensure!(said.contains(&bundle.program.sha256) && said.contains(bundle.version), "{said}");
    machine.put(&bundle.images.path, "/var/lib/rancher/k3s/agent/images/images.tar", 0o644).await?;
    let config = format!("token: a-token-of-this-test\nnode-name: {}\n{config}\n", machine.name());
    let service = format!(
        "[Unit]\nWants=network-online.target\nAfter=network-online.target\n\
         [Service]\nType=notify\nExecStart=/usr/local/bin/k3s {role}\nKillMode=process\nDelegate=yes\n\
         LimitNOFILE=1048576\nTasksMax=infinity\nTimeoutStartSec=0\nRestart=always\nRestartSec=2s\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    machine
        .run(&format!(
            "set -e; umask 077; mkdir -p /etc/rancher/k3s\n\
             cat > /etc/rancher/k3s/config.yaml <<'END'\n{config}END\n\
             cat > /etc/systemd/system/{unit}.service <<'END'\n{service}END\n\
             systemctl daemon-reload; systemctl enable --quiet --now {unit}"
        ))
        .await?;
    Ok(())
}

async fn kubectl(server: &TestMachine, words: &str) -> Result<String> {
    server.run(&format!("k3s kubectl {words}")).await
}

/// Waits until a node is ready and runs this version.
async fn ready(server: &TestMachine, node: &str, bundle: &K3sBundle) -> Result<()> {
    eventually(DEADLINE, &format!("{node} to be ready"), async || {
        let node: Value = serde_json::from_str(&kubectl(server, &format!("get node {node} -o json")).await?)?;
        let conditions = node["status"]["conditions"].as_array().context("no conditions")?;
        let is_ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        ensure!(
            is_ready && node["status"]["nodeInfo"]["kubeletVersion"] == bundle.version,
            "{}",
            node["status"]
        );
        Ok(())
    })
    .await
}

async fn uid(server: &TestMachine) -> Result<String> {
    kubectl(server, "get node server -o jsonpath={.metadata.uid}").await
}

/// Starts a pod on a node and gives its address.
async fn pod(server: &TestMachine, name: &str, node: &str, script: &str) -> Result<String> {
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: {node}\n  \
         containers:\n  - {{name: it, image: '{TEST_IMAGE}', imagePullPolicy: Never, command: [sh, -c, '{script}']}}\n"
    );
    // The service account of a new namespace is not there at once.
    eventually(DEADLINE, "the pod to be accepted", async || {
        server.run(&format!("k3s kubectl apply -f - <<'END'\n{pod}END")).await
    })
    .await?;
    running(server, name).await
}

async fn running(server: &TestMachine, pod: &str) -> Result<String> {
    eventually(DEADLINE, &format!("the pod {pod} to run"), async || {
        let pod: Value = serde_json::from_str(&kubectl(server, &format!("get pod {pod} -o json")).await?)?;
        ensure!(pod["status"]["containerStatuses"][0]["ready"] == true, "{}", pod["status"]);
        Ok(pod["status"]["podIP"].as_str().context("no address")?.to_owned())
    })
    .await
}

/// One pod asks the other, over the network between the machines.
/// The address is asked for each time: after a reboot a pod is told of with the one it had, until it has another.
async fn reaches(server: &TestMachine) -> Result<()> {
    eventually(DEADLINE, "one pod to reach the other", async || {
        let far = running(server, "far").await?;
        let ask = format!(r#"exec near -- sh -c 'printf "GET / HTTP/1.0\r\n\r\n" | nc -w 5 {far} 80'"#);
        let said = kubectl(server, &ask).await?;
        ensure!(said.contains("hello"), "{said}");
        Ok(())
    })
    .await
}

/// Asks etcd itself, through its JSON gateway.
async fn etcd(server: &TestMachine, call: &str) -> Result<String> {
    let tls = "/var/lib/rancher/k3s/server/tls/etcd";
    server
        .run(&format!(
            "curl -sS --fail --cacert {tls}/server-ca.crt --cert {tls}/client.crt --key {tls}/client.key \
             -d '{{}}' https://127.0.0.1:2382/v3/{call}"
        ))
        .await
}
