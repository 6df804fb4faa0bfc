//! The state of a rollout: what changes, which machine is being changed, which one is next. Pure.
//!
//! This file makes no decisions: the control plane and core report in their conditions that a rollout is in progress
//! and which machines are not up to date. The next worker is the first one in core's own order of Machines.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::keep;
use capstan_core::machineset::priority::first_to_go;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Write as _;

use crate::describe::{Snapshot, age};
use crate::terminal::{Color, Look, harmless};

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
const SET: &str = "cluster.x-k8s.io/set-name";

/// How core begins what it says of a Machine that it updates in place.
const IN_PLACE: &str = "In-place update in progress";

/// An object with a rollout in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    /// Kind and name.
    pub(crate) object: String,
    /// The version that its Machines get.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    machines: usize,
    up_to_date: usize,
    /// Why it does not continue, as its controller says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<String>,
    /// What differs on the Machines that are not up to date.
    changes: Vec<String>,
    /// The Machines that are not up to date or not ready, in the order of their turns.
    pub(crate) turns: Vec<RolloutMachine>,
}

impl Rollout {
    /// What rolls out, and how many machines have it.
    pub(crate) fn progress(&self) -> String {
        let version = self.version.as_ref().map(|version| format!(" {}", harmless(version)));
        let (version, machines) = (version.unwrap_or_default(), self.machines);
        format!("rolls out{version}: {} of {machines} machines are up to date", self.up_to_date)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutMachine {
    pub(crate) machine: String,
    pub(crate) turn: RolloutPosition,
    /// What the machine does, or waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) doing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RolloutPosition {
    /// Its plan has failed, or its agent rejects it: the rollout stops until a person acts.
    Failed,
    /// It is being changed, made or deleted.
    Now,
    Next,
    Later,
    /// The user has excluded it.
    Held,
}

impl RolloutPosition {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Now => "now",
            Self::Next => "next",
            Self::Later => "later",
            Self::Held => "held",
        }
    }
}

/// All rollouts of the cluster: the control plane first, because workers wait for it.
pub(crate) fn rollouts(snapshot: &Snapshot, now: Timestamp) -> Vec<Rollout> {
    let servers: Vec<&Value> =
        snapshot.machines.iter().filter(|machine| label(machine, CONTROL_PLANE).is_some()).collect();
    let control_plane = snapshot.control_plane.iter().filter_map(|owner| {
        let version = &owner["spec"]["version"];
        rollout(snapshot, owner, version, &servers, oldest)
    });
    let deployments = snapshot.deployments.iter().filter_map(|owner| {
        let is_of = |machine: &&Value| label(machine, DEPLOYMENT) == owner["metadata"]["name"].as_str();
        let machines: Vec<&Value> = snapshot.machines.iter().filter(is_of).collect();
        let version = &owner["spec"]["template"]["spec"]["version"];
        rollout(snapshot, owner, version, &machines, |waiting| first_of_sets(snapshot, waiting, now))
    });
    control_plane.chain(deployments).collect()
}

fn rollout(
    snapshot: &Snapshot,
    owner: &Value,
    version: &Value,
    machines: &[&Value],
    next: impl Fn(&[&Value]) -> Option<String>,
) -> Option<Rollout> {
    let rolling = condition(owner, "RollingOut").filter(|condition| condition["status"] == "True")?;
    let message = text(&rolling["message"]);
    let mut turns = Vec::new();
    let mut waiting = Vec::new();
    for machine in machines.iter().copied() {
        let owner_line = line_about(&message, name(machine));
        match now(machine, report(snapshot, machine), owner_line) {
            Some(turn) => turns.push(turn),
            None if !is(machine, "UpToDate", "False") => {}
            None if !machine["metadata"]["annotations"][keep::HOLD].is_null() => {
                let doing = format!("has the annotation {}", keep::HOLD);
                turns.push(rollout_machine(machine, RolloutPosition::Held, doing, None));
            }
            None => waiting.push(machine),
        }
    }
    turns.sort_by(|a, b| (a.turn, &a.machine).cmp(&(b.turn, &b.machine)));
    let next = next(&waiting);
    let is_next = |machine: &&&Value| next.as_deref() == Some(name(machine));
    let doing = |machine: &Value| line_about(&message, name(machine)).unwrap_or_default().to_owned();
    turns.extend(
        waiting.iter().filter(is_next).map(|it| rollout_machine(it, RolloutPosition::Next, doing(it), None)),
    );
    turns.extend(
        waiting
            .iter()
            .filter(|it| !is_next(it))
            .map(|it| rollout_machine(it, RolloutPosition::Later, doing(it), None)),
    );
    Some(Rollout {
        object: format!("{}/{}", text(&owner["kind"]), name(owner)),
        version: version.as_str().map(str::to_owned),
        since: timestamp(&rolling["lastTransitionTime"]),
        machines: machines.len(),
        up_to_date: machines.iter().filter(|machine| is(machine, "UpToDate", "True")).count(),
        waits: waits(owner, rolling, machines),
        changes: changes(machines),
        turns,
    })
}

