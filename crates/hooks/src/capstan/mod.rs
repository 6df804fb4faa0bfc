//! Capstan's own answers.
//!
//! What a change costs is said by the table that the planner uses, so that what is promised here is what happens there.
//! Deciding is pure: [`can_update`] takes both sides of a change, [`progress`] takes the objects by which a machine's
//! plan and report are known.

pub mod can_update;
mod changes;
mod observe;
pub mod progress;
mod refusals;

use capstan_api::core::MachineDeployment;
use capstan_api::meta::labels;
use capstan_api::runtime::hooks::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, ResponseStatus, UpdateMachineRequest, UpdateMachineResponse,
};
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::events::{Events, Tone};
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::Extension;
use refusals::{Refusals, plain};

/// Component and reason of the event of a refused change.
const COMPONENT: &str = "capstan-hooks";
const CHANGE_REFUSED: &str = "ChangeRefused";

/// The extension for machines of Capstan. It only reads objects, except for the events about rejected changes.
pub struct Capstan {
    client: Client,
    events: Events,
    refusals: Mutex<Refusals>,
}

impl Capstan {
    /// An extension for the management cluster of `client`.
    pub fn new(client: Client) -> Self {
        Self { events: Events::new(client.clone(), COMPONENT), client, refusals: Mutex::default() }
    }

    /// Writes an event of a refused change onto the MachineDeployment. A failure here does not undo the refusal.
    async fn publish_refused(&self, namespace: &str, name: &str, why: &str) {
        let why = plain(why);
        let is_due = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.is_due(namespace, name, &why, Instant::now())
        };
        if !is_due {
            return;
        }
        let deployments: Api<MachineDeployment> = Api::namespaced(self.client.clone(), namespace);
        let doing = || format!("cannot read MachineDeployment {namespace}/{name}");
        match deployments.get_opt(name).await.doing(doing) {
            Ok(Some(deployment)) => {
                self.events.publish(&deployment, Tone::Warning, CHANGE_REFUSED, &why, Timestamp::now()).await;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = %chain(&error), "cannot write an event of a refused change");
            }
        }
    }
}

impl Extension for Capstan {
    async fn can_update_machine(&self, request: CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        let answer = can_update::machine(&request);
        let machine = &request.desired.machine;
        log(&format!("Machine {}", machine.name_any()), answer.common.message.as_deref());
        answer
    }

    async fn can_update_machine_set(
        &self,
        request: CanUpdateMachineSetRequest,
    ) -> CanUpdateMachineSetResponse {
        let answer = can_update::machine_set(&request);
        let set = &request.desired.machine_set;
        let deployment = set.labels().get(labels::DEPLOYMENT_NAME);
        let name = deployment.cloned().unwrap_or_else(|| set.name_any());
        log(&format!("MachineDeployment {name}"), answer.common.message.as_deref());
        if answer.common.status == ResponseStatus::Failure
            && let (Some(deployment), Some(why)) = (deployment, &answer.common.message)
        {
            // Upstream's core repeats a refusal in its log only, where users do not look.
            self.publish_refused(&set.namespace().unwrap_or_default(), deployment, why).await;
        }
        answer
    }

    async fn update_machine(&self, request: UpdateMachineRequest) -> UpdateMachineResponse {
        match observe::machine(&self.client, &request.desired).await {
            Ok(seen) => progress::answer(&request.desired, &seen),
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(%error, "cannot say how far an update is");
                progress::failure(format!("cannot say how far the update is: {error}"))
            }
        }
    }
}

fn log(what: &str, refusal: Option<&str>) {
    let what = plain(what);
    match refusal.map(plain) {
        Some(why) => tracing::warn!(%what, %why, "refused a change"),
        None => tracing::debug!(%what, "answered what can be changed in place"),
    }
}
