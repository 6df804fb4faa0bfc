//! The objects of a cluster as a tree. Pure: from what was read to what is shown.

use jiff::Timestamp;
use serde_json::Value;

/// What was read of a cluster. Objects are untyped: any provider's may be among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) cluster: Value,
    pub(crate) infrastructure: Option<Value>,
    pub(crate) control_plane: Option<Value>,
    pub(crate) deployments: Vec<Value>,
    pub(crate) machines: Vec<Value>,
    /// Infrastructure machines, by the names Machines refer to them.
    pub(crate) infrastructure_machines: Vec<Value>,
    /// What the agents say.
    pub(crate) reports: Vec<Value>,
}

/// One line of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) counts: Option<Counts>,
    pub(crate) state: Option<State>,
    pub(crate) children: Vec<Self>,
}

/// How many machines an object has, and in what condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) replicas: String,
    pub(crate) available: i64,
    pub(crate) ready: i64,
    pub(crate) up_to_date: i64,
}

/// What the condition that sums an object up says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) condition: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) message: String,
}

/// The tree that `clusterctl describe` users know, with each machine's host and the plan it carries out.
pub(crate) fn tree(snapshot: &Snapshot) -> Line {
    let (control_plane, workers): (Vec<&Value>, Vec<&Value>) =
        snapshot.machines.iter().partition(|machine| has_label(machine, "cluster.x-k8s.io/control-plane"));
    let mut children = Vec::new();
    if let Some(infrastructure) = &snapshot.infrastructure {
        children.push(line(
            infrastructure,
            "Ready",
            &format!("ClusterInfrastructure - {}", title(infrastructure)),
        ));
    }
    if let Some(owner) = &snapshot.control_plane {
        let machines = control_plane.iter().map(|machine| machine_line(machine, snapshot)).collect();
        let shown = Line {
            counts: counts(owner),
            ..line(owner, "Available", &format!("ControlPlane - {}", title(owner)))
        };
        children.push(Line { children: machines, ..shown });
    }
    if let Some(line) = workers_line(&workers, snapshot) {
        children.push(line);
    }
    Line { children, ..line(&snapshot.cluster, "Available", &title(&snapshot.cluster)) }
}

fn workers_line(workers: &[&Value], snapshot: &Snapshot) -> Option<Line> {
    let mut children: Vec<Line> = snapshot
        .deployments
        .iter()
        .map(|deployment| {
            let machines = workers
                .iter()
                .filter(|machine| {
                    label(machine, "cluster.x-k8s.io/deployment-name") == Some(name(deployment))
                })
                .map(|machine| machine_line(machine, snapshot))
                .collect();
            let shown =
                Line { counts: counts(deployment), ..line(deployment, "Available", &title(deployment)) };
            Line { children: machines, ..shown }
        })
        .collect();
    let alone = workers.iter().filter(|machine| label(machine, "cluster.x-k8s.io/deployment-name").is_none());
    children.extend(alone.map(|machine| machine_line(machine, snapshot)));
    (!children.is_empty()).then(|| Line { name: "Workers".to_owned(), children, ..Line::default() })
}

fn machine_line(machine: &Value, snapshot: &Snapshot) -> Line {
    let host = machine["spec"]["infrastructureRef"]["name"].as_str().and_then(|wanted| {
        let infrastructure = snapshot.infrastructure_machines.iter().find(|object| name(object) == wanted)?;
        infrastructure["spec"]["hostName"].as_str()
    });
    let mut children = Vec::new();
    if let Some(host) = host {
        children.push(Line { name: format!("Host/{host}"), ..Line::default() });
    }
    children
        .extend(snapshot.reports.iter().filter(|report| name(report) == name(machine)).filter_map(plan_line));
    Line { children, ..line(machine, "Ready", &title(machine)) }
}