/// What a Machine does now, if it is its turn.
fn now(machine: &Value, report: Option<&Value>, owner_line: Option<&str>) -> Option<RolloutMachine> {
    if machine["metadata"]["deletionTimestamp"].is_string() {
        let deleting = condition(machine, "Deleting");
        let why = deleting.map(first_line).filter(|why| !why.is_empty());
        let doing = why.map_or_else(|| "is deleted".to_owned(), |why| format!("is deleted: {why}"));
        return Some(rollout_machine(
            machine,
            RolloutPosition::Now,
            doing,
            timestamp(&machine["metadata"]["deletionTimestamp"]),
        ));
    }
    if let Some(turn) = report.and_then(|report| plan(machine, report, owner_line)) {
        return Some(turn);
    }
    if let Some(updating) = condition(machine, "Updating").filter(|condition| condition["status"] == "True") {
        let doing =
            match first_line(updating).strip_prefix(IN_PLACE).map(|rest| rest.trim_start_matches(": ")) {
                Some("") => "is updated in place".to_owned(),
                Some(why) => format!("is updated in place: {why}"),
                None => format!("is updated in place: {}", first_line(updating)),
            };
        return Some(rollout_machine(
            machine,
            RolloutPosition::Now,
            doing,
            timestamp(&updating["lastTransitionTime"]),
        ));
    }
    let ready = condition(machine, "Ready").filter(|condition| condition["status"] != "True")?;
    let what = match machine["status"]["nodeRef"].is_object() {
        true => "is not ready",
        false => "is made",
    };
    let doing = format!("{what}: {}", first_line(ready));
    Some(rollout_machine(machine, RolloutPosition::Now, doing, timestamp(&ready["lastTransitionTime"])))
}

/// The step of a plan that has not been carried out. `owner_line` is what the control plane says of the machine.
fn plan(machine: &Value, report: &Value, owner_line: Option<&str>) -> Option<RolloutMachine> {
    let status = &report["status"];
    let step = &status["step"];
    let place = match (step["index"].as_i64(), step["total"].as_i64(), step["name"].as_str()) {
        (Some(index), Some(total), Some(name)) => format!("step {index} of {total} ({name}) of its plan"),
        // It has just begun.
        _ => "its plan".to_owned(),
    };
    let said = text(&status["message"]);
    let why = owner_line.or_else(|| said.lines().next()).filter(|why| !why.is_empty());
    let (turn_now, doing) = match status["phase"].as_str()? {
        "Applying" => (RolloutPosition::Now, format!("carries out {place}")),
        // The agent only says that a gate is closed; why is known to the control plane.
        "Waiting" => match owner_line {
            Some(why) => (RolloutPosition::Now, format!("waits at {place}: {why}")),
            None => {
                (RolloutPosition::Now, format!("waits at {place}, until the control plane lets it go on"))
            }
        },
        "Failed" => (RolloutPosition::Failed, format!("has failed at {place}")),
        "Refused" => (RolloutPosition::Failed, "rejects its plan".to_owned()),
        _ => return None,
    };
    let doing = match why.filter(|_| status["phase"] != "Waiting") {
        Some(why) => format!("{doing}: {why}"),
        None => doing,
    };
    let since = timestamp(&step["started"]).or_else(|| timestamp(&status["lastUpdated"]));
    Some(rollout_machine(machine, turn_now, doing, since))
}

fn rollout_machine(
    machine: &Value,
    turn: RolloutPosition,
    doing: String,
    since: Option<Timestamp>,
) -> RolloutMachine {
    RolloutMachine { machine: name(machine).to_owned(), turn, doing, since }
}

/// The control plane changes its oldest Machine first.
fn oldest(waiting: &[&Value]) -> Option<String> {
    let age = |machine: &&&Value| (text(&machine["metadata"]["creationTimestamp"]), name(machine).to_owned());
    waiting.iter().min_by_key(age).map(|machine| name(machine).to_owned())
}

