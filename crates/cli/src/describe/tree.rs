//! Builds the tree of a cluster's objects from the objects that were read. Pure.

use anyhow::{Result, bail};
use capstan_api::wait::{NEGATIVE, Wait};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::str::FromStr;

use super::group::grouped;

/// The objects of a cluster. They are untyped, because they may belong to any provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) cluster: Value,
    pub(crate) infrastructure: Option<Value>,
    pub(crate) control_plane: Option<Value>,
    pub(crate) deployments: Vec<Value>,
    pub(crate) machine_sets: Vec<Value>,
    pub(crate) machine_pools: Vec<Value>,
    pub(crate) machines: Vec<Value>,
    /// Infrastructure machines, matched by the references of Machines.
    pub(crate) infrastructure_machines: Vec<Value>,
    /// Bootstrap configurations, matched by the references of Machines.
    pub(crate) bootstrap_configs: Vec<Value>,
    /// MachineReports of the agents.
    pub(crate) reports: Vec<Value>,
    /// Names of the applied ClusterResourceSets.
    pub(crate) resource_sets: Vec<String>,
}

/// Which objects and conditions to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) conditions: Vec<ConditionFilter>,
    pub(crate) machine_sets: bool,
    pub(crate) resource_sets: bool,
    pub(crate) templates: bool,
    pub(crate) echo: bool,
    pub(crate) grouping: bool,
}

/// Selects the objects whose conditions are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionFilter {
    /// `None` for all.
    kind: Option<String>,
    name: Option<String>,
    only_unusual: bool,
}

impl FromStr for ConditionFilter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            bail!("{text:?} names no kind: say all, KIND or KIND/NAME, without blanks");
        }
        let (text, only_unusual) = text.strip_suffix('+').map_or((text, false), |text| (text, true));
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        let kind = (!kind.eq_ignore_ascii_case("all")).then(|| kind.to_ascii_lowercase());
        Ok(Self { kind, name, only_unusual })
    }
}

/// One line of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deleting: bool,
    #[serde(flatten)]
    pub(crate) counts: Option<Counts>,
    #[serde(rename = "condition", skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    /// All conditions, if they are selected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<State>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Self>,
}

/// Numbers of machines of an object, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) replicas: String,
    pub(crate) available: i64,
    pub(crate) ready: i64,
    pub(crate) up_to_date: i64,
}

/// The state in a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct State {
    #[serde(rename = "type")]
    pub(crate) condition: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) message: String,
    /// What the object waits for, if it does.
    #[serde(skip)]
    pub(crate) wait: Option<Wait>,
}

impl State {
    /// Whether there is nothing to say about it.
    fn is_usual(&self) -> bool {
        let wanted = if NEGATIVE.contains(&self.condition.as_str()) { "False" } else { "True" };
        self.status == wanted && self.message.is_empty()
    }
}

/// The tree of `clusterctl describe`, with the host and the plan of each machine.
pub(crate) fn tree(snapshot: &Snapshot, options: &Options) -> Line {
    let view = View { snapshot, options };
    let (control_plane, workers): (Vec<&Value>, Vec<&Value>) =
        snapshot.machines.iter().partition(|machine| has_label(machine, "cluster.x-k8s.io/control-plane"));
    let mut children = Vec::new();
    if let Some(infrastructure) = &snapshot.infrastructure {
        let name = format!("ClusterInfrastructure - {}", title(infrastructure));
        children.push(view.line(infrastructure, "Ready", &name));
    }
    if options.resource_sets && !snapshot.resource_sets.is_empty() {
        let sets = snapshot.resource_sets.iter().map(|name| named(&format!("ClusterResourceSet/{name}")));
        children.push(Line { children: sets.collect(), ..named("ClusterResourceSets") });
    }
    if let Some(owner) = &snapshot.control_plane {
        let machines = view.machines(&control_plane);
        let template = &owner["spec"]["machineTemplate"]["spec"]["infrastructureRef"];
        let templates = view.templates(&[("MachineInfrastructureTemplate", template)]);
        children.push(Line {
            counts: counts(owner),
            version: owner["spec"]["version"].as_str().map(str::to_owned),
            children: machines.into_iter().chain(templates).collect(),
            ..view.line(owner, "Available", &format!("ControlPlane - {}", title(owner)))
        });
    }
    children.extend(view.workers(&workers));
    Line {
        children,
        counts: counts_of_cluster(&snapshot.cluster),
        ..view.line(&snapshot.cluster, "Available", &title(&snapshot.cluster))
    }
}

