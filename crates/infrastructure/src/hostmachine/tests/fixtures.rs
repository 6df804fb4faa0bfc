//! Objects as verbs.

use capstan_api::core::{
    Bootstrap, Cluster, ClusterInitializationStatus, ClusterSpec, ClusterStatus, Machine, MachineSpec,
};
use capstan_api::infrastructure::{Host, HostClaim, HostMachine, HostMachineSpec, HostSpec, SimulatedHost};
use capstan_api::meta::ContractVersionedObjectReference;
use kube::ResourceExt as _;
use std::sync::Arc;

pub(super) fn host(name: &str) -> Host {
    let spec = HostSpec {
        ssh: None,
        simulated: Some(SimulatedHost::default()),
        registration: None,
        failure_domain: None,
        unschedulable: None,
        claim: None,
        quarantine: None,
        config: None,
        windows: Vec::new(),
    };
    let mut host = Host::new(name, spec);
    host.metadata.namespace = Some("yard".to_owned());
    host
}

/// Hosts as they are in memory.
pub(super) fn shared<const N: usize>(hosts: [Host; N]) -> [Arc<Host>; N] {
    hosts.map(Arc::new)
}

pub(super) fn claimed(mut host: Host, id: &str) -> Host {
    host.spec.claim = Some(HostClaim {
        id: id.to_owned(),
        machine_name: format!("machine-of-{id}"),
        cluster_name: "c".to_owned(),
        since: None,
    });
    host
}

pub(super) fn within(mut host: Host, domain: &str) -> Host {
    host.spec.failure_domain = Some(domain.to_owned());
    host
}

pub(super) fn labelled(mut host: Host, key: &str, value: &str) -> Host {
    host.labels_mut().insert(key.to_owned(), value.to_owned());
    host
}

pub(super) fn machine() -> HostMachine {
    let mut machine = HostMachine::new("m", HostMachineSpec::default());
    machine.metadata.namespace = Some("yard".to_owned());
    machine
}

pub(super) fn owner(data: Option<&str>) -> Machine {
    let reference = ContractVersionedObjectReference {
        kind: "HostMachine".to_owned(),
        name: "m".to_owned(),
        api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
    };
    Machine::new(
        "owner",
        MachineSpec {
            cluster_name: "c".to_owned(),
            bootstrap: Bootstrap { config_ref: None, data_secret_name: data.map(str::to_owned) },
            infrastructure_ref: reference,
            version: None,
            provider_id: None,
            failure_domain: None,
            min_ready_seconds: None,
            readiness_gates: vec![],
            deletion: None,
            taints: vec![],
        },
    )
}

pub(super) fn cluster(provisioned: bool) -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    cluster.status = Some(ClusterStatus {
        initialization: Some(ClusterInitializationStatus {
            infrastructure_provisioned: Some(provisioned),
            ..Default::default()
        }),
        ..Default::default()
    });
    cluster
}
