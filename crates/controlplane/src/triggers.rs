//! The events that trigger a reconcile of a CapstanControlPlane, except its own: all objects that its decisions are
//! made from.

mod hosts;

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::find;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment};
use capstan_api::meta::labels;
use capstan_controller::external::Externals;
use capstan_controller::remote::Remotes;
use capstan_controller::run::reference;
use capstan_controller::{Caches, Scope, identity};
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::observe::machine::HEALTH_CHECK_SUCCEEDED;

/// Namespace and name of a Cluster.
type Key = (String, String);

/// Control planes of clusters with changes.
pub(crate) fn control_planes(
    caches: &Caches,
    externals: &Externals,
    scope: &Scope,
    remotes: &Remotes,
) -> impl Stream<Item = ObjectRef<CapstanControlPlane>> + Send + 'static + use<> {
    let all = caches.of::<Cluster>();
    let clusters = all
        .changed(|cluster| {
            let status = cluster.status.as_ref();
            (
                cluster.metadata.generation,
                status.and_then(|status| status.initialization.clone()),
                status.map(|status| status.failure_domains.clone()),
            )
        })
        .map(|cluster| Some((cluster.namespace()?, cluster.name_any())));
    let machines = caches
        .of::<Machine>()
        .changed(machine_facts)
        .map(|machine| Some((machine.namespace()?, machine.spec.cluster_name.clone())));
    let configs = caches
        .of::<CapstanConfig>()
        .changed(|config| (config.metadata.generation, identity::of(config).map(str::to_owned)))
        .map(|config| key(config.as_ref()));
    // Heartbeats and probes trigger no reconcile.
    let reports = caches
        .of::<MachineReport>()
        .changed(|report| {
            let status = report.status.as_ref();
            // What software a machine gets depends on what it says it is.
            let about = status.and_then(|status| status.facts.clone());
            let about = about.map(|about| (about.architecture, about.os_image));
            let plan = status.map(|status| (status.plan.clone(), status.phase, status.applied.clone()));
            // And what its plan may contain depends on its agent.
            let agent = status.map(|status| {
                (status.agent_version.clone(), status.capabilities.clone(), status.agent_program.clone())
            });
            (plan, about, agent)
        })
        .map(|report| key(report.as_ref()));
    let secrets = scope
        .beside_clusters(caches, |secret: &Secret| secret.resource_version())
        .map(|secret| key(secret.as_ref()));
    let deployments = caches
        .of::<MachineDeployment>()
        .changed(|deployment| {
            let spec = &deployment.spec;
            (spec.replicas, spec.rollout.clone(), deployment.annotations().clone())
        })
        .map(|deployment| Some((deployment.namespace()?, deployment.spec.cluster_name.clone())));
    let nodes = remotes.node_changes().map(Some);
    let hosts = hosts::clusters(externals).map(Some);
    let streams: Vec<BoxStream<'static, Option<Key>>> = vec![
        clusters.boxed(),
        machines.boxed(),
        configs.boxed(),
        reports.boxed(),
        secrets.boxed(),
        deployments.boxed(),
        nodes.boxed(),
        hosts.boxed(),
    ];
    select_all(streams).filter_map(move |key| {
        let all = all.clone();
        async move {
            let (namespace, cluster) = key?;
            // A Cluster that is not listed yet is an event once it is.
            let cluster = all.get(&namespace, &cluster).await.ok()??;
            let control_plane = cluster.spec.control_plane_ref.as_ref();
            let control_plane = control_plane.filter(|object| object.kind == "CapstanControlPlane")?;
            Some(reference(&namespace, &control_plane.name))
        }
    })
}

fn machine_facts(machine: &Machine) -> impl PartialEq + Send + use<> {
    let status = machine.status.clone().unwrap_or_default();
    let condition = |type_: &str| find(&status.conditions, type_).map(|condition| condition.status);
    (
        (machine.metadata.generation, machine.metadata.deletion_timestamp.is_some()),
        (machine.labels().clone(), machine.annotations().clone()),
        (condition("Ready"), condition("Available"), condition(HEALTH_CHECK_SUCCEEDED)),
        (status.node_ref, status.node_info),
    )
}

fn key(object: &impl ResourceExt) -> Option<Key> {
    Some((object.namespace()?, object.labels().get(labels::CLUSTER_NAME)?.clone()))
}
