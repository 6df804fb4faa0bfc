//! One machine: its hand-offs, its plan and its agent's report.

use anyhow::{Context as _, Result};
use capstan_plan::{SECRET_TYPE, keys};
use capstan_planner::annotations::HOLD;
use capstan_planner::plans::{Earlier, Effect, Ending, RECORD_ANNOTATION, Record, effect};
use capstan_ui::model::{
    Age, EarlierPlan, Event, LedgerLine, LedgerView, MachinePage, Offer, PlanProgress, PlanStep, Probe, Tone,
};
use capstan_ui::{Action, Problem, Target};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as KubeEvent, Secret};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use super::text::{age, age_of, conditions, facts, handoff, string};
use crate::why::{self, World};

/// Events that a page shows.
const EVENTS: usize = 50;
/// Events of one object that are read.
const EVENTS_READ: u32 = 200;
/// Characters of a digest that are shown.
const DIGEST: usize = 12;

pub(super) async fn page(client: &Client, namespace: &str, name: &str) -> Result<MachinePage> {
    let world = read(client, namespace, name).await?;
    let written = written_plan(client, namespace, name).await;
    let events = events_of(client, namespace, &[name], Timestamp::now()).await?;
    Ok(MachinePage { events, ..shown(&world, &written, Timestamp::now()) })
}

/// Reads the objects of the hand-offs. If the Machine does not exist, the result is `NotFound`.
pub(super) async fn read(client: &Client, namespace: &str, name: &str) -> Result<World> {
    let machines: Api<capstan_api::core::Machine> = Api::namespaced(client.clone(), namespace);
    let machine =
        machines.get_opt(name).await.with_context(|| format!("cannot read Machine {namespace}/{name}"))?;
    if machine.is_none() {
        return Err(Problem::NotFound(format!("There is no Machine {name} in namespace {namespace}.")).into());
    }
    why::read(client.clone(), namespace, name).await
}

/// What a page shows of a plan that was written for a machine.
#[derive(Default)]
struct WrittenPlan {
    steps: Vec<String>,
    record: Option<Record>,
}

/// The names of the steps of a machine's plan, and what the plan changes. Empty if the plan cannot be read: then only
/// the step that the agent names is shown. Nothing else of the plan leaves this function, because it contains secrets.
async fn written_plan(client: &Client, namespace: &str, machine: &str) -> WrittenPlan {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let Ok(Some(secret)) = secrets.get_opt(&format!("{machine}-plan")).await else {
        return WrittenPlan::default();
    };
    if secret.type_.as_deref() != Some(SECRET_TYPE) {
        return WrittenPlan::default();
    }
    let plan = secret.data.as_ref().and_then(|data| data.get(keys::PLAN));
    let plan: Value = plan.and_then(|plan| serde_json::from_slice(&plan.0).ok()).unwrap_or_default();
    let steps = plan["steps"].as_array().into_iter().flatten().map(|step| string(&step["name"]));
    let record = secret.annotations().get(RECORD_ANNOTATION);
    WrittenPlan {
        steps: steps.collect(),
        record: record.and_then(|record| serde_json::from_str(record).ok()),
    }
}

/// What a plan changes on its machine, as the planner has recorded it.
pub(super) fn change_of(record: &Record) -> String {
    change(&effect(record), record.attempt)
}

fn change(effect: &Effect, attempt: u32) -> String {
    let what = match effect {
        Effect::Start { to } => format!("First start of Kubernetes {to}"),
        Effect::Unknown { to } => format!("Kubernetes {to}; what ran before is not known"),
        Effect::Version { from, to } => format!("Kubernetes {from} to {to}"),
        Effect::Drain => "Configuration, with a drain and a restart".to_owned(),
        Effect::Restart => "Configuration, with a restart".to_owned(),
        Effect::Live => "Configuration, without a restart".to_owned(),
        Effect::Other => "Unknown: recorded by a later version of Capstan".to_owned(),
    };
    if attempt > 1 { format!("{what}, plan {attempt} for this change") } else { what }
}

fn ledger(status: &Value) -> Option<LedgerView> {
    let ledger = status["ledger"].as_object()?;
    let items = ledger.get("items").and_then(Value::as_array).into_iter().flatten();
    let line = |item: &Value| LedgerLine {
        kind: string(&item["kind"]).to_lowercase(),
        name: string(&item["name"]),
        reset: match item["before"].as_str() {
            Some("Nothing") => "removes it",
            Some("File") => "restores the file that was there",
            Some("Directory") => "keeps the folder that was there",
            _ => "runs its undo command",
        }
        .to_owned(),
    };
    let total = ledger.get("total").and_then(Value::as_i64).unwrap_or(0);
    Some(LedgerView { total, items: items.map(line).collect() })
}

fn shown(world: &World, written: &WrittenPlan, now: Timestamp) -> MachinePage {
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
        tone: phase_tone(&phase),
        phase,
        node: string(&machine["status"]["nodeRef"]["name"]),
        handoffs: why::handoffs(world).iter().map(|one| handoff(one, now)).collect(),
        plan: plan(&report["status"], &written.steps).map(|progress| describe(progress, written, now)),
        probes: probes(&report["status"], now),
        facts: facts(&report["status"]["facts"]),
        ledger: ledger(&report["status"]),
        contact: age_of(&report["status"]["lastUpdated"], now),
        conditions: lists.into_iter().filter_map(|object| conditions(object, now)).collect(),
        events: Vec::new(),
        offers: offers(world),
    }
}

