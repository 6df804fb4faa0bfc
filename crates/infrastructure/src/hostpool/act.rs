//! Writes of the HostPool controller: creates, changes and deletes Hosts according to a plan.

pub(super) mod machines;

use capstan_api::infrastructure::Host;
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::merge::difference;
use capstan_controller::{Grounds, Result, destroy};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::decide::Plan;
use crate::context::Infrastructure;

/// Carries out the plan. Returns the Hosts that were created, without those that existed.
pub(super) async fn hosts<'p>(
    infrastructure: &Infrastructure,
    namespace: &str,
    plan: &'p Plan,
) -> Result<Vec<&'p Host>> {
    let api = infrastructure.api::<Host>(namespace);
    let mut created = Vec::new();
    for host in &plan.create {
        match api.create(&PostParams::default(), host).await {
            // Made by the reconcile before, which this one did not see yet.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => {
                made.doing(|| format!("cannot make Host {}", host.name_any()))?;
                created.push(host);
            }
        }
    }
    for (before, after) in &plan.change {
        let value = |host| serde_json::to_value(host).map_err(|error| Error::transient("no JSON", error));
        let Some(mut patch) = difference(&value(before)?, &value(after)?) else { continue };
        patch["metadata"]["resourceVersion"] = json!(before.resource_version());
        api.patch(&before.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .doing(|| format!("cannot change Host {}", before.name_any()))?;
    }
    for host in &plan.delete {
        // Only the host that was seen: one that has been claimed since is another version.
        let grounds = Grounds::asked("its HostPool does not list it any more");
        destroy::delete_unchanged(&api, &host.metadata, &grounds).await?;
    }
    Ok(created)
}
