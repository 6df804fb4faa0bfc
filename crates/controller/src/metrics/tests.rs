//! What is served, what the documentation names, and what dashboards and alerts ask for are the same metrics.

use super::caches::AnyObject;
use super::*;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet};
use capstan_api::infrastructure::Host;
use http::{Request, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::queue::Verdict;

/// A cache with an object of each kind, with every field that a metric is made of.
struct Everything(Vec<AnyObject>);

impl Source for Everything {
    fn kind(&self) -> &'static str {
        "Machine"
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn looked_after(&self) -> Vec<AnyObject> {
        self.0.clone()
    }
}

fn object<K: DeserializeOwned + Send + Sync + 'static>(kind: &str, spec: &Value, status: Value) -> AnyObject {
    Arc::new(serde_json::from_value::<K>(object_json(kind, spec, status)).unwrap())
}

fn object_json(kind: &str, spec: &Value, mut status: Value) -> Value {
    status["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": "a", "namespace": "fleet", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"cluster.x-k8s.io/paused": ""},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "o"}]},
        "spec": spec, "status": status,
    })
}

fn everything() -> Everything {
    let machine = json!({"clusterName": "a", "bootstrap": {}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachine", "name": "h"}});
    let made = json!({"clusterName": "a", "replicas": 3, "selector": {}, "template": {"spec": machine}});
    let mut rolled = made.clone();
    rolled["rollout"] = json!({"strategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut waits = object_json("Host", &json!({"simulated": {}}), json!({}));
    waits["status"]["conditions"][0] = json!({"type": "Reachable", "status": "False", "reason": "Unreachable",
        "message": "no answer", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let health = json!({"expectedMachines": 3, "currentHealthy": 2, "remediationsAllowed": 1});
    Everything(vec![
        object::<Cluster>("Cluster", &json!({"paused": false}), json!({"phase": "Provisioned"})),
        object::<Machine>(
            "Machine",
            &machine,
            json!({"phase": "Running", "nodeRef": {"name": "n"}, "addresses": [{"type": "Hostname", "address": "h"}]}),
        ),
        object::<MachineSet>("MachineSet", &made, json!({})),
        object::<MachineDeployment>("MachineDeployment", &rolled, json!({"phase": "Running"})),
        object::<MachineHealthCheck>(
            "MachineHealthCheck",
            &json!({"clusterName": "a", "selector": {}}),
            health,
        ),
        object::<MachinePool>("MachinePool", &made, json!({"phase": "Running"})),
        Arc::new(serde_json::from_value::<Host>(waits).unwrap()),
    ])
}

/// Metrics of a process that has done everything once.
async fn served() -> (Metrics, Arc<Everything>) {
    let (metrics, cache) = (Metrics::default(), Arc::new(everything()));
    metrics.expose_cache(&cache);
    metrics.watch_failures("Machine").inc();
    let server = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    metrics.count_requests("h").layer(server).oneshot(Request::new(())).await.unwrap();
    let mut recorder = metrics.controller("machine", Limits::default());
    let id = tokio::spawn(async {}).id();
    recorder.queue(1, 0, 1);
    recorder.taken(Duration::ZERO);
    recorder.begun(id);
    recorder.ended(id, Verdict::Changed, false);
    (metrics, cache)
}

fn declared(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    types.map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Words of a text that are names of metrics of ours.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let ours =
        ["controller_runtime_", "workqueue_", "rest_client_", "capstan_cache_", "capstan_wait_", "capi_"];
    words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
}

/// The metric that a sample belongs to.
fn family<'a>(name: &'a str, declared: &BTreeSet<String>) -> &'a str {
    let ends = ["_bucket", "_sum", "_count"].into_iter().filter_map(|end| name.strip_suffix(end));
    ends.into_iter().find(|base| declared.contains(*base)).unwrap_or(name)
}

#[tokio::test]
async fn the_documentation_names_every_metric_and_no_other() {
    let (metrics, _cache) = served().await;
    let mut documented = named(&read("docs/reference/metrics.md"));
    // Of what is said to be missing.
    documented.remove("capi_machineset_status_replicas_fully_labeled");
    documented.retain(|name| !name.ends_with('_'));
    assert_eq!(documented, declared(&metrics.text()));
}

#[tokio::test]
async fn waits_are_exposed_with_who_must_act() {
    let (metrics, _cache) = served().await;
    let text = metrics.text();
    let waits: Vec<&str> = text.lines().filter(|line| line.starts_with("capstan_wait_")).collect();
    let expected = "capstan_wait_start_time_seconds{kind=\"Host\",namespace=\"fleet\",name=\"a\",\
        condition=\"Reachable\",reason=\"Unreachable\",owner=\"person\"} 1767225600";
    assert_eq!(waits, [expected]);
}

#[tokio::test]
async fn dashboards_and_alerts_ask_for_what_is_served() {
    let (metrics, _cache) = served().await;
    let declared = declared(&metrics.text());
    for path in ["config/observability/grafana-dashboard.json", "config/observability/prometheus-rules.yaml"]
    {
        let named = named(&read(path));
        assert!(named.len() > 10, "{path}: {named:?}");
        for name in &named {
            assert!(
                declared.contains(family(name, &declared)),
                "{path} asks for {name}, which is not served"
            );
        }
    }
}

#[test]
fn the_dashboard_is_json_with_a_query_in_every_panel() {
    let dashboard: Value =
        serde_json::from_str(&read("config/observability/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let graphs: Vec<&Value> = panels.iter().filter(|panel| panel["type"] != "row").collect();
    assert!(graphs.len() > 10);
    for panel in graphs {
        let queries = panel["targets"].as_array().unwrap();
        assert!(
            !queries.is_empty() && queries.iter().all(|query| !query["expr"].as_str().unwrap().is_empty())
        );
    }
}

/// A line that is not a comment has a name, labels in braces, and a number.
#[tokio::test]
async fn every_line_is_one_that_scrapers_read() {
    let (metrics, _cache) = served().await;
    let text = metrics.text();
    let declared = declared(&text);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        assert!(declared.contains(family(name, &declared)), "{line}");
        assert!(labels.ends_with('}') && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(text.ends_with('\n') && !text.contains("# EOF"));
}