/// Core takes Machines from the oldest MachineSet that still has some, in the order in which that one would delete them.
fn first_of_sets(snapshot: &Snapshot, waiting: &[&Value], now: Timestamp) -> Option<String> {
    let mut sets: Vec<&Value> = snapshot.machine_sets.iter().collect();
    sets.sort_by_key(|set| (text(&set["metadata"]["creationTimestamp"]), name(set).to_owned()));
    sets.into_iter().find_map(|set| {
        let order =
            typed::<MachineSet>(set)?.spec.deletion.and_then(|deletion| deletion.order).unwrap_or_default();
        let is_in = |machine: &&&Value| label(machine, SET) == Some(name(set));
        let machines: Vec<Machine> =
            waiting.iter().filter(is_in).filter_map(|machine| typed(machine)).collect();
        first_to_go(&machines, order, now).first().and_then(|machine| machine.metadata.name.clone())
    })
}

fn typed<K: DeserializeOwned>(object: &Value) -> Option<K> {
    serde_json::from_value(object.clone()).ok()
}

/// What the controller says in its condition of this Machine.
fn line_about<'a>(message: &'a str, machine: &str) -> Option<&'a str> {
    let start = format!("* Machine {machine}: ");
    message.lines().find_map(|line| line.strip_prefix(&start))
}

/// Why nothing goes on, where the owner says so. Of a control plane it is a line of its condition that is about no single
/// Machine; core repeats there what its Machines say.
fn waits(owner: &Value, rolling: &Value, machines: &[&Value]) -> Option<String> {
    let message = text(&rolling["message"]);
    if let Some(held) = message.strip_prefix("Held: ") {
        return held.lines().next().map(str::to_owned);
    }
    if owner["kind"] == "MachineDeployment" {
        return None;
    }
    let is_about_one =
        |line: &str| machines.iter().any(|it| line.starts_with(&format!("Machine {}: ", name(it))));
    let mut lines = message.lines().skip(1).filter_map(|line| line.strip_prefix("* "));
    lines.find(|line| !is_about_one(line)).map(str::to_owned)
}

/// What a Machine says of why it is not up to date.
fn lines_of(machine: &Value) -> Vec<String> {
    let condition = condition(machine, "UpToDate").filter(|condition| condition["status"] == "False");
    let message = condition.map(|condition| text(&condition["message"])).unwrap_or_default();
    message.lines().map(|line| line.strip_prefix("* ").unwrap_or(line).to_owned()).collect()
}

/// Every difference once. What a machine does about it is told at its turn.
fn changes(machines: &[&Value]) -> Vec<String> {
    let is_change = |line: &String| !line.starts_with("The machine ") && !line.starts_with(IN_PLACE);
    let mut lines: Vec<String> = machines.iter().flat_map(|it| lines_of(it)).filter(is_change).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The rollouts, for people.
pub(super) fn render(rollouts: &[Rollout], now: Timestamp, look: Look) -> String {
    let mut text = String::new();
    for rollout in rollouts {
        let since = rollout.since.map(|since| format!(", for {}", age(since, now))).unwrap_or_default();
        _ = writeln!(text, "{} {}{since}", rollout.object, rollout.progress());
        if let Some(why) = &rollout.waits {
            _ = writeln!(text, "    {} {}", look.paint(Color::Yellow, "waits:"), harmless(why));
        }
        for change in &rollout.changes {
            _ = writeln!(text, "    change: {}", harmless(change));
        }
        for turn in &rollout.turns {
            _ = writeln!(text, "    {}", line(turn, now, look));
        }
    }
    text
}

fn line(turn: &RolloutMachine, now: Timestamp, look: Look) -> String {
    let mark = turn.turn.name();
    let color = match turn.turn {
        RolloutPosition::Failed => Color::Red,
        RolloutPosition::Now => Color::Yellow,
        RolloutPosition::Next => Color::Cyan,
        RolloutPosition::Later | RolloutPosition::Held => Color::Gray,
    };
    let blanks = " ".repeat(6_usize.saturating_sub(mark.len()));
    let since = turn.since.map(|since| format!(" (for {})", age(since, now))).unwrap_or_default();
    let doing = match turn.doing.is_empty() {
        true => String::new(),
        false => format!(" {}{since}", harmless(&turn.doing)),
    };
    format!("{}{blanks} Machine/{}{doing}", look.paint(color, mark), turn.machine)
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn is(object: &Value, type_: &str, status: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == status)
}

/// The first line of a message, else the reason.
fn first_line(condition: &Value) -> String {
    let line =
        condition["message"].as_str().and_then(|message| message.lines().find(|line| !line.is_empty()));
    let line = line.map(|line| line.trim_start().trim_start_matches("* ").to_owned());
    line.unwrap_or_else(|| text(&condition["reason"]))
}

fn report<'a>(snapshot: &'a Snapshot, machine: &Value) -> Option<&'a Value> {
    snapshot.reports.iter().find(|report| name(report) == name(machine))
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
