//! The objects that a cluster should have, computed from its class, its templates, its topology and the objects that
//! exist. Computing again from the result gives the same result.
//!
//! The Cluster must have the defaults of all variables ([`default_and_validate`](crate::variables::default_and_validate)).

mod cloned;
mod cluster;
mod control_plane;
mod health_check;
mod machine_deployment;
mod machine_pool;

use crate::blueprint::Blueprint;
use crate::contract::{self, Contract};
use crate::gotemplate::TemplateError;
use crate::metadata::UPGRADE_CONCURRENCY;
use crate::names::Suffixes;
use crate::object;
use crate::patches::{PatchFailure, PatchFault, Patching, Step};
use crate::state::{Current, CurrentWorkers, Desired, DesiredControlPlane, DesiredWorkers};
use crate::upgrade::{self, Hook, Hooks, Order, Progress, Source, UpgradeError};
use capstan_api::core::Cluster;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why the objects of a cluster cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComputeError {
    /// The Cluster has no name or no namespace.
    #[error("the Cluster has no metadata.{0}")]
    Incomplete(&'static str),
    /// A topology names a class that the ClusterClass has not.
    #[error("{field}: {kind} class {class:?} does not exist in the ClusterClass")]
    NoClass {
        /// Path of the field in the Cluster.
        field: String,
        /// `MachineDeployment` or `MachinePool`.
        kind: &'static str,
        /// Name of the class.
        class: String,
    },
    /// A template that the class refers to is missing.
    #[error("templates of {kind} class {class:?} are missing")]
    NoTemplates {
        /// `MachineDeployment` or `MachinePool`.
        kind: &'static str,
        /// Name of the class.
        class: String,
    },
    /// The template of a name fails.
    #[error("cannot make a name for the {what}: {why}")]
    Name {
        /// The object that gets the name.
        what: String,
        /// Why it fails.
        why: TemplateError,
    },
    /// No version can be decided.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// A patch fails.
    #[error(transparent)]
    Patch(#[from] PatchFailure),
}

/// What a cluster is computed from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The Cluster.
    pub cluster: &'a Cluster,
    /// Its class, templates and topology.
    pub blueprint: &'a Blueprint<'a>,
    /// Its objects.
    pub current: &'a Current,
    /// The contract of the control plane provider.
    pub contract: Contract,
    /// The response of the runtime extension that plans upgrades, if the class has one.
    pub upgrade_plan: Option<upgrade::Plans>,
    /// What is known of hooks.
    pub hooks: &'a Hooks,
}

/// The objects of a cluster, and how far its upgrade is.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The objects. Groups of workers in `pending_create` and `pending` of the progress are not written.
    pub desired: Desired,
    /// How far the upgrade is.
    pub progress: Progress,
}

/// Computes the objects of a cluster whose class has inline patches only.
///
/// # Errors
/// If the topology does not fit the class, a patch fails or needs a runtime extension, or no version can be decided.
pub fn compute(input: &Input<'_>, suffixes: &mut dyn Suffixes) -> Result<Computed, ComputeError> {
    let Computed { desired, progress } = without_patches(input, suffixes)?;
    let mut patching = Patching::new(input.blueprint, input.cluster, desired);
    match patching.step()? {
        Step::Done => Ok(Computed { desired: patching.finish(), progress }),
        Step::External(patch) => {
            let external = patch.external.as_ref();
            let name = external.and_then(|external| external.generate_patches_extension.clone());
            let why = PatchFault::External(name.unwrap_or_default());
            Err(PatchFailure { patch: patch.name.clone(), template: None, why }.into())
        }
    }
}

/// Computes the objects of a cluster before patches: what [`Patching`] starts with.
///
/// # Errors
/// If the topology does not fit the class, or no version can be decided.
pub fn without_patches(input: &Input<'_>, suffixes: &mut dyn Suffixes) -> Result<Computed, ComputeError> {
    let names = Names::of(input.cluster)?;
    let infrastructure_cluster = cluster::infrastructure(input, &names, suffixes)?;
    let machine_template = control_plane::machine_template(input, &names, suffixes);
    let mut progress = progress(input)?;
    let annotations = input.cluster.metadata.annotations.clone().unwrap_or_default();
    let wanted = &input.blueprint.topology.version;
    let control_plane = input.current.control_plane.as_ref();
    let version =
        upgrade::decide_control_plane(control_plane, wanted, &annotations, input.hooks, &mut progress)?;
    let object = control_plane::object(input, &names, machine_template.as_ref(), &version, suffixes)?;
    let health_check = control_plane::health_check(input, &names, &object);
    let control_plane = DesiredControlPlane { object, machine_template, health_check };
    let cluster = cluster::cluster(input, &names, &infrastructure_cluster, &control_plane.object, &progress);
    let machine_deployments = machine_deployment::all(input, &names, &mut progress, suffixes)?;
    let machine_pools = machine_pool::all(input, &names, &mut progress, suffixes)?;
    let desired =
        Desired { cluster, infrastructure_cluster, control_plane, machine_deployments, machine_pools };
    Ok(Computed { desired, progress })
}