struct View<'a> {
    snapshot: &'a Snapshot,
    options: &'a Options,
}

impl View<'_> {
    fn workers(&self, workers: &[&Value]) -> Option<Line> {
        let of = |label_name: &str, owner: &Value| -> Vec<&Value> {
            let is_of = |machine: &&&Value| label(machine, label_name) == Some(name(owner));
            workers.iter().filter(is_of).copied().collect()
        };
        let mut children = Vec::new();
        for deployment in &self.snapshot.deployments {
            let machines = of("cluster.x-k8s.io/deployment-name", deployment);
            let below = match self.options.machine_sets {
                true => self.sets(deployment, &machines),
                false => self.machines(&machines),
            };
            let spec = &deployment["spec"]["template"]["spec"];
            let templates = self.templates(&[
                ("BootstrapConfigTemplate", &spec["bootstrap"]["configRef"]),
                ("MachineInfrastructureTemplate", &spec["infrastructureRef"]),
            ]);
            children.push(Line {
                counts: counts(deployment),
                version: spec["version"].as_str().map(str::to_owned),
                children: below.into_iter().chain(templates).collect(),
                ..self.line(deployment, "Available", &title(deployment))
            });
        }
        for pool in &self.snapshot.machine_pools {
            children.push(Line {
                counts: counts(pool),
                version: pool["spec"]["template"]["spec"]["version"].as_str().map(str::to_owned),
                children: self.machines(&of("cluster.x-k8s.io/pool-name", pool)),
                ..self.line(pool, "Available", &title(pool))
            });
        }
        let is_alone = |machine: &&&Value| {
            let owned = ["cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/pool-name"];
            owned.iter().all(|key| label(machine, key).is_none())
        };
        let alone: Vec<&Value> = workers.iter().filter(is_alone).copied().collect();
        if !alone.is_empty() {
            children.push(Line { children: self.machines(&alone), ..named("Other") });
        }
        (!children.is_empty()).then(|| Line { children, ..named("Workers") })
    }

    /// The MachineSets of a deployment that have machines or should have some.
    fn sets(&self, deployment: &Value, machines: &[&Value]) -> Vec<Line> {
        let is_of = |set: &&Value| label(set, "cluster.x-k8s.io/deployment-name") == Some(name(deployment));
        let sets = self.snapshot.machine_sets.iter().filter(is_of);
        sets.map(|set| {
            let is_in = |machine: &&&Value| label(machine, "cluster.x-k8s.io/set-name") == Some(name(set));
            let of_set: Vec<&Value> = machines.iter().filter(is_in).copied().collect();
            Line {
                counts: counts(set),
                version: set["spec"]["template"]["spec"]["version"].as_str().map(str::to_owned),
                children: self.machines(&of_set),
                // Its own condition says nothing that those of its owner do not.
                state: None,
                ..self.line(set, "Available", &title(set))
            }
        })
        .collect()
    }

    fn machines(&self, machines: &[&Value]) -> Vec<Line> {
        let mut lines: Vec<Line> = machines.iter().map(|machine| self.machine(machine)).collect();
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        match self.options.grouping {
            true => grouped(lines, machines),
            false => lines,
        }
    }

    fn machine(&self, machine: &Value) -> Line {
        let find = |objects: &'_ [Value], reference: &Value| {
            let wanted = reference["name"].as_str()?;
            objects.iter().find(|object| name(object) == wanted).cloned()
        };
        let infrastructure =
            find(&self.snapshot.infrastructure_machines, &machine["spec"]["infrastructureRef"]);
        let bootstrap = find(&self.snapshot.bootstrap_configs, &machine["spec"]["bootstrap"]["configRef"]);
        let ready = state(machine, "Ready");
        let mut children = Vec::new();
        for (role, object) in
            [("BootstrapConfig", bootstrap), ("MachineInfrastructure", infrastructure.clone())]
        {
            let Some(object) = object.filter(|object| object["kind"].is_string()) else { continue };
            let own = state(&object, "Ready");
            let says_the_same = match (&own, &ready) {
                (Some(own), Some(ready)) => (&own.status, &own.reason) == (&ready.status, &ready.reason),
                (own, ready) => own.is_none() && ready.is_none(),
            };
            let is_echo = says_the_same || own.as_ref().is_some_and(|own| own.status == "True");
            if self.options.echo || !is_echo {
                children.push(self.line(&object, "Ready", &format!("{role} - {}", title(&object))));
            }
        }
        if let Some(host) = infrastructure.as_ref().and_then(|object| object["spec"]["hostName"].as_str()) {
            children.push(named(&format!("Host/{host}")));
        }
        let reports = self.snapshot.reports.iter().filter(|report| name(report) == name(machine));
        children.extend(reports.filter_map(plan_line));
        let is = |type_: &str| i64::from(state(machine, type_).is_some_and(|state| state.status == "True"));
        Line {
            children,
            version: machine["spec"]["version"].as_str().map(str::to_owned),
            counts: Some(Counts {
                replicas: "1".to_owned(),
                available: is("Available"),
                ready: is("Ready"),
                up_to_date: is("UpToDate"),
            }),
            ..self.line(machine, "Ready", &title(machine))
        }
    }

    /// The templates that references name, below a line of their own.
    fn templates(&self, references: &[(&str, &Value)]) -> Option<Line> {
        let children: Vec<Line> = references
            .iter()
            .filter_map(|(role, reference)| {
                let (kind, name) = (reference["kind"].as_str()?, reference["name"].as_str()?);
                Some(named(&format!("{role} - {kind}/{name}")))
            })
            .collect();
        (self.options.templates && !children.is_empty()).then(|| Line { children, ..named("Templates") })
    }

    fn line(&self, object: &Value, condition: &str, line: &str) -> Line {
        let kind = object["kind"].as_str().unwrap_or_default().to_ascii_lowercase();
        let is_shown = |shown: &&ConditionFilter| {
            shown.kind.as_ref().is_none_or(|wanted| *wanted == kind)
                && shown.name.as_deref().is_none_or(|wanted| wanted == name(object))
        };
        let shown = self.options.conditions.iter().find(is_shown);
        let mut conditions = shown.map(|_| states(object)).unwrap_or_default();
        if shown.is_some_and(|shown| shown.only_unusual) {
            let sums_up = |state: &State| ["Available", "Ready"].contains(&state.condition.as_str());
            conditions.retain(|state| sums_up(state) || !state.is_usual());
        }
        Line {
            name: line.to_owned(),
            state: state(object, condition),
            conditions,
            deleting: object["metadata"]["deletionTimestamp"].is_string(),
            ..Line::default()
        }
    }
}

