//! Writes onto Machines what was found, and asks for remediation.

mod external;

use capstan_api::conditions::{ConditionStatus, get};
use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_controller::Result;
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use kube::ResourceExt as _;
use kube::api::Api;

use super::decide::{Allowed, Health, Judgement, Target};
use super::{MachineHealthCheckReconciler, status};
use crate::names::events;
use crate::names::machine::types as machine_types;

impl MachineHealthCheckReconciler {
    /// Writes an event if remediation has just been forbidden.
    pub(super) async fn publish_restricted(
        &self,
        check: &MachineHealthCheck,
        judgement: &Judgement,
        is_news: bool,
    ) {
        if let (Allowed::No(why), true) = (&judgement.allowed, is_news) {
            self.core.publish_event(check, Tone::Warning, events::RESTRICTED, why).await;
        }
    }

    /// Writes onto a Machine what was found, and asks for a remedy if that is allowed.
    pub(super) async fn mark(
        &self,
        cluster: &Cluster,
        check: &MachineHealthCheck,
        target: &Target,
        allowed: bool,
    ) -> Result<()> {
        let (before, now) = (&target.machine, self.core.now());
        let mut machine = before.clone();
        status::set_health(&mut machine, &target.health, now);
        let mut remedy = Ok(());
        match &target.health {
            Health::Waiting(_) => return Ok(()),
            Health::Healthy if allowed => self.withdraw_request(check, before).await?,
            Health::Unhealthy { .. } if allowed && cluster.spec.paused != Some(true) => {
                let remediation = check.spec.remediation.as_ref();
                match remediation.and_then(|remediation| remediation.template_ref.as_ref()) {
                    Some(template) => remedy = self.request(template, &mut machine).await,
                    None => status::ask_owner(&mut machine, now),
                }
            }
            Health::Healthy | Health::Unhealthy { .. } => {}
        }
        let succeeded = machine_types::HEALTH_CHECK_SUCCEEDED;
        let api: Api<Machine> = self.core.api(&before.namespace().unwrap_or_default());
        // `OwnerRemediated` is not owned: once asked, the owner writes it.
        Patcher::new(api, before).finish(&machine, &[succeeded]).await?;
        let was_told =
            get(before, succeeded).is_some_and(|condition| condition.status == ConditionStatus::False);
        if let (Health::Unhealthy { message, .. }, false) = (&target.health, was_told) {
            self.core.publish_event(&machine, Tone::Warning, events::UNHEALTHY, message).await;
        }
        remedy
    }
}