/// The colour of a phase of a Machine.
pub(super) fn phase_tone(phase: &str) -> Tone {
    match phase {
        "Running" => Tone::Good,
        "Failed" => Tone::Bad,
        _ => Tone::Waiting,
    }
}

fn offers(world: &World) -> Vec<Offer> {
    let metadata = &world.machine["metadata"];
    let target = || Target {
        kind: "Machine".to_owned(),
        namespace: string(&metadata["namespace"]),
        name: string(&metadata["name"]),
        version: String::new(),
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
        ..PlanProgress::default()
    })
}

/// Adds what the planner has recorded of the plan.
fn describe(progress: PlanProgress, written: &WrittenPlan, now: Timestamp) -> PlanProgress {
    let Some(record) = &written.record else { return progress };
    let when = record.written.map(|written| age(written, now));
    let earlier = record.earlier.iter().map(|earlier| earlier_plan(earlier, now)).collect();
    PlanProgress { change: change_of(record), written: when, earlier, ..progress }
}

fn earlier_plan(earlier: &Earlier, now: Timestamp) -> EarlierPlan {
    let (ending, tone) = match earlier.ending {
        Ending::Applied => ("applied", Tone::Good),
        Ending::Failed => ("failed", Tone::Bad),
        Ending::Replaced => ("replaced before its end", Tone::Neutral),
        Ending::Other => ("unknown", Tone::Neutral),
    };
    EarlierPlan {
        revision: earlier.revision,
        change: change(&earlier.effect, earlier.attempt),
        written: earlier.written.map(|written| age(written, now)),
        ending: ending.to_owned(),
        tone,
    }
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

/// Events of objects with these names, the newest first. Empty without the permission to read events.
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
    fn the_change_of_a_plan_is_found_by_what_ran_before() {
        let setup = |version: &str, restart: &str, drain: &str| json!({"version": version, "restart": restart, "drain": drain});
        let new = setup("v2", "b", "b");
        for (ran, expected) in [
            (Value::Null, "First start of Kubernetes v2"),
            (setup("v1", "a", "a"), "Kubernetes v1 to v2"),
            (setup("v2", "a", "a"), "Configuration, with a drain and a restart"),
            (setup("v2", "a", "b"), "Configuration, with a restart"),
            (setup("v2", "b", "b"), "Configuration, without a restart"),
            (setup("", "", ""), "Kubernetes v2; what ran before is not known"),
        ] {
            let record = json!({"setup": new, "ran": ran, "attempt": 1});
            assert_eq!(change_of(&serde_json::from_value(record).expect("a record")), expected);
        }
        let again = json!({"setup": new, "attempt": 3});
        let again = change_of(&serde_json::from_value(again).expect("a record"));
        assert_eq!(again, "First start of Kubernetes v2, plan 3 for this change");
    }

    #[test]
    fn earlier_plans_are_listed_with_what_they_changed_and_how_they_ended() {
        let setup = |version: &str| json!({"version": version, "restart": version, "drain": version});
        let record = json!({"setup": setup("v3"), "ran": setup("v2"), "attempt": 1, "earlier": [
            {"revision": 2, "effect": {"kind": "version", "from": "v1", "to": "v2"}, "attempt": 2, "written": "1970-01-01T00:00:00Z",
                "ending": "applied"},
            {"revision": 1, "effect": {"kind": "start", "to": "v1"}, "attempt": 1, "ending": "failed"},
        ]});
        let record = Some(serde_json::from_value(record).expect("a record"));
        let written = WrittenPlan { steps: Vec::new(), record };
        let minute = Timestamp::from_second(60).expect("a time");
        let shown = describe(PlanProgress::default(), &written, minute).earlier;
        let texts: Vec<_> =
            shown.iter().map(|one| (one.revision, one.change.as_str(), one.ending.as_str())).collect();
        assert_eq!(
            texts,
            [
                (2, "Kubernetes v1 to v2, plan 2 for this change", "applied"),
                (1, "First start of Kubernetes v1", "failed")
            ]
        );
        let ages: Vec<_> =
            shown.iter().map(|one| one.written.as_ref().map(|age| age.text.as_str())).collect();
        assert_eq!(ages, [Some("60s"), None]);
    }

    #[test]
    fn the_ledger_says_what_a_reset_does() {
        let status = json!({"ledger": {"total": 70, "items": [
            {"kind": "Unit", "name": "/etc/systemd/system/k3s.service", "before": "Nothing"},
            {"kind": "File", "name": "/etc/hosts", "before": "File"},
            {"kind": "Directory", "name": "/etc", "before": "Directory"},
            {"kind": "Command", "name": "install"}]}});
        let ledger = ledger(&status).expect("a ledger");
        let resets: Vec<&str> = ledger.items.iter().map(|item| item.reset.as_str()).collect();
        let expected = [
            "removes it",
            "restores the file that was there",
            "keeps the folder that was there",
            "runs its undo command",
        ];
        assert_eq!((ledger.total, resets.as_slice()), (70, &expected[..]));
        assert_eq!(super::ledger(&json!({})), None);
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
