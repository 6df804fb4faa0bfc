//! Clusters whose machines are on Hosts with another configuration.

use capstan_api::infrastructure::Host;
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::Knowledge;
use capstan_controller::error::chain;
use capstan_controller::external::Externals;
use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

use super::Key;

/// What the configuration of a machine depends on.
#[derive(Clone, Debug, PartialEq)]
struct HostState {
    /// The Cluster of the machine.
    cluster: Option<Key>,
    claim: Value,
    labels: BTreeMap<String, String>,
    config: Value,
    windows: Value,
}

/// The Clusters of Hosts whose claim, labels, configuration or maintenance windows have changed. The status of a Host changes often, and triggers
/// nothing.
pub(super) fn clusters(externals: &Externals) -> impl Stream<Item = Key> + Send + 'static + use<> {
    let (hosts, externals) = (externals.changes::<Host>(), externals.clone());
    let changed = hosts.then(move |reference| {
        let externals = externals.clone();
        async move {
            let key = (reference.namespace.unwrap_or_default(), reference.name);
            let now = read(&externals, &key).await;
            (key, now)
        }
    });
    changed
        .scan(HashMap::new(), |known: &mut HashMap<Key, HostState>, (host, now)| {
            let concerned = match now {
                Knowledge::Known(now) => news(known, host, now),
                // The next reconcile of its Cluster says so.
                Knowledge::Unknown(_) => Vec::new(),
            };
            std::future::ready(Some(futures::stream::iter(concerned)))
        })
        .flatten()
}

/// The Clusters of before and after a change.
fn news(known: &mut HashMap<Key, HostState>, host: Key, now: Option<HostState>) -> Vec<Key> {
    let before = match &now {
        Some(now) => known.insert(host, now.clone()),
        None => known.remove(&host),
    };
    if before == now {
        return Vec::new();
    }
    let mut clusters: Vec<Key> =
        [before, now].into_iter().flatten().filter_map(|host| host.cluster).collect();
    clusters.dedup();
    clusters
}

/// The state of a Host; `None` if it does not exist.
async fn read(externals: &Externals, (namespace, name): &Key) -> Knowledge<Option<HostState>> {
    let by_name = ContractVersionedObjectReference {
        kind: "Host".to_owned(),
        name: name.clone(),
        api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
    };
    match externals.get(&by_name, namespace).await {
        Ok(found) => Knowledge::Known(found.map(|host| state(&host))),
        Err(error) => Knowledge::Unknown(chain(&error)),
    }
}

fn state(host: &DynamicObject) -> HostState {
    let spec = &host.data["spec"];
    let cluster = spec["claim"]["clusterName"].as_str();
    HostState {
        cluster: cluster.and_then(|cluster| Some((host.namespace()?, cluster.to_owned()))),
        claim: spec["claim"]["id"].clone(),
        labels: host.labels().clone(),
        config: spec["config"].clone(),
        windows: spec["windows"].clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host(cluster: Option<&str>, label: &str, config: &Value) -> HostState {
        let claim = cluster.map(|cluster| json!({"id": "1", "clusterName": cluster}));
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": "h", "namespace": "n", "labels": {"rack": label}},
            "spec": {"claim": claim, "config": config}, "status": {"state": "Claimed"},
        });
        state(&serde_json::from_value(object).expect("a Host"))
    }

    #[test]
    fn a_cluster_is_told_of_what_its_machines_depend_on() {
        let mut known = HashMap::new();
        let mut tell = |now: Option<HostState>| -> Vec<String> {
            let host = ("n".to_owned(), "h".to_owned());
            news(&mut known, host, now).into_iter().map(|(_, cluster)| cluster).collect()
        };
        let (empty, config) = (json!({}), json!({"settings": {"node-ip": "10.0.0.2"}}));
        assert!(tell(Some(host(None, "a", &empty))).is_empty(), "nobody has claimed it");
        assert_eq!(tell(Some(host(Some("c"), "a", &empty))), ["c"]);
        assert!(tell(Some(host(Some("c"), "a", &empty))).is_empty(), "nothing has changed");
        assert_eq!(tell(Some(host(Some("c"), "b", &empty))), ["c"]);
        assert_eq!(tell(Some(host(Some("c"), "b", &config))), ["c"]);
        let windows = HostState { windows: json!(["Sat 01:00-02:00"]), ..host(Some("c"), "b", &config) };
        assert_eq!(tell(Some(windows)), ["c"]);
        assert_eq!(tell(Some(host(Some("d"), "b", &config))), ["c", "d"]);
        assert_eq!(tell(None), ["d"]);
        assert!(tell(None).is_empty());
    }
}
