//! Plans and agents of different versions: what needs a capability, and that nothing else is refused by the first release.

#![cfg(test)]

#[path = "common/first_release.rs"]
mod first_release;

mod common;

use capstan_plan::{
    Action, AgentProgram, Argv, Capabilities, Capability, Check, ClientFiles, Digest, FileTarget,
    HttpsTarget, HttpsUrl, MachinePlan, OnDrift, OpenGates, Periodic, Probe, ProxyCredentials, SealedPlan,
    SecretText, Source, SourceProxy, SourceUrl, Step, Target,
};
use common::{name, path, plan, source};

/// A probe of each kind that the first release did not have, with all of its fields.
fn targets() -> Vec<Probe> {
    let client = ClientFiles { certificate: path("/etc/app/tls.crt"), key: path("/etc/app/tls.key") };
    let url = HttpsUrl::new("https://127.0.0.1:6443/readyz").unwrap();
    let https = HttpsTarget { url, ca: Some(path("/etc/app/ca.crt")), client: Some(client) };
    let file = FileTarget { path: path("/var/backups/last"), max_age_seconds: Some(86_400) };
    [
        ("https", Target::Https(https)),
        ("tcp", Target::Tcp("127.0.0.1:22".parse().unwrap())),
        ("file", Target::File(file)),
        ("unit", Target::Unit("k3s.service".parse().unwrap())),
    ]
    .map(|(text, target)| Probe::new(name(text), target))
    .into()
}

fn periodic() -> Periodic {
    let argv = Argv::new(["/usr/local/bin/trim"]).unwrap();
    Periodic { name: name("trim"), argv, interval_seconds: 86_400, timeout_seconds: 600 }
}

fn proxy() -> SourceProxy {
    let credentials = ProxyCredentials { username: "web-0".to_owned(), password: SecretText::new("hunter2") };
    SourceProxy { address: "proxy.example:3128".parse().unwrap(), credentials: Some(credentials) }
}

/// A plan that uses this capability and no other.
fn using(capability: Capability) -> MachinePlan {
    let mut plan = plan();
    match capability {
        Capability::OnDrift => plan.steps[1].on_drift = OnDrift::Report,
        Capability::ReplaceAgent => {
            let sources = vec![source("https://plane.example/agent")];
            plan.agent = Some(AgentProgram { sha256: Digest::of(b"agent"), size: 5, sources });
        }
        Capability::Targets => plan.probes.extend(targets()),
        Capability::Periodic => plan.periodic.push(periodic()),
        Capability::Proxy => {
            let artifacts = plan.steps.iter_mut().filter_map(|step| match &mut step.action {
                Action::Artifact(artifact) => Some(artifact),
                _ => None,
            });
            let sources = artifacts.flat_map(|artifact| &mut artifact.sources);
            let on_servers = sources.filter(|source| matches!(source.url, SourceUrl::Https(_)));
            on_servers.for_each(|source| source.proxy = Some(proxy()));
        }
        Capability::RepairWindows => {
            plan.steps[1].on_drift = OnDrift::RepairInWindow;
            plan.repair_windows.push("Sat,Sun 02:00-06:00 Europe/Berlin".to_owned());
        }
        Capability::HostWindows => plan.host_windows.push("daily 01:00-05:00 UTC".to_owned()),
        Capability::Cancel => panic!("it is no part of a plan"),
    }
    plan
}

fn needed_by(plan: &MachinePlan) -> Capabilities {
    Capabilities::needed_by(
        &plan.steps,
        &plan.probes,
        &plan.periodic,
        &plan.host_windows,
        plan.agent.as_ref(),
    )
}

fn bytes(plan: &MachinePlan) -> Vec<u8> {
    plan.clone().seal().unwrap().bytes().to_vec()
}

/// If this fails for a new field: give the field a capability, and use it in `using` instead of `common::plan`.
#[test]
fn a_plan_that_needs_no_capability_is_read_by_the_first_release() {
    assert!(needed_by(&plan()).is_empty());
    assert_eq!(first_release::read(&bytes(&plan())), Ok(()));
}

#[test]
fn the_first_release_refuses_what_needs_a_capability() {
    for capability in Capability::ALL.into_iter().filter(|capability| *capability != Capability::Cancel) {
        let plan = using(capability);
        let needed = needed_by(&plan);
        assert_eq!(needed, [capability].into_iter().collect(), "{capability}");
        assert!(first_release::read(&bytes(&plan)).is_err(), "{capability}");
        assert!(!needed.lacking_in(&Capabilities::FIRST_RELEASE).is_empty());
        assert!(needed.lacking_in(&Capabilities::all()).is_empty());
        // This version understands all of them.
        assert!(SealedPlan::parse(&bytes(&plan)).is_ok());
    }
}

#[test]
fn a_plan_of_the_first_release_is_read_by_this_version() {
    let text = include_str!("golden/first-release.json");
    assert!(SealedPlan::parse(text.trim_end().as_bytes()).is_ok());
}

#[test]
fn names_of_capabilities_stay() {
    assert_eq!(
        Capability::ALL.map(Capability::name),
        ["onDrift", "replaceAgent", "targets", "cancel", "periodic", "repairWindows", "proxy", "hostWindows"]
    );
    assert_eq!(
        Capabilities::all().to_string(),
        "onDrift, replaceAgent, targets, cancel, periodic, repairWindows, proxy, hostWindows"
    );
}

#[test]
fn each_target_needs_the_capability_in_a_probe_and_in_a_check() {
    let needed = Capabilities::from_iter([Capability::Targets]);
    for probe in targets() {
        let mut plan = plan();
        plan.probes = vec![probe.clone()];
        assert_eq!(needed_by(&plan), needed, "probe {}", probe.name);
        assert_eq!(SealedPlan::parse(&bytes(&plan)).unwrap().plan().probes, plan.probes);
        plan.probes.clear();
        plan.steps.push(Step::new(name("check"), Action::Check(Check { target: probe.target })));
        assert_eq!(needed_by(&plan), needed, "check {}", probe.name);
    }
}

/// The fields of the open gates that agents of the first release accept: they refuse any other.
#[test]
fn open_gates_have_another_field_only_if_a_plan_is_cancelled() {
    let id = plan().seal().unwrap().id();
    let fields = |gates: &OpenGates| {
        let bytes = gates.seal(&common::key()).to_secret_data()["gates"].clone();
        let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        document.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let gates = OpenGates::new(id, [name("drained")]);
    let first_release = ["apiVersion", "kind", "plan", "open"];
    assert_eq!(fields(&gates).len(), first_release.len());
    assert!(fields(&gates).iter().all(|field| first_release.contains(&field.as_str())));
    assert_eq!(fields(&gates.cancelling(id.revision())).len(), first_release.len() + 1);
}

#[test]
fn the_password_of_a_proxy_is_a_secret_of_the_plan() {
    let mut plan = using(Capability::Proxy);
    assert!(plan.secrets().contains(&&b"hunter2"[..]));
    assert!(!format!("{plan:?}").contains("hunter2"));
    plan.steps.clear();
    assert!(!plan.secrets().contains(&&b"hunter2"[..]));
    let sources = vec![Source { proxy: Some(proxy()), ..source("https://plane.example/agent") }];
    plan.agent = Some(AgentProgram { sha256: Digest::of(b"agent"), size: 5, sources });
    assert!(plan.secrets().contains(&&b"hunter2"[..]));
}
