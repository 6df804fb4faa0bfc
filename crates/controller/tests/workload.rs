//! Connections to workload clusters over loopback: one whose API server takes connections and never answers, beside one
//! that does.

#![cfg(test)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::remote::Remotes;
use capstan_controller::{Caches, Knowledge, Next, Reconciler, Result, Scope, run};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const DEADLINE: Duration = Duration::from_secs(60);

/// What an API server does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Answers: it has one Node, `n`.
    Answers,
    /// Says nothing, and does not hang up either.
    Silent,
    /// Hangs up at once.
    HangsUp,
}

/// An API server of a workload cluster. Ends with the value.
struct Workload {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Workload {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, accepted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&accepted);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let (mut answering, mut held) = (JoinSet::new(), vec![]);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                match manner {
                    Manner::Answers => _ = answering.spawn(answer(stream)),
                    Manner::Silent => held.push(stream),
                    Manner::HangsUp => drop(stream),
                }
            }
        });
        Self { address, accepted, _serving: serving }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Answers requests until the other end hangs up.
async fn answer(mut stream: TcpStream) {
    let mut read = Vec::new();
    loop {
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_buf(&mut read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        // Requests without a body only.
        let head = String::from_utf8(std::mem::take(&mut read)).unwrap();
        let path = head.split_whitespace().nth(1).unwrap();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}});
        let body = match path {
            _ if path.contains("watch=true") => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
                // Nothing changes, for as long as somebody listens.
                _ = stream.read_buf(&mut read).await;
                return;
            }
            "/api/v1/nodes/n" => node,
            _ if path.starts_with("/api/v1/nodes?") => json!({"apiVersion": "v1", "kind": "NodeList",
                "metadata": {"resourceVersion": "1"}, "items": [node]}),
            _ => json!({"paths": ["/api"]}),
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A management plane that knows workload clusters.
struct ManagementPlane {
    client: Client,
    caches: Caches,
    remotes: Remotes,
    _server: Arc<ApiServer>,
}

impl ManagementPlane {
    async fn open(clusters: &[(&str, &Workload)]) -> Self {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        for (cluster, workload) in clusters {
            let kubeconfig = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", workload.address)}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            });
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {"name": format!("{cluster}-kubeconfig"), "labels": {CLUSTER: cluster}},
                "type": "cluster.x-k8s.io/secret", "stringData": {"value": kubeconfig.to_string()},
            }))
            .unwrap();
            Api::namespaced(client.clone(), "default").create(&PostParams::default(), &secret).await.unwrap();
        }
        let caches = Caches::new(client.clone());
        let remotes = Remotes::in_memory(&caches);
        Self { client, caches, remotes, _server: server }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn make(&self, name: &str, cluster: &str) {
        let object =
            json!({"metadata": {"name": name, "labels": {CLUSTER: cluster}}, "data": {"round": "0"}});
        self.maps().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Reads the Node `n` of the workload cluster that an object belongs to.
#[derive(Clone)]
struct Reads {
    remotes: Remotes,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Looks that have begun, and those that have ended, by cluster.
    begun: BTreeMap<String, usize>,
    ended: BTreeMap<String, usize>,
    /// In which round the Node was last read for an object.
    rounds: BTreeMap<String, String>,
}

impl Reads {
    fn under_way(&self, cluster: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        let number = |counted: &BTreeMap<String, usize>| counted.get(cluster).copied().unwrap_or_default();
        number(&seen.begun) - number(&seen.ended)
    }

    fn has_read(&self, name: &str, round: usize) -> bool {
        self.seen.lock().unwrap().rounds.get(name) == Some(&round.to_string())
    }
}

impl Reconciler for Reads {
    type Object = ConfigMap;

    fn name(&self) -> &'static str {
        "reads"
    }

    async fn reconcile(&self, object: Arc<ConfigMap>) -> Result<Next> {
        let cluster = object.labels()[CLUSTER].clone();
        *self.seen.lock().unwrap().begun.entry(cluster.clone()).or_default() += 1;
        let node = self.remotes.node_now("default", &cluster, "n").await;
        let mut seen = self.seen.lock().unwrap();
        *seen.ended.entry(cluster).or_default() += 1;
        if matches!(node, Knowledge::Known(Some(_))) {
            seen.rounds.insert(object.name_any(), object.data.as_ref().unwrap()["round"].clone());
        }
        Ok(Next::Changed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_never_responds_does_not_delay_another() {
    let (silent, well) = (Workload::start(Manner::Silent).await, Workload::start(Manner::Answers).await);
    let plane = ManagementPlane::open(&[("silent", &silent), ("well", &well)]).await;
    for number in 0..50 {
        plane.make(&format!("s{number}"), "silent").await;
    }
    let reads = Reads { remotes: plane.remotes.clone(), seen: Arc::default() };
    let never = futures::stream::pending::<ObjectRef<ConfigMap>>();
    let running =
        run::run(reads.clone(), plane.caches.of(), Scope::default(), never, std::future::pending::<()>());
    let mut tasks = JoinSet::new();
    tasks.spawn(running);
    // A lane has 20 of the 50 places.
    until("looks at the silent cluster", || reads.under_way("silent") == 20).await;
    for number in 0..10 {
        plane.make(&format!("w{number}"), "well").await;
    }
    let all_read = |round: usize| (0..10).all(|number| reads.has_read(&format!("w{number}"), round));
    until("the cluster that answers", || all_read(0)).await;
    for round in 1..4 {
        let change: Value = json!({"data": {"round": round.to_string()}});
        for number in 0..10 {
            let (name, patch) = (format!("w{number}"), Patch::Merge(&change));
            plane.maps().patch(&name, &PatchParams::default(), &patch).await.unwrap();
        }
        until("the cluster that answers, once more", || all_read(round)).await;
    }
    assert!(reads.under_way("silent") > 0, "the silent cluster was asked all the time");
    assert_eq!(reads.under_way("well"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_from_memory_do_not_connect_again() {
    let silent = Workload::start(Manner::Silent).await;
    let plane = ManagementPlane::open(&[("silent", &silent)]).await;
    let mut looks = JoinSet::new();
    for _ in 0..500 {
        let remotes = plane.remotes.clone();
        looks.spawn(async move { !remotes.nodes("default", "silent").await.unwrap().is_known_and(|_| true) });
    }
    let unknown = looks.join_all().await;
    assert!(
        unknown.iter().all(|is_unknown| *is_unknown),
        "no answer is not the answer that there is no Node"
    );
    until("the first probe to fail", || plane.remotes.health("default", "silent").failures > 0).await;
    // Two probes at most, and the watch of Nodes.
    assert!(silent.accepted() <= 3, "{} connections", silent.accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_cluster_is_asked_less_and_less_often() {
    let dead = Workload::start(Manner::HangsUp).await;
    let plane = ManagementPlane::open(&[("dead", &dead)]).await;
    assert!(plane.remotes.client("default", "dead").await.unwrap().is_some());
    let failures = || plane.remotes.health("default", "dead").failures;
    until("four failed probes", || failures() >= 4).await;
    let accepted = dead.accepted();
    // No more by the watch of Nodes than by probes: its pauses grow faster. See `remote/health.rs` for a whole hour.
    let probes = usize::try_from(failures()).unwrap() + 1;
    assert!(accepted <= 2 * probes, "{accepted} connections for {probes} probes");
}
