//! What wakes the reconciler, beside the CapstanConfigs themselves.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Cluster, Machine};
use capstan_api::meta::labels;
use capstan_controller::run::reference;
use capstan_controller::secrets::Purpose;
use capstan_controller::{Cache, Caches, Scope, owners};
use futures::stream::iter;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;

/// CapstanConfigs whose Machine, Cluster or plan key has changed, whose machine has asked for a credential or got one, reports
/// another problem, another change or a program of the agent that does not work, or has other rights than before.
pub(crate) fn configs(
    caches: &Caches,
    scope: &Scope,
) -> impl Stream<Item = ObjectRef<CapstanConfig>> + Send + 'static + use<> {
    let machines = caches
        .of::<Machine>()
        .changed(|machine| (machine.uid(), machine.spec.bootstrap.clone()))
        .flat_map(|machine| iter(config_of(&machine)));
    let clusters = caches
        .of::<Cluster>()
        .changed(|cluster| {
            let initialization = cluster.status.as_ref().and_then(|status| status.initialization.clone());
            (cluster.uid(), cluster.spec.paused, initialization)
        })
        .map(|cluster| (cluster.namespace().unwrap_or_default(), cluster.name_any()));
    let keys = scope
        .beside_clusters(caches, |key: &PartialObjectMeta<Secret>| key.resource_version())
        .filter_map(|secret| std::future::ready(cluster_of_key(&secret)));
    let all = caches.of::<CapstanConfig>();
    let of_clusters = futures::stream::select(clusters, keys)
        .then(move |(namespace, cluster)| of_cluster(all.clone(), namespace, cluster))
        .flat_map(iter);
    let reports = caches
        .of::<MachineReport>()
        .changed(|report| {
            let status = report.status.as_ref();
            let asked = status.and_then(|status| status.credential_request.clone());
            let version = status.and_then(|status| status.agent_version.clone());
            let problem = status.and_then(|status| status.problem.clone());
            let drift = status.map(|status| status.drift.clone());
            let program = status.and_then(|status| status.agent_program.as_ref());
            let program = program.map(|program| (program.rejected.clone(), program.message.clone()));
            (report.uid(), report.spec.clone(), asked, version, problem, drift, program)
        })
        .flat_map(|report| iter(config_of_owned(report.as_ref())));
    let accounts = scope
        .beside_clusters(caches, ServiceAccount::uid)
        .flat_map(|account| iter(config_of_owned(account.as_ref())));
    let roles = scope
        .beside_clusters(caches, |role: &Role| (role.uid(), role.rules.clone()))
        .flat_map(|role| iter(config_of_owned(role.as_ref())));
    let bindings = scope
        .beside_clusters(caches, |binding: &RoleBinding| {
            (binding.uid(), binding.role_ref.clone(), binding.subjects.clone())
        })
        .flat_map(|binding| iter(config_of_owned(binding.as_ref())));
    let rights = futures::stream::select(accounts, futures::stream::select(roles, bindings));
    let of_machines = futures::stream::select(machines, reports);
    futures::stream::select(futures::stream::select(of_machines, rights), of_clusters)
}

/// Whose object this is.
fn config_of_owned(object: &impl ResourceExt) -> Option<ObjectRef<CapstanConfig>> {
    let owner = owners::of_kind(object.meta(), "CapstanConfig", "bootstrap.cluster.x-k8s.io")?;
    Some(reference(&object.namespace().unwrap_or_default(), &owner.name))
}

fn config_of(machine: &Machine) -> Option<ObjectRef<CapstanConfig>> {
    let config =
        machine.spec.bootstrap.config_ref.as_ref().filter(|config| config.kind == "CapstanConfig")?;
    Some(reference(&machine.namespace().unwrap_or_default(), &config.name))
}

fn cluster_of_key(secret: &PartialObjectMeta<Secret>) -> Option<(String, String)> {
    let cluster = secret.labels().get(labels::CLUSTER_NAME)?;
    let is_key = secret.name_any() == Purpose::PlanKey.secret_name(cluster);
    is_key.then(|| (secret.namespace().unwrap_or_default(), cluster.clone()))
}

async fn of_cluster(
    all: Cache<CapstanConfig>,
    namespace: String,
    cluster: String,
) -> Vec<ObjectRef<CapstanConfig>> {
    // A kind that was not listed yet: each object is looked at when it is.
    let found = all.of_cluster(&namespace, &cluster).await.unwrap_or_default();
    found.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}