/// The names in the metadata of a Cluster.
struct Names<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

impl<'a> Names<'a> {
    fn of(cluster: &'a Cluster) -> Result<Names<'a>, ComputeError> {
        let metadata = &cluster.metadata;
        Ok(Names {
            name: metadata.name.as_deref().ok_or(ComputeError::Incomplete("name"))?,
            namespace: metadata.namespace.as_deref().ok_or(ComputeError::Incomplete("namespace"))?,
            uid: metadata.uid.as_deref().unwrap_or_default(),
        })
    }

    fn owner(&self) -> Value {
        serde_json::json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "name": self.name,
            "uid": self.uid,
        })
    }
}

/// The plan of the upgrade, if one is needed, and which workers are upgrading.
fn progress(input: &Input<'_>) -> Result<Progress, ComputeError> {
    let mut progress = Progress::default();
    let annotations = input.cluster.metadata.annotations.as_ref();
    let most = annotations.and_then(|annotations| annotations.get(UPGRADE_CONCURRENCY));
    let most = most.and_then(|most| most.parse().ok()).unwrap_or(1_usize).max(1);
    let (deployments, pools) = (&input.current.machine_deployments, &input.current.machine_pools);
    for (workers, current) in
        [(&mut progress.machine_deployments, deployments), (&mut progress.machine_pools, pools)]
    {
        workers.most = most;
        let upgrading = current.values().filter(|one| one.is_upgrading);
        workers.upgrading = upgrading.map(|one| object::name(&one.object).to_string()).collect();
    }
    let Some(control_plane) = &input.current.control_plane else { return Ok(progress) };
    let (wanted, version) =
        (&input.blueprint.topology.version, object::text(control_plane, contract::VERSION));
    let versions = deployments.values().chain(pools.values()).map(CurrentWorkers::version);
    progress.oldest_workers = oldest(versions, version)?;
    let to = upgrade::parse(wanted)?;
    let workers = progress.oldest_workers.as_deref().map(upgrade::parse).transpose()?;
    if upgrade::parse(version)? == to && workers.is_none_or(|oldest| oldest == to) {
        return Ok(progress);
    }
    let class = &input.blueprint.class.spec;
    let external = class.upgrade.as_ref().and_then(|upgrade| upgrade.external.as_ref());
    let external = external.and_then(|external| external.generate_upgrade_plan_extension.as_ref());
    let source = match (external, &input.upgrade_plan) {
        (Some(_), Some(plans)) => Source::Given(plans.clone()),
        (Some(name), None) => return Err(UpgradeError::External(name.clone()).into()),
        (None, _) if class.kubernetes_versions.is_empty() => Source::OneMinor,
        (None, _) => Source::Class(&class.kubernetes_versions),
    };
    let plans = source.plans(wanted, version)?;
    let plans = upgrade::complete(plans, wanted, version, progress.oldest_workers.as_deref())?;
    progress.control_plane.plan = plans.control_plane;
    if !deployments.is_empty() {
        progress.machine_deployments.plan.clone_from(&plans.workers);
    }
    if !pools.is_empty() {
        progress.machine_pools.plan = plans.workers;
    }
    Ok(progress)
}

impl CurrentWorkers {
    fn version(&self) -> &str {
        object::text(&self.object, &["spec", "template", "spec", "version"])
    }
}

/// The oldest version of all workers. Of builds that cannot be ordered, one that is not that of the control plane is
/// older, because workers follow it.
fn oldest<'a>(
    versions: impl Iterator<Item = &'a str>,
    control_plane: &str,
) -> Result<Option<String>, UpgradeError> {
    let control_plane = upgrade::parse(control_plane)?;
    let mut oldest = None;
    for text in versions.filter(|text| !text.is_empty()) {
        let version = upgrade::parse(text)?;
        let is_older = match &oldest {
            None => true,
            Some(oldest) => match upgrade::order(&version, oldest) {
                Order::Less => true,
                Order::Different => version != control_plane,
                Order::Equal | Order::Greater => false,
            },
        };
        if is_older {
            oldest = Some(version);
        }
    }
    Ok(oldest.map(|version| format!("v{version}")))
}

/// Whether a hook keeps workers from changing. A hook that is yet to be called does, too.
fn holds_workers(hooks: &Hooks, progress: &Progress) -> bool {
    let holding = [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade];
    holding.into_iter().any(|hook| hooks.is_blocking(hook) || progress.needs == Some(hook))
}

/// Groups of workers by their name in the topology.
type Groups = BTreeMap<String, DesiredWorkers>;

#[cfg(test)]
mod tests;
