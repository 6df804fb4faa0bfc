//! `capstan why machine/NAME`: the hand-offs up to the one that waits.

use anyhow::{Context, Result};
use capstan_api::agent::MachineReport;
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::Host;
use capstan_controller::external::Externals;
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, Resource as _};
use serde_json::{Value, json};
use std::fmt::Write as _;

use super::handoffs::{HandOff, Stand, World, handoffs, waiting};
use super::last_lines;
use crate::describe;
use crate::terminal::{Color, Look, harmless};

/// Reads all objects of the hand-offs.
pub(crate) async fn read(client: Client, namespace: &str, name: &str) -> Result<World> {
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let machine = machines
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read Machine {namespace}/{name}"))?
        .with_context(|| format!("there is no Machine {name} in namespace {namespace}"))?;
    let externals = Externals::new(client.clone());
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster = clusters.get_opt(&machine.spec.cluster_name).await.context("cannot read the Cluster")?;
    let spec = cluster.as_ref().map(|cluster| &cluster.spec);
    let external = async |reference| describe::external(&externals, reference, namespace).await;
    let infrastructure = external(spec.and_then(|spec| spec.infrastructure_ref.as_ref())).await?;
    let control_plane = external(spec.and_then(|spec| spec.control_plane_ref.as_ref())).await?;
    let bootstrap = external(machine.spec.bootstrap.config_ref.as_ref()).await?;
    let infrastructure_machine = external(Some(&machine.spec.infrastructure_ref)).await?.unwrap_or_default();
    let host = match infrastructure_machine["spec"]["hostName"].as_str() {
        Some(host) => {
            Api::<Host>::namespaced(client.clone(), namespace).get_opt(host).await.unwrap_or_default()
        }
        None => None,
    };
    // Another control plane provider has no reports, nor their CRD.
    let reports: Api<MachineReport> = Api::namespaced(client, namespace);
    let report = reports.get_opt(name).await.unwrap_or_default();
    Ok(World {
        cluster: object(cluster.as_ref(), &Cluster::kind(&())),
        infrastructure: infrastructure.unwrap_or_default(),
        control_plane: control_plane.unwrap_or_default(),
        machine: object(Some(&machine), &Machine::kind(&())),
        bootstrap: bootstrap.unwrap_or_default(),
        infrastructure_machine,
        host: object(host.as_ref(), &Host::kind(&())),
        report: object(report.as_ref(), &MachineReport::kind(&())),
    })
}

/// With its kind, which a single object is read without.
fn object(object: Option<&impl serde::Serialize>, kind: &str) -> Value {
    let Some(mut value) = object.and_then(|object| serde_json::to_value(object).ok()) else {
        return Value::Null;
    };
    value["kind"] = json!(kind);
    value
}

/// The hand-offs, for people.
pub(super) fn text(world: &World, now: Timestamp, look: Look) -> String {
    let handoffs = handoffs(world);
    let mut text = String::new();
    for handoff in &handoffs {
        // Writing to a String cannot fail.
        _ = writeln!(text, "{}", line(handoff, now, look));
    }
    let Some(waiting) = waiting(&handoffs) else {
        text.push('\n');
        text.push_str(&when_ready(&world.machine, look));
        return text;
    };
    text.push('\n');
    if let Some(wait) = &waiting.wait {
        for message in harmless(&wait.message).lines() {
            _ = writeln!(text, "  {message}");
        }
        if let Some(at) = wait.retry_at {
            _ = writeln!(text, "Next attempt: {at}");
        }
    }
    if let Some(who) = &waiting.who {
        _ = writeln!(text, "Who must act: {who}");
    }
    if let Some(printed) = last_lines(&world.report) {
        _ = write!(text, "\nWhat the machine printed last:\n{printed}");
    }
    text
}

