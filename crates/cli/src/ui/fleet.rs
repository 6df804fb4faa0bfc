//! The first page: all clusters and hosts.

use anyhow::Result;
use capstan_api::conditions::ConditionStatus;
use capstan_api::core::Cluster;
use capstan_api::infrastructure::Host;
use capstan_ui::Filter;
use capstan_ui::model::{ClusterRow, Count, Domain, Fleet, HostCell, Paging, Tone};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::hosts::state_of;
use super::objects::Objects;
use super::text::{cluster_waits, counts};

/// Clusters on a page of the web view.
pub(super) const ROWS: usize = 50;
/// Hosts that a failure domain shows as squares.
const HOSTS: usize = 300;

/// One page of clusters, with `size` rows. What a cluster waits for is determined only for those that are seen.
pub(super) async fn page(
    objects: &Objects,
    filter: &Filter,
    size: usize,
    is_seen: impl Fn(&Cluster) -> bool,
    now: Timestamp,
) -> Result<Fleet> {
    let mut clusters = objects.clusters.all().await?;
    clusters.sort_by_key(|cluster| (cluster.namespace(), cluster.name_any()));
    let hosts = objects.hosts.all().await?;
    let totals = totals(&clusters, &hosts);
    let wanted: Vec<&Arc<Cluster>> = clusters.iter().filter(|cluster| is_wanted(cluster, filter)).collect();
    let (paging, range) = Paging::of(wanted.len(), filter.page, size);
    let mut rows = Vec::new();
    for cluster in &wanted[range] {
        let waiting = match is_seen(cluster) {
            true => cluster_waits(&objects.snapshot(cluster).await?, now),
            false => None,
        };
        rows.push(ClusterRow { waiting, ..row(cluster) });
    }
    Ok(Fleet { totals, clusters: rows, paging, domains: domains(&hosts), notices: objects.notices.clone() })
}

fn is_wanted(cluster: &Cluster, filter: &Filter) -> bool {
    let is_named = cluster.name_any().contains(&filter.text)
        || cluster.namespace().is_some_and(|namespace| namespace.contains(&filter.text));
    is_named
        && match filter.state.as_str() {
            "waiting" => !is_available(cluster),
            "available" => is_available(cluster),
            _ => true,
        }
}

fn is_available(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Available" && condition.status == ConditionStatus::True)
}

/// A cluster as a row, without what it waits for.
pub(super) fn row(cluster: &Cluster) -> ClusterRow {
    let status = cluster.status.clone().unwrap_or_default();
    let (health, tone) = if cluster.metadata.deletion_timestamp.is_some() {
        ("deleting", Tone::Waiting)
    } else if is_available(cluster) {
        ("available", Tone::Good)
    } else {
        ("not available", Tone::Waiting)
    };
    let part = |counts: Option<&capstan_api::core::ClusterReplicasStatus>| {
        counts.map_or_else(String::new, |counts| {
            format!("{}/{}", counts.ready_replicas.unwrap_or(0), counts.desired_replicas.unwrap_or(0))
        })
    };
    let versions = status.control_plane.as_ref().map(|counts| counts.versions.as_slice()).unwrap_or_default();
    let version = versions.iter().map(|version| version.version.clone()).collect::<Vec<_>>().join(", ");
    ClusterRow {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        version,
        phase: status.phase.map(|phase| format!("{phase:?}")).unwrap_or_default(),
        health: health.to_owned(),
        tone,
        servers: part(status.control_plane.as_ref()),
        workers: part(status.workers.as_ref()),
        waiting: None,
    }
}

fn totals(clusters: &[Arc<Cluster>], hosts: &[Arc<Host>]) -> Vec<Count> {
    let available = clusters.iter().filter(|cluster| is_available(cluster)).count();
    let machines = |ready: bool| {
        let status = clusters.iter().filter_map(|cluster| cluster.status.as_ref());
        let parts =
            status.flat_map(|status| [status.control_plane.as_ref(), status.workers.as_ref()]).flatten();
        let count = |part: &capstan_api::core::ClusterReplicasStatus| {
            if ready { part.ready_replicas } else { part.desired_replicas }
        };
        usize::try_from(parts.filter_map(count).sum::<i32>()).unwrap_or(0)
    };
    let (ready, wanted) = (machines(true), machines(false));
    let tone = |all: bool| if all { Tone::Good } else { Tone::Waiting };
    let count = |label: &str, count: usize, tone: Tone| Count { label: label.to_owned(), count, tone };
    vec![
        count("clusters", clusters.len(), Tone::Neutral),
        count("available", available, tone(available == clusters.len())),
        count("machines wanted", wanted, Tone::Neutral),
        count("machines ready", ready, tone(ready == wanted)),
        count("hosts", hosts.len(), Tone::Neutral),
    ]
}

/// Hosts by failure domain.
fn domains(hosts: &[Arc<Host>]) -> Vec<Domain> {
    let mut domains: BTreeMap<String, Vec<&Host>> = BTreeMap::new();
    for host in hosts {
        domains.entry(host.spec.failure_domain.clone().unwrap_or_default()).or_default().push(host);
    }
    let cell = |host: &&Host| {
        let (state, tone) = state_of(host);
        HostCell { namespace: host.namespace().unwrap_or_default(), name: host.name_any(), state, tone }
    };
    domains
        .into_iter()
        .map(|(name, mut hosts)| {
            hosts.sort_by_key(|host| (host.namespace(), host.name_any()));
            Domain {
                name,
                states: counts(hosts.iter().map(|host| state_of(host))),
                hosts: hosts.iter().take(HOSTS).map(cell).collect(),
                more: hosts.len().saturating_sub(HOSTS),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(name: &str, available: &str) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {},
            "status": {
                "phase": "Provisioned",
                "controlPlane": {"desiredReplicas": 3, "readyReplicas": 2, "versions": [{"version": "v1.36.0", "replicas": 3}]},
                "workers": {"desiredReplicas": 5, "readyReplicas": 5},
                "conditions": [{"type": "Available", "status": available, "reason": "R", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:00Z"}],
            },
        }))
        .expect("a Cluster")
    }

    #[test]
    fn a_row_sums_a_cluster_up() {
        let row = row(&cluster("shop", "False"));
        assert_eq!(
            (row.servers.as_str(), row.workers.as_str(), row.version.as_str()),
            ("2/3", "5/5", "v1.36.0")
        );
        assert_eq!((row.health.as_str(), row.tone), ("not available", Tone::Waiting));
    }

    #[test]
    fn filters_select_by_name_and_health() {
        let clusters = [cluster("shop", "True"), cluster("bank", "False")];
        let names = |text: &str, state: &str| {
            let filter = Filter { text: text.to_owned(), state: state.to_owned(), page: 1 };
            clusters
                .iter()
                .filter(|c| is_wanted(c, &filter))
                .map(kube::ResourceExt::name_any)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("", ""), ["shop", "bank"]);
        assert_eq!(names("sh", ""), ["shop"]);
        assert_eq!(names("default", "waiting"), ["bank"]);
        assert_eq!(names("", "available"), ["shop"]);
    }

    #[test]
    fn totals_count_machines_of_all_clusters() {
        let clusters = [cluster("shop", "True"), cluster("bank", "False")].map(Arc::new);
        let totals: Vec<usize> = totals(&clusters, &[]).into_iter().map(|count| count.count).collect();
        assert_eq!(totals, [2, 1, 16, 14, 0]);
    }
}