fn named(name: &str) -> Line {
    Line { name: name.to_owned(), ..Line::default() }
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
        wait: None,
    };
    let name = format!("Plan {}{place}", status["plan"]["revision"]);
    Some(Line { name, state: Some(state), ..Line::default() })
}

fn states(object: &Value) -> Vec<State> {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            State {
                condition: text("type"),
                status: text("status"),
                reason: text("reason"),
                since: timestamp(&condition["lastTransitionTime"]),
                message: text("message"),
                wait: Wait::read_untyped(condition),
            }
        })
        .collect()
}

pub(super) fn state(object: &Value, type_: &str) -> Option<State> {
    states(object).into_iter().find(|state| state.condition == type_)
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

/// Control plane and workers together.
fn counts_of_cluster(cluster: &Value) -> Option<Counts> {
    let parts = [&cluster["status"]["controlPlane"], &cluster["status"]["workers"]];
    if parts.iter().all(|part| part["replicas"].is_null() && part["desiredReplicas"].is_null()) {
        return None;
    }
    let sum = |field: &str| parts.iter().filter_map(|part| part[field].as_i64()).sum::<i64>();
    Some(Counts {
        replicas: format!("{}/{}", sum("replicas"), sum("desiredReplicas")),
        available: sum("availableReplicas"),
        ready: sum("readyReplicas"),
        up_to_date: sum("upToDateReplicas"),
    })
}

pub(super) fn title(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap_or("?"), name(object))
}

pub(super) fn name(object: &Value) -> &str {
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
mod tests;