/// A machine whose hand-offs are done may still be one that a rollout has not come to.
fn when_ready(machine: &Value, look: Look) -> String {
    let conditions = machine["status"]["conditions"].as_array();
    let outdated = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "UpToDate" && condition["status"] == "False");
    let Some(outdated) = outdated else {
        return look.paint(Color::Green, "Nothing waits: the machine is ready.") + "\n";
    };
    let mut text =
        look.paint(Color::Yellow, "The machine is ready, and waits for its turn in a rollout:") + "\n";
    let message = outdated["message"].as_str().unwrap_or_default();
    for line in harmless(message).lines() {
        // Writing to a String cannot fail.
        _ = writeln!(text, "  {line}");
    }
    let cluster = machine["spec"]["clusterName"].as_str().unwrap_or("NAME");
    _ = writeln!(text, "Which machine is next: capstan why {cluster}");
    text
}

fn line(handoff: &HandOff, now: Timestamp, look: Look) -> String {
    let mark = match handoff.stand {
        Stand::Done => look.paint(Color::Green, "✓"),
        Stand::Waiting => look.paint(Color::Yellow, "▶"),
        Stand::NotYet => look.paint(Color::Gray, "·"),
    };
    let mut line = format!("{mark} {:<27} {}", handoff.what, handoff.object);
    if handoff.stand == Stand::Waiting {
        let wait = handoff.wait.as_ref();
        let since =
            wait.and_then(|wait| wait.since).map(|since| format!(", for {}", describe::age(since, now)));
        let reason = wait.map_or("no condition gives a reason", |wait| &*wait.reason);
        line = format!("{line}  {reason}{}", since.unwrap_or_default());
    }
    line.trim_end().to_owned()
}

/// The hand-offs, as JSON.
pub(super) fn json(world: &World) -> Value {
    let handoffs = handoffs(world);
    json!({
        "machine": world.machine["metadata"]["name"],
        "cluster": world.cluster["metadata"]["name"],
        "host": world.host["metadata"]["name"],
        "waitingFor": waiting(&handoffs),
        "handoffs": handoffs,
        "lastLines": last_lines(&world.report).map(|text| {
            text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_machine_that_is_not_up_to_date_waits_for_the_rollout() {
        let machine = |conditions: Value| json!({"spec": {"clusterName": "shop"}, "status": {"conditions": conditions}});
        let conditions = json!([{"type": "UpToDate", "status": "False", "message": "* spec.version: another version\x1b[2J"}]);
        let text = when_ready(&machine(conditions), Look::default());
        assert_eq!(
            text,
            "The machine is ready, and waits for its turn in a rollout:\n  * spec.version: another version\u{fffd}[2J\n\
             Which machine is next: capstan why shop\n"
        );
        let well = json!([{"type": "UpToDate", "status": "True"}]);
        assert_eq!(when_ready(&machine(well), Look::default()), "Nothing waits: the machine is ready.\n");
    }

    #[test]
    fn people_see_where_it_stands_and_who_must_act() {
        let world = World {
            cluster: json!({"status": {"initialization": {"infrastructureProvisioned": true}}}),
            machine: json!({"kind": "Machine", "metadata": {"name": "web-0"},
                "spec": {"bootstrap": {"dataSecretName": "web-0"}}}),
            infrastructure_machine: json!({"kind": "HostMachine", "metadata": {"name": "web-0"},
                "status": {"conditions": [{"type": "HostClaimed", "status": "False", "reason": "NoHostAvailable",
                    "message": "0 of 3 hosts fit", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}}),
            report: json!({"status": {"output": {"stderr": {"tail": "boom"}}}}),
            ..World::default()
        };
        let text = text(&world, Timestamp::from_second(60).expect("a time"), Look::default());
        assert!(
            text.contains("▶ host claimed                HostMachine/web-0  NoHostAvailable, for 60s"),
            "{text}"
        );
        assert!(text.contains("\n  0 of 3 hosts fit\nWho must act: you: add a host"), "{text}");
        assert!(text.ends_with("    boom\n"), "{text}");
        let json = json(&world);
        assert_eq!(json["waitingFor"]["what"], "host claimed");
        assert_eq!(json["lastLines"][0], "boom");
    }
}
