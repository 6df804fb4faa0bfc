//! Removes machines that are being deleted from etcd first: see [`capstan_planner::machines::leave`].

use capstan_api::core::Machine;
use capstan_controller::error::{Result, chain};
use capstan_controller::etcd::{Access, Etcd};
use capstan_controller::{Grounds, Next, destroy};
use capstan_planner::EtcdView;
use capstan_planner::machines::{Leaving, leave as decide, stray};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::machines;
use crate::names::{LEAVE_ETCD_HOOK, plan_secret};
use crate::observe::{Observed, SOON};
use crate::scope::Scope;

/// Removes machines that are being deleted from etcd, one at a time. Returns whether something was done.
pub(crate) async fn leave(seen: &mut Observed<'_>, etcd: &dyn Etcd, access: &Access) -> Result<bool> {
    for machine in seen.facts.iter().filter(|machine| machine.control_plane) {
        let step = decide(machine, &seen.etcd, seen.initialized, false, seen.scope.now);
        if let Leaving::Hold(why) = &step {
            seen.held.insert(machine.name.clone(), why.clone());
            seen.next = seen.next.or(Next::After(SOON));
        }
        if matches!(step, Leaving::Remove(_)) {
            machines::confirm(seen.scope, &seen.objects).await?;
        }
        match act(seen.scope, etcd, access, &machine.name, &step).await {
            Ok(false) => {}
            // etcd decides; the other phases continue meanwhile.
            Err(error) if matches!(step, Leaving::HandOver { .. } | Leaving::Remove(_)) => {
                seen.held.insert(machine.name.clone(), chain(&error));
                seen.next = seen.next.or(Next::After(SOON));
            }
            done => return done,
        }
    }
    tidy_up(seen, etcd, access).await
}

/// Removes the etcd members whose machine is deleted. Returns whether one was removed.
async fn tidy_up(seen: &Observed<'_>, etcd: &dyn Etcd, access: &Access) -> Result<bool> {
    let EtcdView::Known(members) = &seen.etcd else { return Ok(false) };
    let Some(stray) = stray(&seen.facts, members) else { return Ok(false) };
    // A Machine that memory does not have yet has its member for good reason.
    machines::confirm(seen.scope, &seen.objects).await?;
    tracing::info!(member = stray.name, "etcd: member without a machine is removed");
    etcd.remove(access, stray).await?;
    Ok(true)
}

/// Carries out the decision. Returns whether something was done, after which the etcd members must be read again.
async fn act(
    scope: &Scope<'_>,
    etcd: &dyn Etcd,
    access: &Access,
    machine: &str,
    step: &Leaving,
) -> Result<bool> {
    match step {
        Leaving::Nothing | Leaving::Hold(_) => return Ok(false),
        Leaving::HandOver { from, to } => {
            tracing::info!(from = from.name, to = to.name, "etcd: another member is to lead");
            etcd.move_leader(access, from, to).await?;
        }
        Leaving::Remove(member) => {
            tracing::info!(member = member.name, "etcd: member is removed");
            etcd.remove(access, member).await?;
        }
        Leaving::Withdraw => {
            let grounds = Grounds::asked("the machine leaves before it has read its plan");
            destroy::delete_by_name::<Secret>(&scope.api(), &plan_secret(machine), &grounds).await?;
        }
        Leaving::Release => release(scope, machine).await?,
    }
    Ok(true)
}

/// Removes the hook that keeps the host of a machine.
pub(crate) async fn release(scope: &Scope<'_>, machine: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {LEAVE_ETCD_HOOK: null}}});
    scope.patch::<Machine>(machine, &patch).await.map(|_| ())
}
