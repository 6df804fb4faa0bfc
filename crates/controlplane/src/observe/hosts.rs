//! Reads the Hosts that the machines of a cluster are on. A Machine names its Host in its provider ID.

use capstan_api::core::Machine;
use capstan_api::infrastructure::ProviderId;
use capstan_controller::Knowledge;
use capstan_controller::error::chain;
use capstan_distro::HostFacts;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scope::Scope;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const KIND: &str = "Host";

/// The Hosts of machines, by the name of the Machine. A machine that is on no Host of Capstan is absent.
pub(crate) type Hosts = BTreeMap<String, Knowledge<HostFacts>>;

impl Scope<'_> {
    /// Reads the Hosts of these machines. It cannot fail: a Host that cannot be read is unknown, and holds up only the machine
    /// on it.
    pub(super) async fn hosts(&self, machines: &BTreeMap<String, Arc<Machine>>) -> Hosts {
        let ids: BTreeMap<&String, ProviderId<'_>> =
            machines.iter().filter_map(|(name, machine)| Some((name, provider_id(machine)?))).collect();
        // Other infrastructure providers have no such kind.
        if ids.is_empty() {
            return Hosts::new();
        }
        let listed = match self.externals.list(GROUP, KIND, self.namespace).await {
            Ok(listed) => Knowledge::Known(listed),
            Err(error) => Knowledge::Unknown(chain(&error)),
        };
        let by_name = listed
            .map(|hosts| hosts.into_iter().map(|host| (host.name_any(), host)).collect::<BTreeMap<_, _>>());
        let find = |id: ProviderId<'_>| match &by_name {
            Knowledge::Known(hosts) => facts(id, self.namespace, hosts.get(id.host).map(Arc::as_ref)),
            Knowledge::Unknown(why) => Knowledge::Unknown(why.clone()),
        };
        ids.into_iter().map(|(name, id)| (name.clone(), find(id))).collect()
    }
}

/// The provider ID of a machine that is on a Host of Capstan.
pub(crate) fn provider_id(machine: &Machine) -> Option<ProviderId<'_>> {
    machine.spec.provider_id.as_deref().and_then(ProviderId::parse)
}

/// The facts about the Host that a provider ID names.
fn facts(id: ProviderId<'_>, namespace: &str, host: Option<&DynamicObject>) -> Knowledge<HostFacts> {
    let Some(host) = host.filter(|_| id.namespace == namespace) else {
        return Knowledge::unknown("it does not exist");
    };
    // The cache may be older than the claim, and a Host may have been released and claimed by another machine.
    if host.data["spec"]["claim"]["id"].as_str() != Some(id.claim) {
        return Knowledge::unknown("this machine has not claimed it");
    }
    let config = match &host.data["spec"]["config"] {
        serde_json::Value::Null => Ok(capstan_api::bootstrap::HostConfig::default()),
        config => serde_json::from_value(config.clone()),
    };
    let Ok(config) = config else {
        return Knowledge::unknown("spec.config is not what this version of Capstan knows");
    };
    let windows = match &host.data["spec"]["windows"] {
        serde_json::Value::Null => Ok(Vec::new()),
        windows => serde_json::from_value(windows.clone()),
    };
    let Ok(windows) = windows else {
        return Knowledge::unknown("spec.windows is not what this version of Capstan knows");
    };
    Knowledge::Known(HostFacts { name: host.name_any(), labels: host.labels().clone(), config, windows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn host(spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": "h", "namespace": "n", "labels": {"rack": "a"}}, "spec": spec,
        }))
        .expect("a Host")
    }

    #[test]
    fn a_host_counts_if_the_machine_has_claimed_it() {
        let id = ProviderId { namespace: "n", host: "h", claim: "c" };
        let known = facts(id, "n", Some(&host(&json!({"claim": {"id": "c"}}))));
        let labels = BTreeMap::from([("rack".to_owned(), "a".to_owned())]);
        let expected = HostFacts { name: "h".to_owned(), labels, ..HostFacts::default() };
        assert_eq!(known, Knowledge::Known(expected));
        let config = json!({"settings": {"node-ip": "10.0.0.2"}});
        let known = facts(id, "n", Some(&host(&json!({"claim": {"id": "c"}, "config": config}))));
        assert!(known.is_known_and(|host| host.config.settings.contains_key("node-ip")));
        let known =
            facts(id, "n", Some(&host(&json!({"claim": {"id": "c"}, "windows": ["Sat 01:00-02:00"]}))));
        assert!(known.is_known_and(|host| host.windows == ["Sat 01:00-02:00"]));
        for (why, namespace, host) in [
            ("it does not exist", "n", None),
            ("it does not exist", "other", Some(host(&json!({"claim": {"id": "c"}})))),
            ("this machine has not claimed it", "n", Some(host(&json!({})))),
            ("this machine has not claimed it", "n", Some(host(&json!({"claim": {"id": "d"}})))),
            (
                "spec.config is not what this version of Capstan knows",
                "n",
                Some(host(&json!({"claim": {"id": "c"}, "config": {"settings": 7}}))),
            ),
            (
                "spec.windows is not what this version of Capstan knows",
                "n",
                Some(host(&json!({"claim": {"id": "c"}, "windows": [{"from": "02:00"}]}))),
            ),
        ] {
            assert_eq!(facts(id, namespace, host.as_ref()), Knowledge::unknown(why));
        }
    }
}
