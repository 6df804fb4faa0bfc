//! Writes to the CapstanControlPlane: which machine initializes the cluster, that it is initialized, its deletion, its
//! status.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_controller::patch::Patcher;
use capstan_controller::{Grounds, Next, finalizers, pause};
use capstan_distro::{Change, Cost};
use capstan_planner::ending::{self, Ending};
use capstan_planner::facts::Hook;
use capstan_planner::machines::MachineStep;
use capstan_planner::plans::{self, Election, has_begun};
use kube::ResourceExt as _;
use kube::api::Api;

use crate::names::{FINALIZER, INIT_MACHINE, INITIALIZED, KEY_DIGESTS, NETWORK};
use crate::observe::Observed;
use crate::status::{self, Seen};
use crate::workload::Workload;
use crate::{certificates, etcd, machines};

/// Records that the cluster is initialized, once the machine that initializes it reports so and the API server
/// responds. Returns whether it was recorded now.
pub(crate) async fn begin(seen: &mut Observed<'_>, workload: &impl Workload) -> Result<bool> {
    let scope = seen.scope;
    if !seen.initialized && !has_begun(scope.elected().as_ref(), &seen.facts) {
        return Ok(false);
    }
    seen.api_responds = workload.responds(scope.namespace, &scope.cluster_name()).await;
    if !seen.api_responds {
        seen.soon();
    } else if !seen.initialized {
        let digests = certificates::recorded(&certificates::digests(&seen.secrets.by_purpose))?;
        let now = scope.now.to_string();
        scope.record(scope.owner, &[(INITIALIZED, Some(&now)), (KEY_DIGESTS, Some(&digests))]).await?;
        seen.initialized = true;
        return Ok(true);
    }
    Ok(false)
}

/// Records which machine initializes the cluster, and returns whether plans may be written in this reconcile.
pub(crate) async fn elect(seen: &mut Observed<'_>) -> Result<bool> {
    let scope = seen.scope;
    match plans::elect(scope.elected().as_ref(), &seen.facts, seen.initialized) {
        Election::Decided | Election::Wait => Ok(true),
        Election::Elect(elected) => {
            let network = serde_json::to_string(&scope.asked_network())
                .map_err(|error| Error::transient("cannot write down the cluster's network", error))?;
            let record = elected.record();
            scope.record(scope.owner, &[(INIT_MACHINE, Some(&record)), (NETWORK, Some(&network))]).await?;
            tracing::info!(machine = elected.name, "elected to begin the cluster");
            seen.again();
            Ok(false)
        }
    }
}

/// The next step of a deletion.
pub(crate) async fn end(seen: &mut Observed<'_>) -> Result<()> {
    seen.read_machines().await?;
    seen.certificates = None;
    let ending = ending::decide(&seen.facts);
    if let Ending::Machines { delete, .. } = &ending {
        for machine in seen.facts.iter().filter(|machine| machine.control_plane) {
            // If all of etcd is deleted, no member has to leave it.
            if machine.hook != Hook::None {
                etcd::release(seen.scope, &machine.name).await?;
            }
        }
        for name in delete {
            let grounds = Grounds::asked("its control plane is deleted");
            machines::delete(seen.scope, &seen.objects, name, &grounds).await?;
        }
    }
    seen.ending = Some(ending);
    Ok(())
}

/// Writes the status, whatever the result of the phases is.
pub(crate) async fn finish(
    seen: &Observed<'_>,
    api: &Api<CapstanControlPlane>,
    result: Result<()>,
) -> Result<()> {
    let owner = seen.scope.owner;
    let cluster = seen.scope.cluster_name();
    let step = match &result {
        // The user must act: the message is in a condition that users read.
        Err(Error::User { field, message }) => {
            MachineStep::Refuse(vec![Change::new(field.clone(), Cost::Refused, message.clone())])
        }
        _ => seen.step.clone(),
    };
    let said = Seen {
        cluster: &cluster,
        initialized: seen.initialized,
        api_responds: seen.api_responds,
        certificates: match &result {
            // The administrator who can grant the right reads this condition first.
            Err(error @ Error::Forbidden { .. }) => Some(error.to_string()),
            _ => seen.certificates.clone(),
        },
        machines: seen.own.clone(),
        facts: seen.own_facts(),
        step,
        plans: seen.plans.clone(),
        etcd: seen.etcd.clone(),
        held: seen.held.clone(),
        deleting: seen.ending.as_ref().map(status::deleting),
        plan_key: seen.plan_key.clone(),
        agents: seen.agents.clone(),
        now: seen.scope.now,
    };
    let mut updated = owner.clone();
    status::compute(&mut updated, &said);
    pause::lifted(&mut updated, seen.scope.now);
    let written = Patcher::new(api.clone(), owner).finish(&updated, &status::OWNED).await;
    if let (Err(error), Err(_)) = (&written, &result) {
        tracing::warn!(error = %chain(error), "cannot write status");
    }
    result.and(written)
}

/// Removes the finalizer.
pub(crate) async fn release(api: &Api<CapstanControlPlane>, object: &CapstanControlPlane) -> Result<Next> {
    let latest =
        api.get_opt(&object.name_any()).await.doing(|| "cannot read a CapstanControlPlane".to_owned())?;
    if let Some(latest) = latest {
        let mut released = latest.clone();
        finalizers::remove(&mut released.metadata, FINALIZER);
        Patcher::new(api.clone(), &latest).finish(&released, &[]).await?;
    }
    Ok(Next::Changed)
}
