//! A machine on its way out leaves etcd first: see [`capstan_planner::machines::leave`].

use capstan_api::core::Machine;
use capstan_controller::error::Result;
use capstan_controller::etcd::{Access, Etcd};
use capstan_controller::{Grounds, destroy};
use capstan_planner::machines::Leaving;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::names::{LEAVE_ETCD_HOOK, plan_secret};
use crate::scope::Scope;

/// Carries it out. Says whether something was done, after which etcd is not what it was.
pub(crate) async fn act(
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

/// Lets a machine's host go.
pub(crate) async fn release(scope: &Scope<'_>, machine: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {LEAVE_ETCD_HOOK: null}}});
    scope.patch::<Machine>(machine, &patch).await.map(|_| ())
}
