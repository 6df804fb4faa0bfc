//! Starts the next healing step of each unhealthy machine. If all steps have failed, a person must act.

use capstan_api::conditions::set;
use capstan_api::core::Machine;
use capstan_api::keep::ReplacePolicy;
use capstan_api::wait::Owner;
use capstan_controller::Next;
use capstan_controller::error::{Error, Result};
use capstan_controller::events::{Events, Tone};
use capstan_controller::patch::Patcher;
use capstan_planner::healing::{Case, Healing, decide, order, remedy};
use kube::ResourceExt as _;
use serde_json::json;
use std::sync::Arc;

use super::decide::{ask, is_to_be_asked};
use super::observe::ladder;
use super::status::cause;
use crate::names::HEALING;
use crate::observe::machine::OWNER_REMEDIATED;
use crate::observe::{Observed, SOON};

/// Decides the next healing step of each unhealthy machine, and records it before a plan is made from it.
pub(crate) async fn heal(seen: &mut Observed<'_>) -> Result<()> {
    let scope = seen.scope;
    let ladder = ladder(scope.owner.spec.healing.as_ref());
    let mut under_way = 0;
    for index in order(&seen.facts) {
        let machine = &seen.facts[index];
        let remedy = remedy(machine, &scope.owner.name_any(), scope.may_replace());
        let case = Case { machine, ladder: &ladder, others: under_way, remedy: &remedy, now: scope.now };
        let healing = decide(&case);
        if healing.is_under_way() {
            under_way += 1;
            seen.next = seen.next.or(Next::After(SOON));
        }
        let name = machine.name.clone();
        if let Some(record) = &healing.record
            && let Some(read) = seen.objects.machines.get(&name)
        {
            let text = serde_json::to_string(record)
                .map_err(|error| Error::transient(format!("cannot heal Machine {name}"), error))?;
            let patch = json!({"metadata": {
                "resourceVersion": read.resource_version(), "annotations": {HEALING: text}}});
            let written = scope.patch::<Machine>(&name, &patch).await?;
            if let Some((stage, message)) = &healing.progress
                && let Some(cause) = cause(*stage)
            {
                tracing::info!(machine = name, reason = cause.reason, message, "healing");
                // A wait that only a person can end becomes an Event when the condition is written.
                if !matches!(cause.owner, Owner::Person(_)) {
                    let events = Events::new(scope.client().clone(), "capstan-control-plane");
                    events.publish(&written, Tone::Warning, cause.reason, message, scope.now).await;
                }
            }
            if let Some(own) = seen.own.iter_mut().find(|own| own.name_any() == name) {
                *own = written.clone();
            }
            seen.objects.machines.insert(name.clone(), Arc::new(written));
            seen.facts[index].healing = record.clone();
            seen.soon();
        }
        seen.facts[index].is_beyond_healing = healing.is_exhausted();
        ask_owner(seen, index, &healing).await?;
        seen.healing.insert(name, healing);
    }
    Ok(())
}

/// Requests the replacement of a machine from its owner, if its health check has left that to this controller.
async fn ask_owner(seen: &Observed<'_>, index: usize, healing: &Healing) -> Result<()> {
    let (scope, facts) = (seen.scope, &seen.facts[index]);
    let Some(machine) = seen.objects.machines.get(&facts.name) else { return Ok(()) };
    let policy = match facts.control_plane {
        true => Ok(scope.may_replace().then_some(ReplacePolicy::WhenNeeded)),
        false => seen.objects.replacements.policy(facts),
    };
    if !is_to_be_asked(machine, facts, healing, policy) {
        return Ok(());
    }
    let template = match facts.control_plane {
        true => Some(&scope.owner.spec.machine_template.spec.infrastructure_ref),
        false => seen.objects.replacements.template(facts),
    };
    if let Err(why) = scope.spare(template).await?.check() {
        tracing::info!(machine = facts.name, why, "the owner is not asked to replace the Machine");
        return Ok(());
    }
    let mut updated = machine.as_ref().clone();
    set(&mut updated, ask(), scope.now);
    Patcher::new(scope.api(), machine.as_ref()).finish(&updated, &[OWNER_REMEDIATED]).await
}
