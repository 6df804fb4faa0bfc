//! The Service `kubernetes` in the namespace `default`, by which clients inside a cluster find the API server. There is no cluster
//! network here: the Service is headless, and its EndpointSlice has the address of the listener, unless that is a loopback address.

use std::{net::SocketAddr, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    call::Call,
    plane::Plane,
    request::options::WriteOptions,
    status::Result,
    store::{Event, GroupResource, Key, Listing},
    user::User,
    verbs::{
        create::{self, NewObject},
        update::{self, Edit},
    },
};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, address: SocketAddr, stopping: watch::Receiver<bool>) {
    let key = |group: &str, resource: &str| Key::new(GroupResource::new(group, resource), NAMESPACE, NAME);
    let wanted = [
        (key("", "services"), service(address.port())),
        (key("discovery.k8s.io", "endpointslices"), slice(address)),
    ];
    engine::run(plane, stopping, Publisher { wanted }).await;
}

fn service(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": port, "targetPort": port}],
        },
    })
}

fn slice(address: SocketAddr) -> Value {
    let ip = address.ip();
    let is_reachable = !ip.is_loopback() && !ip.is_unspecified();
    let endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = is_reachable.then_some(endpoint).into_iter().collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if address.is_ipv6() { "IPv6" } else { "IPv4" },
        "endpoints": endpoints, "ports": [{"name": "https", "protocol": "TCP", "port": address.port()}],
    })
}

struct Publisher {
    wanted: [(Key, Value); 2],
}

impl Controller for Publisher {
    /// Index of the object.
    type Item = usize;

    fn seed(&mut self, _: &Listing) -> Vec<usize> {
        (0..self.wanted.len()).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<usize> {
        self.wanted.iter().position(|(key, _)| *key == event.object.key).into_iter().collect()
    }

    async fn process(&mut self, plane: &Arc<Plane>, index: &usize) -> Result<Vec<usize>> {
        let (key, wanted) = &self.wanted[*index];
        let Some(call) = Call::internal(plane, key, &User::controller("kubernetes-service")) else {
            return Ok(Vec::new());
        };
        let options = WriteOptions::default();
        let Some(stored) = plane.store.get(key) else {
            let new = NewObject::posted(wanted.clone(), Vec::new());
            return match create::create(&call, new, &options).await {
                Err(error) if error.reason() == "AlreadyExists" => Ok(vec![*index]),
                created => created.map(|_| Vec::new()),
            };
        };
        // An update that changes nothing would compile the schemas of both kinds at every start, which takes more memory
        // than all the rest of a start.
        let fields = || wanted.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata");
        let current = stored.value.once();
        if fields().all(|(field, value)| current.get(field).is_some_and(|found| contains(found, value))) {
            return Ok(Vec::new());
        }
        let edit = |current: Option<&Value>| {
            let mut object = current.cloned().ok_or_else(|| call.not_found())?;
            for (field, value) in fields() {
                object[field] = value.clone();
            }
            Ok(Edit { object, warnings: Vec::new(), tracked: false })
        };
        update::update(&call, &options, edit).await.map(|_| Vec::new())
    }
}

/// Whether a stored value is the wanted one, apart from fields that defaulting has added.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| found.get(field).is_some_and(|found| contains(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| contains(found, wanted))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_defaulting_adds_make_no_difference_and_others_do() {
        let wanted = service(6443);
        let mut found = wanted.clone();
        found["spec"]["internalTrafficPolicy"] = json!("Cluster");
        found["spec"]["ports"][0]["nodePort"] = json!(1);
        assert!(contains(&found, &wanted));
        assert!(!contains(&found, &service(6444)));
        found["spec"]["ports"].as_array_mut().unwrap().push(json!({"port": 1}));
        assert!(!contains(&found, &wanted), "another port");
        assert!(!contains(&json!({"spec": {}}), &wanted));
    }

    #[test]
    fn only_an_address_that_others_reach_is_published() {
        let addresses = |address: &str| slice(address.parse().unwrap())["endpoints"].clone();
        let known = json!([{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}]);
        assert_eq!(addresses("10.0.0.7:6443"), known);
        for hidden in ["127.0.0.1:6443", "0.0.0.0:6443", "[::]:6443", "[::1]:6443"] {
            assert_eq!(addresses(hidden), json!([]), "{hidden}");
        }
        assert_eq!(slice("[fd00::1]:6443".parse().unwrap())["addressType"], "IPv6");
    }
}
