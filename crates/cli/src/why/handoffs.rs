//! The hand-offs of one machine, from the cluster's infrastructure to a healthy Node. Pure.
//!
//! This file makes no decisions: the controller that is responsible for a hand-off reports it in its own fields and
//! conditions. It only knows their order, and which controller must act next.

use capstan_api::wait::{Owner, Wait};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

use crate::describe::Snapshot;

/// The objects of a machine. They are untyped, because they may belong to any provider; missing objects are null.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) cluster: Value,
    pub(crate) infrastructure: Value,
    pub(crate) control_plane: Value,
    pub(crate) machine: Value,
    pub(crate) bootstrap: Value,
    pub(crate) infrastructure_machine: Value,
    pub(crate) host: Value,
    pub(crate) report: Value,
}

impl World {
    /// One machine of a snapshot. Hosts are not part of it, because no hand-off depends on them.
    pub(crate) fn of_snapshot(snapshot: &Snapshot, machine: &str) -> Self {
        let find = |objects: &[Value], name: &Value| {
            let found = objects.iter().find(|object| name.is_string() && object["metadata"]["name"] == *name);
            found.cloned().unwrap_or_default()
        };
        let name = Value::from(machine);
        let machine = find(&snapshot.machines, &name);
        Self {
            cluster: snapshot.cluster.clone(),
            infrastructure: snapshot.infrastructure.clone().unwrap_or_default(),
            control_plane: snapshot.control_plane.clone().unwrap_or_default(),
            bootstrap: find(&snapshot.bootstrap_configs, &machine["spec"]["bootstrap"]["configRef"]["name"]),
            infrastructure_machine: find(
                &snapshot.infrastructure_machines,
                &machine["spec"]["infrastructureRef"]["name"],
            ),
            host: Value::Null,
            report: find(&snapshot.reports, &name),
            machine,
        }
    }
}

/// State of a hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Stand {
    /// It is done.
    Done,
    /// It is the one that all later ones wait for.
    Waiting,
    /// It waits for an earlier one.
    NotYet,
}

/// One hand-off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HandOff {
    /// Name of the hand-off.
    pub(crate) what: &'static str,
    /// Its state.
    pub(crate) stand: Stand,
    /// The object with the state.
    pub(crate) object: String,
    /// Why it waits, if a controller reports it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<Wait>,
    /// Who must act, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) who: Option<String>,
}

