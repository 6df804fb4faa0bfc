//! What wakes the reconciler, beside the CapstanControlPlanes themselves: everything its decisions are made from.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::find;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment};
use capstan_api::meta::labels;
use capstan_controller::remote::Remotes;
use capstan_controller::watch::{changed, reference};
use capstan_controller::{Scope, identity};
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};

use crate::facts::HEALTH_CHECK_SUCCEEDED;

/// Namespace and name of a Cluster.
type Key = (String, String);

/// Control planes of clusters in which something has changed.
pub(crate) fn control_planes(
    client: &Client,
    scope: &Scope,
    remotes: &Remotes,
) -> impl Stream<Item = ObjectRef<CapstanControlPlane>> + Send + 'static {
    let all = watcher::Config::default;
    let labelled = || all().labels(labels::CLUSTER_NAME);
    let clusters = changed(scope.api::<Cluster>(client), all(), |cluster| {
        let status = cluster.status.as_ref();
        (
            cluster.metadata.generation,
            status.and_then(|status| status.initialization.clone()),
            status.map(|status| status.failure_domains.clone()),
        )
    })
    .map(|cluster| Some((cluster.namespace()?, cluster.name_any())));
    let machines = changed(scope.api::<Machine>(client), all(), machine_facts)
        .map(|machine| Some((machine.namespace()?, machine.spec.cluster_name)));
    let configs = changed(scope.api::<CapstanConfig>(client), labelled(), |config| {
        (config.metadata.generation, identity::of(config).map(str::to_owned))
    })
    .map(|config| key(&config));
    // Heartbeats, probes and facts wake nobody.
    let reports = changed(scope.api::<MachineReport>(client), labelled(), |report| {
        let status = report.status.as_ref();
        status.map(|status| (status.plan.clone(), status.phase, status.applied.clone()))
    })
    .map(|report| key(&report));
    let secrets = scope
        .beside_clusters(client, labelled(), |secret: &PartialObjectMeta<Secret>| secret.resource_version())
        .map(|secret| key(&secret));
    let deployments = changed(scope.api::<MachineDeployment>(client), all(), |deployment| {
        let spec = &deployment.spec;
        (spec.replicas, spec.rollout.clone())
    })
    .map(|deployment| Some((deployment.namespace()?, deployment.spec.cluster_name)));
    let nodes = remotes.node_changes().map(Some);
    let streams: Vec<BoxStream<'static, Option<Key>>> = vec![
        clusters.boxed(),
        machines.boxed(),
        configs.boxed(),
        reports.boxed(),
        secrets.boxed(),
        deployments.boxed(),
        nodes.boxed(),
    ];
    let client = client.clone();
    select_all(streams).filter_map(move |key| {
        let client = client.clone();
        async move {
            let (namespace, cluster) = key?;
            control_plane_of(&client, &namespace, &cluster).await
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

async fn control_plane_of(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Option<ObjectRef<CapstanControlPlane>> {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    match clusters.get_opt(cluster).await {
        Ok(cluster) => {
            let control_plane =
                cluster?.spec.control_plane_ref.filter(|object| object.kind == "CapstanControlPlane")?;
            Some(reference(namespace, &control_plane.name))
        }
        Err(error) => {
            tracing::warn!(%namespace, %cluster, %error, "cannot read a Cluster to find its control plane");
            None
        }
    }
}
