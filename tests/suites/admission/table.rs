//! The requests, in their order, and what comes of each.

use serde_json::{Value, json};

use crate::objects::{object, with};

/// What is asked of an API server.
pub(crate) enum Request {
    /// A new object.
    Create(Value),
    /// A merge patch of the object with this name.
    Change(&'static str, Value),
    /// A merge patch of its status.
    Status(&'static str, Value),
    /// The deletion of the object with this name.
    Delete(&'static str),
}

/// What comes of it.
pub(crate) enum Expected {
    /// The object has these values at these places.
    Admitted(Vec<(&'static str, Value)>),
    /// An error.
    Rejected {
        /// Its HTTP status.
        code: u16,
        /// The field that one of its causes names, unless empty.
        field: &'static str,
        /// A part of the message of ours.
        says: &'static str,
        /// How upstream's error differs, beyond its words.
        upstream: Option<&'static str>,
    },
}

/// One request.
pub(crate) struct Step {
    /// What it shows.
    pub(crate) about: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) request: Request,
    pub(crate) expected: Expected,
    /// Upstream decides otherwise on purpose, or its core does this itself.
    pub(crate) only_ours: bool,
}

/// A table that grows.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn add(&mut self, about: &'static str, kind: &'static str, request: Request, expected: Expected) {
        self.0.push(Step { about, kind, request, expected, only_ours: false });
    }

    fn only_ours(&mut self) {
        self.0.last_mut().expect("a step").only_ours = true;
    }

    fn wrong(&mut self, about: &'static str, kind: &'static str, change: &Value, field: &'static str) {
        self.add(about, kind, Request::Create(with(kind, "wrong", change)), rejected(field));
    }
}

fn rejected(field: &'static str) -> Expected {
    Expected::Rejected { code: 422, field, says: "is invalid", upstream: None }
}

fn admitted<const N: usize>(fields: [(&'static str, Value); N]) -> Expected {
    Expected::Admitted(Vec::from(fields))
}

const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const SKIP: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// All requests.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps = Steps::default();
    defaults(&mut steps);
    replicas(&mut steps);
    rules(&mut steps);
    changes(&mut steps);
    topologies(&mut steps);
    steps.0
}

fn defaults(steps: &mut Steps) {
    let create = |kind: &str| Request::Create(object(kind, "plain"));
    let label = ("/metadata/labels/cluster.x-k8s.io~1cluster-name", json!("shop"));
    let version = json!({"spec": {"version": "1.36.0"}});
    steps.add(
        "a Machine gets a label, a version with v and a timeout",
        "Machine",
        Request::Create(with("Machine", "plain", &version)),
        admitted([
            label.clone(),
            ("/spec/version", json!("v1.36.0")),
            ("/spec/deletion/nodeDeletionTimeoutSeconds", json!(10)),
        ]),
    );
    let own = json!({"cluster.x-k8s.io/set-name": "plain"});
    steps.add(
        "a MachineSet selects its Machines by its name",
        "MachineSet",
        create("MachineSet"),
        admitted([
            label.clone(),
            ("/spec/replicas", json!(1)),
            ("/spec/selector/matchLabels", own.clone()),
            ("/spec/template/metadata/labels", own),
        ]),
    );
    let own = json!({"cluster.x-k8s.io/deployment-name": "plain", CLUSTER: "shop"});
    let limits = json!({"maxSurge": 1, "maxUnavailable": 0});
    steps.add(
        "a MachineDeployment gets replicas, labels and a strategy",
        "MachineDeployment",
        create("MachineDeployment"),
        admitted([
            label.clone(),
            ("/spec/replicas", json!(1)),
            ("/spec/selector/matchLabels", own.clone()),
            ("/spec/template/metadata/labels", own),
            ("/spec/rollout/strategy", json!({"type": "RollingUpdate", "rollingUpdate": limits})),
        ]),
    );
    steps.add(
        "a MachinePool gets replicas and a timeout",
        "MachinePool",
        create("MachinePool"),
        admitted([
            label.clone(),
            ("/spec/replicas", json!(1)),
            ("/spec/template/spec/deletion/nodeDeletionTimeoutSeconds", json!(10)),
        ]),
    );
    steps.add(
        "a MachineHealthCheck gets a timeout",
        "MachineHealthCheck",
        create("MachineHealthCheck"),
        admitted([label, ("/spec/checks/nodeStartupTimeoutSeconds", json!(600))]),
    );
    steps.add(
        "a ClusterResourceSet gets a strategy",
        "ClusterResourceSet",
        create("ClusterResourceSet"),
        admitted([("/spec/strategy", json!("ApplyOnce"))]),
    );
    steps.add(
        "an ExtensionConfig gets a selector and a port",
        "ExtensionConfig",
        create("ExtensionConfig"),
        admitted([("/spec/namespaceSelector", json!({})), ("/spec/clientConfig/service/port", json!(443))]),
    );
}

fn replicas(steps: &mut Steps) {
    let limits = json!({"metadata": {"annotations": {MIN: "3", MAX: "7"}}});
    for kind in ["MachineSet", "MachineDeployment", "MachinePool"] {
        let replicas = |replicas: i32| admitted([("/spec/replicas", json!(replicas))]);
        let create = Request::Create(with(kind, "scaled", &limits));
        steps.add("a new object has the least replicas of the autoscaler", kind, create, replicas(3));
        for (set, handed_over) in [(9, 7), (5, 5), (1, 3)] {
            let change = Request::Change("scaled", json!({"spec": {"replicas": set}}));
            steps.add("a user sets replicas", kind, change, replicas(set));
            let change = Request::Change("scaled", json!({"spec": {"replicas": null}}));
            steps.add("the autoscaler takes over", kind, change, replicas(handed_over));
        }
        let wrong = with(kind, "wrong", &json!({"metadata": {"annotations": {MIN: "few", MAX: "7"}}}));
        let expected = Expected::Rejected {
            code: 422,
            field: "metadata.annotations.cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
            says: "must be a number",
            upstream: Some("an error of its own, with status 403"),
        };
        steps.add("an annotation of the autoscaler is not a number", kind, Request::Create(wrong), expected);
    }
}

fn rules(steps: &mut Steps) {
    let taints = |key: &str| json!([{"key": key, "effect": "NoSchedule", "propagation": "Always"}]);
    let in_without_values = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    let change = json!({"spec": {"bootstrap": {"dataSecretName": null}}});
    steps.wrong("a Machine without bootstrap data", "Machine", &change, "spec.bootstrap");
    let pool = json!({"metadata": {"labels": {"cluster.x-k8s.io/pool-name": "p"}}, "spec": {
        "bootstrap": {"dataSecretName": null},
    }});
    let create = Request::Create(with("Machine", "of-a-pool", &pool));
    steps.add("the Machine of a pool has none", "Machine", create, admitted([]));
    let change = json!({"spec": {"version": "1.36"}});
    steps.wrong("a version without a patch", "Machine", &change, "spec.version");
    let change = json!({"spec": {"taints": taints("node.cluster.x-k8s.io/uninitialized")}});
    steps.wrong("a reserved taint", "Machine", &change, "spec.taints[0].key");
    let change = json!({"spec": {"taints": taints("node-role.kubernetes.io/control-plane")}});
    steps.wrong("a taint of control planes on a worker", "Machine", &change, "spec.taints[0].key");
    for kind in ["MachineSet", "MachineDeployment"] {
        let change = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        let at = "spec.template.metadata.labels";
        steps.wrong("a selector that does not select the template", kind, &change, at);
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        let change = json!({"spec": {"selector": in_without_values, "template": labels}});
        steps.wrong("a selector without values", kind, &change, "spec.selector.matchExpressions[0].values");
        let change = json!({"spec": {"machineNaming": {"template": "{{ .cluster.name }}"}}});
        steps.wrong("names that are not unique", kind, &change, "spec.machineNaming.template");
        let change = json!({"metadata": {"annotations": {SKIP: "Everything"}}});
        let at = "metadata.annotations.machineset.cluster.x-k8s.io/skip-preflight-checks";
        steps.wrong("an unknown check", kind, &change, at);
        let change = json!({"spec": {"template": {"metadata": {"annotations": {"-": "a"}}}}});
        steps.wrong("a wrong annotation", kind, &change, "spec.template.metadata.annotations");
    }
    let kind = "MachineDeployment";
    let limits = json!({"maxSurge": 0, "maxUnavailable": 0});
    let change =
        json!({"spec": {"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}}});
    steps.wrong("a rollout that cannot proceed", kind, &change, "spec.rollout.strategy.rollingUpdate");
    let change = json!({"spec": {"remediation": {"maxInFlight": "some"}}});
    steps.wrong("a limit that is no number", kind, &change, "spec.remediation.maxInFlight");
    let change = json!({"metadata": {"name": "n".repeat(64)}});
    steps.wrong("a name that is no label", kind, &change, "metadata.name");
    let change = json!({"spec": {"template": {"spec": {"taints": taints("a")}}}});
    let wrong = Request::Create(with("MachinePool", "wrong", &change));
    let expected = Expected::Rejected {
        code: 422,
        field: "spec.template.spec.taints",
        says: "is invalid",
        upstream: Some("the field spec.taints, which does not exist"),
    };
    steps.add("a pool with taints", "MachinePool", wrong, expected);
    let change = json!({"spec": {"selector": {"matchLabels": {CLUSTER: "other"}}}});
    let at = "spec.selector.matchLabels[cluster.x-k8s.io/cluster-name]";
    steps.wrong("a health check of another cluster", "MachineHealthCheck", &change, at);
    let most = json!({"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "many"}}}});
    let at = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo";
    steps.wrong("a health check with a limit that is no number", "MachineHealthCheck", &most, at);
    let kind = "MachineDrainRule";
    let change = json!({"spec": {"machines": [{"selector": in_without_values}]}});
    let at = "spec.machines[0].selector.matchExpressions[0].values";
    steps.wrong("a selector of Machines without values", kind, &change, at);
    let change = json!({"spec": {"pods": [{"namespaceSelector": {"matchLabels": {"a": "?"}}}]}});
    let at = "spec.pods[0].namespaceSelector.matchLabels[a]";
    steps.wrong("a selector of namespaces with a wrong value", kind, &change, at);
    let change = json!({"spec": {"clusterSelector": {"matchLabels": {"a/b/c": "d"}}}});
    let at = "spec.clusterSelector.matchLabels";
    steps.wrong("a selector of Clusters with a wrong key", "ClusterResourceSet", &change, at);
    let change = json!({"spec": {"namespaceSelector": {"matchLabels": {"a": "?"}}}});
    let at = "spec.namespaceSelector.matchLabels[a]";
    steps.wrong("an extension for wrong namespaces", "ExtensionConfig", &change, at);
    let create = Request::Create(object("IPAddressClaim", "claim"));
    steps.add("a claim", "IPAddressClaim", create, admitted([]));
    let change = json!({"spec": {"poolRef": {"name": "other"}}});
    let wrong = Request::Create(with("IPAddress", "wrong", &change));
    let expected = Expected::Rejected {
        code: 422,
        field: "spec.poolRef",
        says: "is invalid",
        upstream: Some("an error of its own, with status 403"),
    };
    steps.add("an address of another pool than its claim", "IPAddress", wrong, expected);
    let create = Request::Create(object("IPAddress", "plain"));
    steps.add("an address of the pool of its claim", "IPAddress", create, admitted([]));
}

fn changes(steps: &mut Steps) {
    for kind in ["Machine", "MachineHealthCheck"] {
        let change = Request::Change("plain", json!({"spec": {"clusterName": "other"}}));
        steps.add("the cluster is immutable", kind, change, rejected("spec.clusterName"));
    }
    let change = Request::Change("plain", json!({"spec": {"strategy": "Reconcile"}}));
    steps.add("the strategy is immutable", "ClusterResourceSet", change, rejected("spec.strategy"));
    let change = Request::Change("plain", json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}));
    let at = "spec.template.metadata.labels";
    steps.add("a selector loses its Machines", "MachineSet", change, rejected(at));
    let change = Request::Change("plain", json!({"spec": {"replicas": 4}}));
    steps.add("a valid change", "MachineDeployment", change, admitted([("/spec/replicas", json!(4))]));
    let change = Request::Change("plain", json!({"spec": {"replicas": null}}));
    let kept = admitted([("/spec/replicas", json!(4))]);
    steps.add("a number that is left out is kept", "MachineDeployment", change, kept);
    steps.only_ours();
    let kind = "MachineHealthCheck";
    steps.add("everyone may delete", kind, Request::Delete("plain"), admitted([]));
}

fn topologies(steps: &mut Steps) {
    let variable = |default: Value| {
        let schema = json!({"openAPIV3Schema": {"type": "integer", "default": default, "maximum": 9}});
        json!({"spec": {"variables": [{"name": "cpu", "required": true, "schema": schema}]}})
    };
    let class = "ClusterClass";
    let at = "spec.variables[cpu].schema.openAPIV3Schema.default";
    steps.wrong("a variable with a wrong default", class, &variable(json!("x")), at);
    let create = Request::Create(with(class, "standard", &variable(json!(3))));
    steps.add("a class", class, create, admitted([]));
    let group = |class: &str| json!({"workers": {"machineDeployments": [{"class": class, "name": "a"}]}});
    let change = json!({"spec": {"topology": group("large")}});
    let at = "spec.topology.workers.machineDeployments[0].class";
    steps.wrong("workers of an unknown class", "Cluster", &change, at);
    let change = json!({"spec": {"topology": {"controlPlane": {"metadata": {"labels": {"-": "a"}}}}}});
    steps.wrong("a wrong label", "Cluster", &change, "spec.topology.controlPlane.metadata.labels");
    let missing = json!({"spec": {"topology": {"classRef": {"name": "missing"}, "version": "1.36.0"}}});
    let create = Request::Create(with("Cluster", "early", &missing));
    let version = ("/spec/topology/version", json!("v1.36.0"));
    steps.add("a Cluster may come before its class", "Cluster", create, admitted([version]));
    let create = Request::Create(with("Cluster", "shop", &json!({"spec": {"topology": group("small")}})));
    steps.add("a Cluster of the class", "Cluster", create, admitted([]));
    let ready = json!({"type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let schema = json!({"openAPIV3Schema": {"type": "integer", "default": 3, "maximum": 9}});
    let definitions = json!([{"from": "inline", "required": true, "schema": schema}]);
    let status = json!({"status": {"observedGeneration": 1, "conditions": [ready], "variables": [
        {"name": "cpu", "definitionsConflict": false, "definitions": definitions},
    ]}});
    let reconciled = Request::Status("standard", status);
    steps.add("the class is reconciled", class, reconciled, admitted([]));
    steps.only_ours();
    let variables = ("/spec/topology/variables", json!([{"name": "cpu", "value": 3}]));
    let change = Request::Change("shop", json!({"metadata": {"labels": {"a": "b"}}}));
    steps.add("variables get their defaults", "Cluster", change, admitted([variables]));
    steps.only_ours();
    let many = json!({"spec": {"topology": {"variables": [{"name": "cpu", "value": 10}]}}});
    let change = Request::Change("shop", many);
    let at = "spec.topology.variables[cpu].value";
    steps.add("variables are validated", "Cluster", change, rejected(at));
    steps.only_ours();
    let change = Request::Change("shop", json!({"spec": {"topology": {"version": "v1.38.0"}}}));
    steps.add("no minor version is skipped", "Cluster", change, rejected("spec.topology.version"));
    let change = Request::Change("shop", json!({"spec": {"topology": {"version": "v1.35.0"}}}));
    steps.add("no version goes back", "Cluster", change, rejected("spec.topology.version"));
    let mut workers = object(class, "x")["spec"]["workers"].take();
    workers["machineDeployments"][0]["class"] = "other".into();
    let change = Request::Change("standard", json!({"spec": {"workers": workers}}));
    let at = "spec.workers.machineDeployments";
    steps.add("a class of workers is in use", class, change, rejected(at));
    let expected = Expected::Rejected { code: 403, field: "", says: "is used by Clusters", upstream: None };
    steps.add("a class that is in use stays", class, Request::Delete("standard"), expected);
    let create = Request::Create(object(class, "unused"));
    steps.add("another class", class, create, admitted([]));
    steps.add("a class that is not in use goes", class, Request::Delete("unused"), admitted([]));
}
