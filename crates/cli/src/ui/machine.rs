//! One machine: its hand-offs, its plan and what its agent reports.

use anyhow::{Context as _, Result};
use capstan_ui::model::{Age, Event, MachinePage, Offer, PlanProgress, PlanStep, Probe, Tone};
use capstan_ui::{Action, Problem, Target};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as KubeEvent, Secret};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use super::text::{age, age_of, conditions, facts, handoff, string};
use crate::why::{self, World};
use capstan_planner::annotations::HOLD;

/// Events that a page shows.
const EVENTS: usize = 50;
/// Events of one object that are read.
const EVENTS_READ: u32 = 200;
/// Characters of a digest that are shown.
const DIGEST: usize = 12;

pub(super) async fn page(client: &Client, namespace: &str, name: &str) -> Result<MachinePage> {
    let world = read(client, namespace, name).await?;
    let steps = step_names(client, namespace, name).await;
    let events = events_of(client, namespace, &[name], Timestamp::now()).await?;
    Ok(MachinePage { events, ..shown(&world, &steps, Timestamp::now()) })
}

/// Reads what hand-offs are told by; a Machine that does not exist is a page that does not exist.
pub(super) async fn read(client: &Client, namespace: &str, name: &str) -> Result<World> {
    let machines: Api<capstan_api::core::Machine> = Api::namespaced(client.clone(), namespace);
    let machine =
        machines.get_opt(name).await.with_context(|| format!("cannot read Machine {namespace}/{name}"))?;
    if machine.is_none() {
        return Err(Problem::NotFound(format!("There is no Machine {name} in namespace {namespace}.")).into());
    }
    why::read(client.clone(), namespace, name).await
}

/// The names of the steps of a machine's plan, and its revision. Empty if the plan cannot be read: then only the step that the
/// agent names is shown. Nothing else of the plan leaves this function, because it contains secrets.
async fn step_names(client: &Client, namespace: &str, machine: &str) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let Ok(Some(secret)) = secrets.get_opt(&format!("{machine}-plan")).await else { return Vec::new() };
    let plan = secret.data.as_ref().and_then(|data| data.get("plan"));
    let plan: Value = plan.and_then(|plan| serde_json::from_slice(&plan.0).ok()).unwrap_or_default();
    plan["steps"].as_array().into_iter().flatten().map(|step| string(&step["name"])).collect()
}

fn shown(world: &World, steps: &[String], now: Timestamp) -> MachinePage {
    let (machine, report) = (&world.machine, &world.report);
    let metadata = &machine["metadata"];
    let phase = string(&machine["status"]["phase"]);
    let lists = [machine, &world.infrastructure_machine, &world.bootstrap, &world.host];
    MachinePage {
        namespace: string(&metadata["namespace"]),
        name: string(&metadata["name"]),
        cluster: string(&machine["spec"]["clusterName"]),
        host: world.host["metadata"]["name"].as_str().map(str::to_owned),
        version: string(&machine["spec"]["version"]),
        tone: match phase.as_str() {
            "Running" => Tone::Good,
            "Failed" => Tone::Bad,
            _ => Tone::Waiting,
        },
        phase,
        node: string(&machine["status"]["nodeRef"]["name"]),
        handoffs: why::handoffs(world).iter().map(|one| handoff(one, now)).collect(),
        plan: plan(&report["status"], steps),
        probes: probes(&report["status"], now),
        facts: facts(&report["status"]["facts"]),
        contact: age_of(&report["status"]["lastUpdated"], now),
        conditions: lists.into_iter().filter_map(|object| conditions(object, now)).collect(),
        events: Vec::new(),
        offers: offers(world),
    }
}

fn offers(world: &World) -> Vec<Offer> {
    let metadata = &world.machine["metadata"];
    let target = || Target {
        kind: "Machine".to_owned(),
        namespace: string(&metadata["namespace"]),
        name: string(&metadata["name"]),
    };
    let is_held = !metadata["annotations"][HOLD].is_null();
    let has_failed = matches!(world.report["status"]["phase"].as_str(), Some("Failed" | "Refused"));
    let hold = if is_held { Action::Release } else { Action::Hold };
    let retry = has_failed.then_some(Action::Retry);
    retry.into_iter().chain([hold]).map(|action| Offer::new(action, target())).collect()
}