/// `Plan 3: step 2 of 7, install`, unless it has been carried out: then there is nothing to watch.
fn plan_line(report: &Value) -> Option<Line> {
    let status = &report["status"];
    let phase = status["phase"].as_str()?;
    if phase == "Applied" {
        return None;
    }
    let step = &status["step"];
    let place = match (step["index"].as_i64(), step["total"].as_i64(), step["name"].as_str()) {
        (Some(index), Some(total), Some(name)) => format!(": step {index} of {total}, {name}"),
        _ => String::new(),
    };
    let state = State {
        condition: "Plan".to_owned(),
        status: phase.to_owned(),
        reason: String::new(),
        since: timestamp(&status["lastUpdated"]),
        message: status["message"].as_str().unwrap_or_default().to_owned(),
    };
    let name = format!("Plan {}{place}", status["plan"]["revision"]);
    Some(Line { name, state: Some(state), ..Line::default() })
}

fn line(object: &Value, condition: &str, name: &str) -> Line {
    Line { name: name.to_owned(), state: state(object, condition), ..Line::default() }
}

fn state(object: &Value, type_: &str) -> Option<State> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == type_)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some(State {
        condition: type_.to_owned(),
        status: text("status"),
        reason: text("reason"),
        since: timestamp(&condition["lastTransitionTime"]),
        message: text("message"),
    })
}

fn counts(object: &Value) -> Option<Counts> {
    let desired = object["spec"]["replicas"].as_i64()?;
    let count = |field: &str| object["status"][field].as_i64().unwrap_or(0);
    Some(Counts {
        replicas: format!("{}/{desired}", count("replicas")),
        available: count("availableReplicas"),
        ready: count("readyReplicas"),
        up_to_date: count("upToDateReplicas"),
    })
}

fn title(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap_or("?"), name(object))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

fn has_label(object: &Value, key: &str) -> bool {
    label(object, key).is_some()
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(name: &str, labels: &Value) -> Value {
        json!({
            "kind": "Machine",
            "metadata": {"name": name, "labels": labels},
            "spec": {"infrastructureRef": {"name": name}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
        })
    }

    #[test]
    fn every_machine_is_under_what_made_it() {
        let snapshot = Snapshot {
            cluster: json!({"kind": "Cluster", "metadata": {"name": "demo"}}),
            infrastructure: Some(json!({"kind": "HostCluster", "metadata": {"name": "demo"}})),
            control_plane: Some(json!({
                "kind": "CapstanControlPlane", "metadata": {"name": "demo"}, "spec": {"replicas": 3},
                "status": {"replicas": 1, "readyReplicas": 1},
            })),
            deployments: vec![
                json!({"kind": "MachineDeployment", "metadata": {"name": "w"}, "spec": {"replicas": 1}}),
            ],
            machines: vec![
                machine("cp-1", &json!({"cluster.x-k8s.io/control-plane": ""})),
                machine("w-1", &json!({"cluster.x-k8s.io/deployment-name": "w"})),
                machine("alone", &json!({})),
            ],
            infrastructure_machines: vec![
                json!({"metadata": {"name": "cp-1"}, "spec": {"hostName": "rack-1"}}),
            ],
            reports: vec![
                json!({"metadata": {"name": "cp-1"}, "status": {"phase": "Applied"}}),
                json!({"metadata": {"name": "w-1"}, "status": {
                    "phase": "Applying", "plan": {"revision": 2}, "step": {"index": 3, "total": 7, "name": "install"},
                }}),
            ],
        };
        let tree = tree(&snapshot);
        let names = |line: &Line| line.children.iter().map(|child| child.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&tree),
            [
                "ClusterInfrastructure - HostCluster/demo",
                "ControlPlane - CapstanControlPlane/demo",
                "Workers"
            ]
        );
        let control_plane = &tree.children[1];
        assert_eq!(control_plane.counts.as_ref().map(|counts| counts.replicas.as_str()), Some("1/3"));
        assert_eq!(names(control_plane), ["Machine/cp-1"]);
        assert_eq!(names(&control_plane.children[0]), ["Host/rack-1"]);
        let workers = &tree.children[2];
        assert_eq!(names(workers), ["MachineDeployment/w", "Machine/alone"]);
        assert_eq!(names(&workers.children[0].children[0]), ["Plan 2: step 3 of 7, install"]);
    }
}