/// All hand-offs of the machine, in order. At most one of them waits.
pub(crate) fn handoffs(world: &World) -> Vec<HandOff> {
    let is_server = !world.machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"].is_null();
    let mut steps = vec![
        HandOffStep::of("cluster infrastructure", Owner::Infrastructure, &world.infrastructure)
            .done(world.cluster["status"]["initialization"]["infrastructureProvisioned"] == true)
            .says(&["Ready"]),
        HandOffStep::of("bootstrap data", Owner::Bootstrap, &world.bootstrap)
            .done(world.machine["spec"]["bootstrap"]["dataSecretName"].is_string())
            .says(&["DataSecretAvailable", "Ready"]),
        HandOffStep::of("host claimed", Owner::Infrastructure, &world.infrastructure_machine)
            .done_by("HostClaimed")
            .says(&["HostClaimed", "Ready"]),
        HandOffStep::of("bootstrap data carried out", Owner::Infrastructure, &world.infrastructure_machine)
            .done(world.infrastructure_machine["status"]["initialization"]["provisioned"] == true)
            .says(&["BootstrapExecuted", "Ready"]),
        HandOffStep::of("agent enrolled", Owner::Agent, &world.bootstrap)
            .done_by("AgentEnrolled")
            .says(&["AgentEnrolled"])
            .only_if(condition(&world.bootstrap, "AgentEnrolled").is_some()),
        // Only while it is silent.
        HandOffStep::of("agent connected", Owner::Agent, &world.machine)
            .done_by("AgentConnected")
            .says(&["AgentConnected"])
            .only_if(is_false(&world.machine, "AgentConnected")),
        HandOffStep::of("agent healthy", Owner::Agent, &world.machine)
            .done_by("AgentHealthy")
            .says(&["AgentHealthy"])
            .only_if(is_false(&world.machine, "AgentHealthy")),
        HandOffStep::of("agent upgraded", Owner::Agent, &world.machine)
            .done_by("AgentUpgraded")
            .says(&["AgentUpgraded"])
            .only_if(is_false(&world.machine, "AgentUpgraded")),
        HandOffStep::of("machine as planned", Owner::Agent, &world.machine)
            .done_by("MachineAsPlanned")
            .says(&["MachineAsPlanned"])
            .only_if(is_false(&world.machine, "MachineAsPlanned")),
        HandOffStep::of("probes healthy", Owner::Agent, &world.machine)
            .done_by("ProbesHealthy")
            .says(&["ProbesHealthy"])
            .only_if(is_false(&world.machine, "ProbesHealthy")),
        HandOffStep::of("control plane initialized", Owner::ControlPlane, &world.control_plane)
            .done(world.cluster["status"]["initialization"]["controlPlaneInitialized"] == true)
            .says(&["Initialized", "Available"])
            .only_if(!is_server),
        // Only while something is wrong: a machine that was never ill has nothing to be healed from.
        HandOffStep::of("healed in place", Owner::ControlPlane, &world.machine)
            .done_by("HealedInPlace")
            .says(&["HealedInPlace"])
            .only_if(is_false(&world.machine, "HealedInPlace")),
        HandOffStep::of("plan written", Owner::ControlPlane, &world.bootstrap)
            .done_by("Planned")
            .says(&["Planned"])
            .only_if(world.report.is_object() || condition(&world.bootstrap, "Planned").is_some()),
        HandOffStep::plan_carried_out(&world.report).only_if(world.report.is_object()),
        HandOffStep::of("node registered", Owner::Machine, &world.machine)
            .done(world.machine["status"]["nodeRef"].is_object())
            .says(&["NodeHealthy", "NodeReady"]),
        HandOffStep::of("node healthy", Owner::Machine, &world.machine)
            .done_by("NodeHealthy")
            .says(&["NodeHealthy"]),
        HandOffStep::of("machine ready", Owner::Core, &world.machine).done_by("Ready").says(&["Ready"]),
    ];
    steps.retain(|step| step.is_on_the_way);
    let waiting = steps.iter().position(|step| !step.is_done);
    steps.into_iter().enumerate().map(|(index, step)| step.into_handoff(index, waiting)).collect()
}

fn is_false(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "False")
}

/// The hand-off that waits.
pub(crate) fn waiting(handoffs: &[HandOff]) -> Option<&HandOff> {
    handoffs.iter().find(|handoff| handoff.stand == Stand::Waiting)
}

struct HandOffStep<'a> {
    what: &'static str,
    actor: Owner,
    object: &'a Value,
    is_done: bool,
    is_on_the_way: bool,
    wait: Option<Wait>,
}

impl<'a> HandOffStep<'a> {
    fn of(what: &'static str, actor: Owner, object: &'a Value) -> Self {
        Self { what, actor, object, is_done: false, is_on_the_way: true, wait: None }
    }

    fn done(mut self, is_done: bool) -> Self {
        self.is_done = is_done;
        self
    }

    fn done_by(self, type_: &str) -> Self {
        let is_true = condition(self.object, type_).is_some_and(|condition| condition["status"] == "True");
        self.done(is_true)
    }

    const fn only_if(mut self, is_on_the_way: bool) -> Self {
        self.is_on_the_way = is_on_the_way;
        self
    }

    /// Takes the reason from the first of these conditions that is not true.
    fn says(mut self, types: &[&str]) -> Self {
        self.wait =
            types.iter().filter_map(|type_| condition(self.object, type_)).find_map(Wait::read_untyped);
        self
    }

