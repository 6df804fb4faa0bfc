//! The inventory, and one host.

use anyhow::{Context as _, Result};
use capstan_api::conditions::{Condition, ConditionStatus};
use capstan_api::infrastructure::{Host, HostState};
use capstan_ui::model::{HostPage, HostRow, Hosts, Offer, Paging, Tone};
use capstan_ui::{Action, Filter, Problem, Target};
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::sync::Arc;

use super::machine::events_of;
use super::objects::{Objects, value};
use super::text::{conditions, counts, facts};

/// Hosts on a page of the web view.
pub(super) const ROWS: usize = 100;

/// One page of hosts, with `size` rows.
pub(super) async fn list(objects: &Objects, filter: &Filter, size: usize) -> Result<Hosts> {
    let mut hosts = objects.hosts.all().await?;
    hosts.sort_by_key(|host| (host.namespace(), host.name_any()));
    let states = counts(hosts.iter().map(|host| state_of(host)));
    let wanted: Vec<&Arc<Host>> = hosts.iter().filter(|host| is_wanted(host, filter)).collect();
    let (paging, range) = Paging::of(wanted.len(), filter.page, size);
    let rows = wanted[range].iter().map(|host| row(host)).collect();
    Ok(Hosts { hosts: rows, paging, states, notices: objects.notices.clone() })
}

fn is_wanted(host: &Host, filter: &Filter) -> bool {
    let is_state = filter.state.is_empty() || state_of(host).0 == filter.state;
    is_state && host.name_any().contains(&filter.text)
}

/// State of a host, and its colour.
pub(super) fn state_of(host: &Host) -> (String, Tone) {
    let Some(state) = host.status.as_ref().and_then(|status| status.state) else {
        return ("not checked yet".to_owned(), Tone::Waiting);
    };
    let tone = match state {
        HostState::Available => Tone::Neutral,
        HostState::Claimed => Tone::Good,
        HostState::Releasing | HostState::Unschedulable => Tone::Waiting,
        HostState::Quarantined | HostState::Unreachable | HostState::Unusable => Tone::Bad,
    };
    (format!("{state:?}"), tone)
}

fn row(host: &Host) -> HostRow {
    let (state, tone) = state_of(host);
    let (reason, problem) = problem(host);
    let claim = host.spec.claim.as_ref();
    HostRow {
        namespace: host.namespace().unwrap_or_default(),
        name: host.name_any(),
        state,
        tone,
        address: host
            .spec
            .ssh
            .as_ref()
            .map_or_else(|| "simulated".to_owned(), |ssh| format!("{}:{}", ssh.address, ssh.port)),
        domain: host.spec.failure_domain.clone().unwrap_or_default(),
        cluster: claim.map(|claim| claim.cluster_name.clone()).unwrap_or_default(),
        machine: claim.map(|claim| claim.machine_name.clone()).unwrap_or_default(),
        reason,
        problem,
    }
}

/// Why a host cannot be used, and the remedy: its quarantine, else the first check that failed.
fn problem(host: &Host) -> (String, String) {
    if let Some(quarantine) = &host.spec.quarantine {
        return (quarantine.reason.clone(), quarantine.message.clone().unwrap_or_default());
    }
    let conditions = host.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_failed = |condition: &&Condition| {
        ["Reachable", "Usable"].contains(&condition.type_.as_str())
            && condition.status != ConditionStatus::True
    };
    let failed = conditions.iter().find(is_failed);
    failed.map(|failed| (failed.reason.clone(), failed.message.clone())).unwrap_or_default()
}

pub(super) async fn page(client: &Client, namespace: &str, name: &str) -> Result<HostPage> {
    let api: Api<Host> = Api::namespaced(client.clone(), namespace);
    let host = api.get_opt(name).await.with_context(|| format!("cannot read Host {namespace}/{name}"))?;
    let host =
        host.ok_or_else(|| Problem::NotFound(format!("There is no Host {name} in namespace {namespace}.")))?;
    let (now, object) = (Timestamp::now(), value(&host));
    let target = || Target {
        kind: "Host".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: host.resource_version().unwrap_or_default(),
    };
    let offers = match &host.spec.quarantine {
        Some(_) => vec![Offer::new(Action::EndQuarantine, target())],
        None => vec![],
    };
    Ok(HostPage {
        row: row(&host),
        facts: facts(&object["status"]["facts"]),
        conditions: conditions(&object, now).into_iter().collect(),
        events: events_of(client, namespace, &[name], now).await?,
        offers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn host(spec: &Value, status: &Value) -> Host {
        let mut object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": "rack-1", "namespace": "default"}, "spec": {"simulated": {}}, "status": status,
        });
        if let (Some(all), Some(more)) = (object["spec"].as_object_mut(), spec.as_object()) {
            all.extend(more.clone());
        }
        serde_json::from_value(object).expect("a Host")
    }

    #[test]
    fn the_problem_is_the_quarantine_or_the_check_that_failed() {
        let failed = json!({"state": "Unusable", "conditions": [
            {"type": "Reachable", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"},
            {"type": "Usable", "status": "False", "reason": "NoCgroups", "message": "enable cgroup v2",
                "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
        let unusable = row(&host(&json!({}), &failed));
        assert_eq!((unusable.reason.as_str(), unusable.problem.as_str()), ("NoCgroups", "enable cgroup v2"));
        assert_eq!(unusable.tone, Tone::Bad);
        let quarantine =
            json!({"quarantine": {"reason": "NotClean", "message": "files are left in /var/lib"}});
        assert_eq!(row(&host(&quarantine, &failed)).reason, "NotClean");
        assert_eq!(row(&host(&json!({}), &json!({"state": "Claimed"}))).tone, Tone::Good);
    }

    #[test]
    fn hosts_are_filtered_by_name_and_state() {
        let host = host(&json!({}), &json!({"state": "Claimed"}));
        for (text, state, expected) in
            [("", "", true), ("rack", "Claimed", true), ("other", "", false), ("", "Available", false)]
        {
            let filter = Filter { text: text.to_owned(), state: state.to_owned(), page: 1 };
            assert_eq!(is_wanted(&host, &filter), expected, "{text} {state}");
        }
    }
}