fn plan(status: &Value, names: &[String]) -> Option<PlanProgress> {
    let phase = status["phase"].as_str()?;
    let index = usize::try_from(status["step"]["index"].as_i64().unwrap_or(0)).unwrap_or(0);
    let total = usize::try_from(status["step"]["total"].as_i64().unwrap_or(0)).unwrap_or(0);
    // Another plan was written meanwhile: the names of its steps would be wrong.
    let fits = names.len() == total
        && names.get(index.wrapping_sub(1)).is_some_and(|name| status["step"]["name"] == name.as_str());
    let state = |place: usize| match (place.cmp(&index), phase) {
        (_, "Applied") | (std::cmp::Ordering::Less, _) => "done",
        (std::cmp::Ordering::Equal, "Failed" | "Refused") => "failed",
        (std::cmp::Ordering::Equal, _) => "running",
        (std::cmp::Ordering::Greater, _) => "pending",
    };
    let step = |place: usize, name: &str| PlanStep { name: name.to_owned(), state: state(place).to_owned() };
    let steps = match (fits, status["step"]["name"].as_str()) {
        (true, _) => (1..).zip(names).map(|(place, name)| step(place, name)).collect(),
        (false, Some(name)) => vec![step(index, &format!("step {index} of {total}: {name}"))],
        (false, None) => vec![],
    };
    let excerpt = |stream: &str| {
        let excerpt = &status["output"][stream];
        [&excerpt["head"], &excerpt["tail"]]
            .into_iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("\n…\n")
    };
    let omitted = |stream: &str| status["output"][stream]["omittedBytes"].as_i64().unwrap_or(0);
    Some(PlanProgress {
        revision: status["plan"]["revision"].as_i64().unwrap_or(0),
        digest: string(&status["plan"]["digest"]).chars().take(DIGEST).collect(),
        tone: match phase {
            "Applied" => Tone::Good,
            "Failed" | "Refused" => Tone::Bad,
            _ => Tone::Waiting,
        },
        phase: phase.to_owned(),
        steps,
        attempts: status["attempts"].as_i64().and_then(|attempts| i32::try_from(attempts).ok()).unwrap_or(0),
        message: string(&status["message"]),
        stdout: excerpt("stdout"),
        stderr: excerpt("stderr"),
        omitted: omitted("stdout").saturating_add(omitted("stderr")),
        applied: status["applied"]["revision"].as_i64(),
    })
}

fn probes(status: &Value, now: Timestamp) -> Vec<Probe> {
    let probes = status["probes"].as_array().into_iter().flatten();
    probes
        .map(|probe| Probe {
            name: string(&probe["name"]),
            healthy: probe["healthy"] == true,
            message: string(&probe["message"]),
            since: age_of(&probe["since"], now),
        })
        .collect()
}

/// Events about objects of these names, the newest first. Without the right to read events there are none.
pub(super) async fn events_of(
    client: &Client,
    namespace: &str,
    names: &[&str],
    now: Timestamp,
) -> Result<Vec<Event>> {
    let api: Api<KubeEvent> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::new();
    for name in names {
        let selected =
            ListParams::default().fields(&format!("involvedObject.name={name}")).limit(EVENTS_READ);
        match api.list(&selected).await {
            Ok(events) => found.extend(events.items),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
            Err(error) => return Err(error).context("cannot list events"),
        }
    }
    found.sort_by_key(|event| std::cmp::Reverse(last(event)));
    Ok(found.iter().take(EVENTS).map(|event| shown_event(event, now)).collect())
}

fn last(event: &KubeEvent) -> Option<Timestamp> {
    let times = [event.last_timestamp.as_ref(), event.first_timestamp.as_ref()];
    times
        .into_iter()
        .flatten()
        .next()
        .map(|time| time.0)
        .or_else(|| event.creation_timestamp().map(|time| time.0))
}

fn shown_event(event: &KubeEvent, now: Timestamp) -> Event {
    let object = &event.involved_object;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let when: Option<Age> = last(event).map(|at| age(at, now));
    Event {
        last: when,
        object: format!("{} {}", text(&object.kind), text(&object.name)),
        reason: text(&event.reason),
        message: text(&event.message),
        count: event.count.unwrap_or(1),
        tone: if event.type_.as_deref() == Some("Warning") { Tone::Waiting } else { Tone::Neutral },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn states(status: &Value, names: &[&str]) -> Vec<(String, String)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = plan(status, &names).expect("a plan");
        plan.steps.into_iter().map(|step| (step.name, step.state)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
    }

    #[test]
    fn steps_before_the_current_one_are_done() {
        let status = json!({"phase": "Applying", "step": {"index": 2, "total": 3, "name": "install"}});
        assert_eq!(
            states(&status, &["files", "install", "ready"]),
            pairs(&[("files", "done"), ("install", "running"), ("ready", "pending")])
        );
        let failed = json!({"phase": "Failed", "step": {"index": 2, "total": 3, "name": "install"}});
        assert_eq!(states(&failed, &["files", "install", "ready"])[1].1, "failed");
        let applied = json!({"phase": "Applied", "step": {"index": 3, "total": 3, "name": "ready"}});
        assert!(states(&applied, &["files", "install", "ready"]).iter().all(|(_, state)| state == "done"));
    }

    #[test]
    fn a_plan_that_cannot_be_read_or_is_another_one_shows_the_agents_step() {
        let status = json!({"phase": "Applying", "step": {"index": 2, "total": 3, "name": "install"}});
        let expected = pairs(&[("step 2 of 3: install", "running")]);
        assert_eq!(states(&status, &[]), expected);
        assert_eq!(states(&status, &["other", "plan"]), expected);
        assert_eq!(states(&status, &["a", "b", "c"]), expected);
        assert_eq!(plan(&json!({}), &[]), None);
    }

    #[test]
    fn a_machine_that_is_held_can_be_released() {
        let offered = |machine: Value, report: Value| {
            let world = World { machine, report, ..World::default() };
            offers(&world).into_iter().map(|offer| offer.action).collect::<Vec<_>>()
        };
        assert_eq!(offered(json!({"metadata": {"name": "a"}}), json!({})), ["hold"]);
        let held = json!({"metadata": {"name": "a", "annotations": {"capstan.dev/hold": "disk"}}});
        assert_eq!(offered(held, json!({"status": {"phase": "Failed"}})), ["retry", "release"]);
    }
}