    fn plan_carried_out(report: &'a Value) -> Self {
        let status = &report["status"];
        let phase = text(&status["phase"]);
        let step = &status["step"];
        let mut message = text(&status["message"]);
        if let (Some(index), Some(total), Some(name)) =
            (step["index"].as_i64(), step["total"].as_i64(), step["name"].as_str())
        {
            let place = format!("step {index} of {total}, {name}");
            message = if message.is_empty() { place } else { format!("{place}: {message}") };
        }
        let since = timestamp(&step["started"]).or_else(|| timestamp(&status["lastUpdated"]));
        let reason = if phase.is_empty() { "NoReport".to_owned() } else { phase.clone() };
        let wait = Wait { reason: Cow::Owned(reason), owner: Owner::Agent, since, message, retry_at: None };
        let step = Self::of("plan carried out", Owner::Agent, report).done(phase == "Applied");
        Self { wait: Some(wait), ..step }
    }

    fn into_handoff(self, index: usize, waiting: Option<usize>) -> HandOff {
        let stand = match waiting {
            Some(waiting) if index == waiting => Stand::Waiting,
            Some(waiting) if index > waiting => Stand::NotYet,
            _ => Stand::Done,
        };
        let is_waiting = stand == Stand::Waiting;
        let wait = self.wait.filter(|_| is_waiting);
        let who = is_waiting.then(|| match wait.as_ref().map(|wait| wait.owner) {
            None | Some(Owner::Unknown) => self.actor.to_string(),
            Some(owner) => owner.to_string(),
        });
        HandOff { what: self.what, stand, object: title(self.object), wait, who }
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn title(object: &Value) -> String {
    match (object["kind"].as_str(), object["metadata"]["name"].as_str()) {
        (Some(kind), Some(name)) => format!("{kind}/{name}"),
        _ => String::new(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(kind: &str, conditions: &[(&str, &str, &str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason, message)| {
                json!({"type": type_, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": "2026-11-15T03:00:00Z"})
            })
            .collect();
        json!({"kind": kind, "metadata": {"name": "x"}, "status": {"conditions": conditions}})
    }

    /// A worker that is as far as it can be.
    fn ready() -> World {
        let mut machine =
            with("Machine", &[("Ready", "True", "Ready", ""), ("NodeHealthy", "True", "NodeHealthy", "")]);
        machine["spec"] = json!({"bootstrap": {"dataSecretName": "x"}});
        machine["status"]["nodeRef"] = json!({"name": "x"});
        let mut infrastructure_machine = with("HostMachine", &[("HostClaimed", "True", "Claimed", "")]);
        infrastructure_machine["status"]["initialization"] = json!({"provisioned": true});
        World {
            cluster: json!({"kind": "Cluster", "metadata": {"name": "c"}, "status": {"initialization": {
                "infrastructureProvisioned": true, "controlPlaneInitialized": true}}}),
            infrastructure: with("HostCluster", &[("Ready", "True", "Ready", "")]),
            control_plane: with("CapstanControlPlane", &[("Initialized", "True", "Initialized", "")]),
            bootstrap: with(
                "CapstanConfig",
                &[("AgentEnrolled", "True", "Enrolled", ""), ("Planned", "True", "Planned", "Revision 1")],
            ),
            machine,
            infrastructure_machine,
            host: json!({}),
            report: json!({"kind": "MachineReport", "metadata": {"name": "x"}, "status": {"phase": "Applied"}}),
        }
    }

    fn reason_of(handoff: &HandOff) -> &str {
        handoff.wait.as_ref().map_or("", |wait| &*wait.reason)
    }

    #[test]
    fn each_hand_off_can_be_the_one_that_waits() {
        type Change = fn(&mut World);
        let cases: [(&str, &str, &str, Change); 11] = [
            ("cluster infrastructure", "NoHosts", "you: add a host (capstan host add), or a HostPool", |w| {
                w.cluster["status"]["initialization"] = json!({});
                w.infrastructure = with("HostCluster", &[("Ready", "False", "NoHosts", "none")]);
            }),
            ("bootstrap data", "", "bootstrap provider", |w| w.machine["spec"] = json!({"bootstrap": {}})),
            ("host claimed", "NoHostAvailable", "you: add a host, or free one (capstan host list)", |w| {
                w.infrastructure_machine =
                    with("HostMachine", &[("HostClaimed", "False", "NoHostAvailable", "0 of 3 hosts fit")]);
            }),
            ("agent enrolled", "WaitingForMachine", "the machine's agent", |w| {
                w.bootstrap =
                    with("CapstanConfig", &[("AgentEnrolled", "False", "WaitingForMachine", "no request")]);
            }),
            (
                "agent connected",
                "AgentSilent",
                "you: check power and network of the machine, and run `capstan-agent explain` on it",
                |w| {
                    w.machine["status"]["conditions"] = with(
                        "",
                        &[("AgentConnected", "False", "AgentSilent", "since noon")],
                    )["status"]["conditions"]
                        .clone();
                },
            ),
            (
                "probes healthy",
                "ProbeFailed",
                "you: look at what the message names on the machine, and at the output of `capstan logs`",
                |w| {
                    w.machine["status"]["conditions"] = with(
                        "",
                        &[("ProbesHealthy", "False", "ProbeFailed", "* kubelet: the answer was 500")],
                    )["status"]["conditions"]
                        .clone();
                },
            ),
            ("control plane initialized", "", "control plane provider", |w| {
                w.cluster["status"]["initialization"]["controlPlaneInitialized"] = json!(false);
            }),
            ("plan written", "Refused", "you: change the field that the message names", |w| {
                w.bootstrap =
                    with("CapstanConfig", &[("Planned", "False", "Refused", "spec.settings.token")]);
            }),
            ("plan carried out", "Failed", "the machine's agent", |w| {
                w.report["status"] = json!({"phase": "Failed", "message": "exit code 1",
                    "step": {"name": "start", "index": 2, "total": 7}});
            }),
            ("node registered", "", "the machine", |w| w.machine["status"]["nodeRef"] = Value::Null),
            ("machine ready", "NotReady", "core", |w| {
                w.machine["status"]["conditions"][0]["status"] = json!("False");
                w.machine["status"]["conditions"][0]["reason"] = json!("NotReady");
            }),
        ];
        for (what, reason, who, change) in cases {
            let mut world = ready();
            change(&mut world);
            let handoffs = handoffs(&world);
            let found = waiting(&handoffs).expect(what);
            assert_eq!((found.what, reason_of(found), found.who.as_deref()), (what, reason, Some(who)));
            let after = handoffs.iter().skip_while(|handoff| handoff.what != what).skip(1);
            assert!(after.into_iter().all(|handoff| handoff.stand == Stand::NotYet), "{handoffs:?}");
        }
    }

    #[test]
    fn the_step_of_a_plan_is_named() {
        let mut world = ready();
        world.report["status"] =
            json!({"phase": "Applying", "step": {"name": "start", "index": 2, "total": 7}});
        let handoffs = handoffs(&world);
        let wait = waiting(&handoffs).and_then(|handoff| handoff.wait.as_ref()).expect("it waits");
        assert_eq!(wait.message, "step 2 of 7, start");
    }

    #[test]
    fn a_ready_machine_waits_for_nothing() {
        assert_eq!(waiting(&handoffs(&ready())), None);
    }

    #[test]
    fn a_machine_of_other_providers_has_no_agent() {
        let mut world = ready();
        world.bootstrap = with("KubeadmConfig", &[("Ready", "True", "Ready", "")]);
        world.report = Value::Null;
        let names: Vec<&str> = handoffs(&world).iter().map(|handoff| handoff.what).collect();
        assert!(!names.contains(&"agent enrolled") && !names.contains(&"plan carried out"), "{names:?}");
    }
}
