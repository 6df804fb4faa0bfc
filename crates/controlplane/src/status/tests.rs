//! What a control plane says of itself, situation by situation.

use super::*;
use capstan_controller::Knowledge;
use capstan_distro::{Change, Cost};
use capstan_planner::facts::Progress;
use capstan_planner::facts::fixtures::members;
use serde_json::json;

fn object(replicas: i32) -> CapstanControlPlane {
    serde_json::from_value(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
        "metadata": {"name": "cp", "namespace": "default", "generation": 3},
        "spec": {"version": "v1.36.0+k3s1", "replicas": replicas, "machineTemplate": {"spec": {"infrastructureRef":
            {"kind": "HostMachineTemplate", "name": "t", "apiGroup": "infrastructure.cluster.x-k8s.io"}}}},
    }))
    .expect("a control plane")
}

fn machine(name: &str, status: &str) -> Machine {
    let condition = |type_: &str| {
        json!({"type": type_, "status": status, "reason": "Because", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name},
        "spec": {"clusterName": "c", "bootstrap": {},
            "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}},
        "status": {"conditions": [condition("Ready"), condition("Available"), condition("UpToDate")]},
    }))
    .expect("a Machine")
}

/// Three machines, and all is well.
fn seen() -> Seen<'static> {
    let names = ["a", "b", "c"];
    Seen {
        cluster: "c",
        initialized: true,
        api_responds: true,
        certificates: None,
        machines: names.map(|name| machine(name, "True")).to_vec(),
        facts: names.map(|name| MachineFacts::server(name).up()).to_vec(),
        step: MachineStep::Nothing,
        plans: BTreeMap::new(),
        etcd: EtcdView::Known(members("a+ b+ c+")),
        held: BTreeMap::new(),
        deleting: None,
        plan_key: None,
        agents: None,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn computed(wanted: i32, change: impl FnOnce(&mut Seen<'static>)) -> CapstanControlPlane {
    let (mut object, mut seen) = (object(wanted), seen());
    change(&mut seen);
    compute(&mut object, &seen);
    object
}

fn says(object: &CapstanControlPlane, type_: &str) -> (ConditionStatus, String, String) {
    let found = capstan_api::conditions::get(object, type_).expect("the condition");
    (found.status, found.reason.clone(), found.message.clone())
}

#[test]
fn all_is_well() {
    let object = computed(3, |_| ());
    for type_ in [
        "Available",
        "Initialized",
        "CertificatesAvailable",
        "EtcdClusterHealthy",
        "MachinesReady",
        "MachinesUpToDate",
    ] {
        assert_eq!(says(&object, type_).0, ConditionStatus::True, "{type_}");
    }
    for type_ in ["RollingOut", "ScalingUp", "ScalingDown", "Deleting"] {
        assert_eq!(says(&object, type_).0, ConditionStatus::False, "{type_}");
    }
    let status = object.status.expect("a status");
    let counts =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    assert_eq!(counts, [Some(3); 4]);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.versions, [StatusVersion { version: "v1.36.0+k3s1".to_owned(), replicas: Some(3) }]);
    assert_eq!(
        status.selector.as_deref(),
        Some(
            "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/control-plane=,cluster.x-k8s.io/control-plane-name=cp"
        )
    );
}

#[test]
fn each_problem_makes_it_unavailable_and_is_named() {
    for (object, line) in [
        (computed(3, |seen| seen.initialized = false), "* Control plane not yet initialized"),
        (
            computed(3, |seen| seen.certificates = Some("gone".to_owned())),
            "* Control plane certificates are not available",
        ),
        (computed(3, |seen| seen.api_responds = false), "* The API server does not answer"),
        (computed(3, |seen| seen.facts.clear()), "* There are no control plane machines with a Node"),
    ] {
        let (status, reason, message) = says(&object, "Available");
        assert_eq!(
            (status, reason.as_str(), message.as_str()),
            (ConditionStatus::False, "NotAvailable", line)
        );
    }
}

#[test]
fn initialized_stays() {
    let mut object = computed(3, |_| ());
    let mut later = seen();
    later.api_responds = false;
    compute(&mut object, &later);
    let initialization = object.status.and_then(|status| status.initialization);
    assert_eq!(initialization.and_then(|status| status.control_plane_initialized), Some(true));
}

#[test]
fn scaling_says_from_where_to_where_and_what_it_waits_for() {
    let object = computed(5, |seen| seen.step = MachineStep::Wait("waits for Machine c to be up".to_owned()));
    let (status, _, message) = says(&object, "ScalingUp");
    assert_eq!(status, ConditionStatus::True);
    assert_eq!(message, "Scaling up from 3 to 5 replicas\n* waits for Machine c to be up");
    assert_eq!(says(&computed(1, |_| ()), "ScalingDown").2, "Scaling down from 3 to 1 replicas");
    let ending = NewCondition::new("Deleting", ConditionStatus::True, "WaitingForMachineDeletion");
    let object = computed(3, |seen| seen.deleting = Some(ending));
    assert_eq!(says(&object, "ScalingDown").2, "Scaling down from 3 to 0 replicas");
    assert_eq!(says(&object, "Deleting").0, ConditionStatus::True);
}

#[test]
fn a_manager_that_has_just_started_rolls_nothing_out() {
    let object = computed(3, |seen| {
        for machine in &mut seen.facts {
            machine.node = Knowledge::unknown("no answer yet");
        }
    });
    assert_eq!(says(&object, "RollingOut").1, "NotRollingOut");
}

#[test]
fn rolling_out_counts_what_is_on_its_way() {
    let change = Change::new("spec.version", Cost::Restart, "another");
    let object = computed(3, |seen| {
        seen.facts[0].changes = vec![change];
        let busy = seen.facts[1].clone().says(Progress::InFlight);
        seen.facts[1] = busy;
    });
    let (status, _, message) = says(&object, "RollingOut");
    assert_eq!((status, message.as_str()), (ConditionStatus::True, "Rolling out 2 not up-to-date replicas"));
}

#[test]
fn what_is_refused_is_named_and_does_not_roll_out() {
    let change = Change::new("spec.version", Cost::Refused, "cannot be");
    let object = computed(3, |seen| {
        seen.facts[0].changes = vec![change.clone()];
        seen.step = MachineStep::Refuse(vec![change]);
    });
    let (status, reason, message) = says(&object, "RollingOut");
    assert_eq!((status, reason.as_str()), (ConditionStatus::False, "Refused"));
    assert!(message.ends_with("\n* spec.version: cannot be"), "{message}");
    // Of a worker's config the control plane does not speak.
    let refused =
        || Outcome::Refused { field: "CapstanConfig x spec.distro".to_owned(), message: "no".to_owned() };
    let object = computed(3, |seen| _ = seen.plans.insert("b".to_owned(), refused()));
    assert_eq!(says(&object, "RollingOut").2, "* CapstanConfig x spec.distro: no");
    let object = computed(3, |seen| _ = seen.plans.insert("worker".to_owned(), refused()));
    assert_eq!(says(&object, "RollingOut").1, "NotRollingOut");
}

#[test]
fn versions_are_listed_oldest_first() {
    let object = computed(3, |seen| {
        seen.facts[0].kubelet_version = Some("v1.36.10+k3s1".to_owned());
        seen.facts[1].kubelet_version = Some("v1.36.9+k3s1".to_owned());
        seen.facts[2].kubelet_version = None;
    });
    let versions: Vec<String> =
        object.status.expect("a status").versions.into_iter().map(|version| version.version).collect();
    assert_eq!(versions, ["v1.36.9+k3s1", "v1.36.10+k3s1"]);
}

#[test]
fn what_etcd_and_plans_wait_for_is_reported() {
    let object = computed(3, |seen| seen.etcd = EtcdView::Known(members("a+ b- c+")));
    let (status, _, message) = says(&object, "EtcdClusterHealthy");
    assert_eq!(
        (status, message.as_str()),
        (ConditionStatus::False, "* etcd member b-00000002 is not healthy")
    );
    let object = computed(3, |seen| seen.etcd = EtcdView::Unknown("no way there".to_owned()));
    assert_eq!(says(&object, "EtcdClusterHealthy").0, ConditionStatus::Unknown);
    let object = computed(1, |seen| _ = seen.held.insert("c".to_owned(), "it is needed".to_owned()));
    let message = says(&object, "ScalingDown").2;
    assert_eq!(message, "Scaling down from 3 to 1 replicas\n* Machine c cannot leave etcd: it is needed");
    let object = computed(3, |seen| {
        let failed =
            seen.facts[1].clone().says(Progress::Failed("step ready: no\n  | last words".to_owned()));
        seen.facts[1] = failed;
        let again = Timestamp::from_second(60).ok();
        let why = "step ready: no\n  | last words".to_owned();
        seen.plans.insert("b".to_owned(), Outcome::Failed { revision: 4, why, attempts: 2, again });
    });
    assert_eq!(
        says(&object, "RollingOut").2,
        "Rolling out 1 not up-to-date replicas\n* Machine b: Revision 4 has failed (tried 2 times, again at \
         1970-01-01T00:01:00Z): step ready: no\n  | last words"
    );
}

#[test]
fn the_roll_out_of_agents_is_reported_while_there_is_one() {
    let mut object = computed(3, |seen| seen.agents = Some(AgentUpgrades::Done));
    let mut next = |agents: Option<AgentUpgrades>| {
        let later = Seen { agents, ..seen() };
        compute(&mut object, &later);
        let found = capstan_api::conditions::get(&object, "AgentsUpgraded");
        found.map(|found| (found.status, found.reason.clone()))
    };
    let stopped = AgentUpgrades::Stopped { rejected: vec!["a".to_owned()], silent: Vec::new() };
    let said = |status, reason: &str| Some((status, reason.to_owned()));
    let stays = said(ConditionStatus::False, "AgentRolloutStopped");
    for (agents, expected) in [
        (Some(AgentUpgrades::Done), None),
        (Some(AgentUpgrades::Underway), said(ConditionStatus::False, "UpgradingAgents")),
        (Some(stopped), stays.clone()),
        // A reconcile that did not get so far says nothing.
        (None, stays),
        (Some(AgentUpgrades::Done), said(ConditionStatus::True, "Upgraded")),
        (Some(AgentUpgrades::NotOffered), None),
    ] {
        assert_eq!(next(agents), expected);
    }
}
