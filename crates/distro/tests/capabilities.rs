//! Plans for agents of different versions: an agent gets nothing that it does not understand.

#![cfg(test)]

#[path = "../../plan/tests/common/first_release.rs"]
mod first_release;

use capstan_api::bootstrap::{CapstanConfigSpec, DriftPolicy, PeriodicCommand};
use capstan_distro::{
    Endpoint, Fingerprint, Heal, Inputs, Maintenance, Network, Rendered, Role, SecretFiles, Software, render,
};
use capstan_plan::{
    AgentProgram, Capabilities, Capability, Digest, Epoch, MachineIdentity, MachinePlan, OnDrift, Revision,
    SealedPlan, SecretText,
};
use capstan_planner::windows::Schedule;
use std::collections::BTreeMap;

/// A configuration that asks for everything that came after the first release.
fn demanding() -> CapstanConfigSpec {
    let trim = PeriodicCommand {
        name: "trim".to_owned(),
        command: vec!["fstrim".to_owned(), "/".to_owned()],
        interval_seconds: None,
        timeout_seconds: Some(5),
    };
    CapstanConfigSpec {
        on_drift: Some(DriftPolicy::Report),
        periodic: vec![trim],
        ..CapstanConfigSpec::default()
    }
}

fn rendered(config: &CapstanConfigSpec, capabilities: &Capabilities) -> Rendered {
    rendered_with(config, capabilities, None)
}

fn rendered_with(
    config: &CapstanConfigSpec,
    capabilities: &Capabilities,
    agent: Option<&AgentProgram>,
) -> Rendered {
    rendered_within(&Maintenance::ANY_TIME, config, capabilities, agent)
}

fn rendered_within(
    maintenance: &Maintenance,
    config: &CapstanConfigSpec,
    capabilities: &Capabilities,
    agent: Option<&AgentProgram>,
) -> Rendered {
    let source = "https://plane.example/k3s".parse().unwrap();
    let software =
        Software { sha256: Digest::of(b"k3s"), size: 3, sources: vec![capstan_plan::Source::new(source)] };
    render(&Inputs {
        role: Role::Worker,
        others_serve: false,
        version: "v1.36.0+k3s1",
        node_name: "n",
        provider_id: "p",
        endpoint: &Endpoint { host: "h".to_owned(), port: 6443 },
        network: &Network::default(),
        token: &SecretText::new("t"),
        agent_token: None,
        ca: None,
        certificates: None,
        labels: &BTreeMap::new(),
        taints: &[],
        capabilities,
        agent,
        config,
        maintenance,
        secrets: &SecretFiles::new(),
        restart_after: None,
        heal: Heal::default(),
        software: &software,
        images: None,
        former: None,
        snapshot: None,
    })
    .unwrap()
}

fn bytes(rendered: &Rendered) -> Vec<u8> {
    let machine = MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "id".parse().unwrap() };
    let mut plan = MachinePlan::new(machine, Revision::FIRST, Epoch(1), jiff::Timestamp::UNIX_EPOCH);
    plan.steps.clone_from(&rendered.steps);
    plan.probes.clone_from(&rendered.probes);
    plan.periodic.clone_from(&rendered.periodic);
    plan.repair_windows.clone_from(&rendered.repair_windows);
    plan.host_windows.clone_from(&rendered.host_windows);
    plan.redact.clone_from(&rendered.redact);
    plan.agent.clone_from(&rendered.agent);
    plan.seal().unwrap().bytes().to_vec()
}

fn needed_by(rendered: &Rendered) -> Capabilities {
    Capabilities::needed_by(
        &rendered.steps,
        &rendered.probes,
        &rendered.periodic,
        &rendered.host_windows,
        rendered.agent.as_ref(),
    )
}

#[test]
fn an_agent_of_the_first_release_reads_every_plan_that_it_gets() {
    for config in [CapstanConfigSpec::default(), demanding()] {
        let plan = rendered(&config, &Capabilities::FIRST_RELEASE);
        assert!(needed_by(&plan).is_empty());
        assert_eq!(first_release::read(&bytes(&plan)), Ok(()));
    }
}

#[test]
fn what_an_agent_does_not_understand_is_left_out_and_told() {
    let (old, new) = (Capabilities::FIRST_RELEASE, Capabilities::all());
    let (without, with) = (rendered(&demanding(), &old), rendered(&demanding(), &new));
    let needed = Capabilities::from_iter([Capability::OnDrift, Capability::Targets, Capability::Periodic]);
    assert_eq!(without.left_out, ["spec.onDrift", "spec.periodic"]);
    assert!(without.periodic.is_empty());
    let [trim] = &with.periodic[..] else { panic!("{:?}", with.periodic) };
    assert!(trim.name.as_str().starts_with("periodic-trim-"));
    assert_eq!(
        (trim.argv.words(), trim.interval_seconds, trim.timeout_seconds),
        (&["fstrim".to_owned(), "/".to_owned()][..], 600, 5)
    );
    assert_eq!(without.steps, rendered(&CapstanConfigSpec::default(), &old).steps);
    assert_eq!((with.left_out.len(), needed_by(&with)), (0, needed));
    assert!(first_release::read(&bytes(&with)).is_err());
    assert!(SealedPlan::parse(&bytes(&with)).is_ok());
}

/// An upgrade of the agent does not restart k3s, and a plan that asks for nothing stays.
#[test]
fn an_upgraded_agent_gets_what_was_left_out_and_nothing_else() {
    let old = Capabilities::FIRST_RELEASE;
    for new in [Capability::OnDrift, Capability::Periodic] {
        gets_what_was_left_out(&old, &Capabilities::from_iter([new]));
    }
}

fn gets_what_was_left_out(old: &Capabilities, new: &Capabilities) {
    let plain = CapstanConfigSpec::default();
    assert_eq!(rendered(&plain, old), rendered(&plain, new));
    let (before, after) = (rendered(&demanding(), old).fingerprint, rendered(&demanding(), new).fingerprint);
    assert_ne!(before.whole, after.whole);
    assert_eq!((before.restart, before.drain), (after.restart, after.drain));
}

#[test]
fn another_program_of_the_agent_is_another_plan_and_restarts_nothing() {
    let (config, all) = (CapstanConfigSpec::default(), Capabilities::all());
    let program = |content: &str, at: &str| AgentProgram {
        sha256: Digest::of(content.as_bytes()),
        size: 5,
        sources: vec![capstan_plan::Source::new(at.parse().unwrap())],
    };
    let with = |program: &AgentProgram| rendered_with(&config, &all, Some(program));
    let none = rendered(&config, &all);
    let one = with(&program("one", "https://plane.example/one"));
    assert_eq!(one.steps, none.steps);
    assert_ne!(one.fingerprint.whole, none.fingerprint.whole);
    assert_eq!(
        (one.fingerprint.restart, one.fingerprint.drain),
        (none.fingerprint.restart, none.fingerprint.drain)
    );
    assert_ne!(with(&program("two", "https://plane.example/two")).fingerprint.whole, one.fingerprint.whole);
    assert_eq!(with(&program("one", "https://other.example/one")).fingerprint, one.fingerprint);
    assert!(first_release::read(&bytes(&one)).is_err());
    assert_eq!(needed_by(&one), [Capability::ReplaceAgent, Capability::Targets].into_iter().collect());
}

/// Every machine would get another plan for them otherwise.
#[test]
fn probes_that_only_later_agents_understand_are_no_input() {
    let plain = CapstanConfigSpec::default();
    let (old, new) = (Capabilities::FIRST_RELEASE, Capabilities::from_iter([Capability::Targets]));
    let (before, after) = (rendered(&plain, &old), rendered(&plain, &new));
    let names =
        |rendered: &Rendered| rendered.probes.iter().map(|probe| probe.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names(&before), names(&after)),
        (vec!["kubelet".to_owned()], vec!["kubelet".to_owned(), "unit".to_owned()])
    );
    assert_eq!(Rendered { probes: before.probes.clone(), ..after }, before);
}

fn within(windows: &[&str]) -> Maintenance {
    Maintenance { cluster: Schedule::read("field", windows.iter().copied()), ..Maintenance::ANY_TIME }
}

fn also_within(windows: &[&str], of_host: &[&str]) -> Maintenance {
    Maintenance { host: Schedule::read("Host h spec.windows", of_host.iter().copied()), ..within(windows) }
}

/// What an agent does about drift if it is to be repaired in windows. Where a part is not understood, drift is rather not
/// repaired than at any time.
#[test]
fn repair_in_windows_is_what_the_agent_understands_of_it() {
    let config =
        CapstanConfigSpec { on_drift: Some(DriftPolicy::RepairInWindow), ..CapstanConfigSpec::default() };
    let (night, many) = ("daily 01:00-05:00 Europe/Berlin", vec!["daily 01:00-05:00"; 33]);
    let [none, drift, windows] = [
        Capabilities::FIRST_RELEASE,
        Capabilities::from_iter([Capability::OnDrift]),
        Capabilities::from_iter([Capability::RepairWindows]),
    ];
    let both = Capabilities::from_iter([Capability::OnDrift, Capability::RepairWindows]);
    for (case, agent, maintenance, policy, texts, left_out) in [
        ("both", &both, within(&[night]), OnDrift::RepairInWindow, vec![night], false),
        ("windows", &windows, within(&[night]), OnDrift::RepairInWindow, vec![night], false),
        ("an agent that only reports", &drift, within(&[night]), OnDrift::Report, vec![], true),
        ("an agent of the first release", &none, within(&[night]), OnDrift::Repair, vec![], true),
        ("at any time", &both, within(&[]), OnDrift::Repair, vec![], false),
        ("at any time, and an old agent", &none, within(&[]), OnDrift::Repair, vec![], false),
        ("windows that cannot be read", &both, within(&["sometimes"]), OnDrift::Report, vec![], false),
        ("more windows than fit", &both, within(&many), OnDrift::Report, vec![], false),
    ] {
        let rendered = rendered_within(&maintenance, &config, agent, None);
        let step =
            |name: &str| rendered.steps.iter().find(|step| step.name.as_str() == name).unwrap().on_drift;
        assert_eq!((step("config"), step("start")), (policy, policy), "{case}");
        assert_eq!(step("script"), OnDrift::Repair, "{case}: a reset needs it");
        assert_eq!(rendered.repair_windows, texts, "{case}");
        assert_eq!(rendered.left_out, if left_out { vec!["spec.onDrift"] } else { vec![] }, "{case}");
        assert!(needed_by(&rendered).lacking_in(agent).is_empty(), "{case}");
        assert!(SealedPlan::parse(&bytes(&rendered)).is_ok(), "{case}");
        let plain = rendered_within(&maintenance, &CapstanConfigSpec::default(), agent, None);
        let same = |print: &Fingerprint| (print.restart, print.drain);
        assert_eq!(same(&rendered.fingerprint), same(&plain.fingerprint), "{case}: nothing is restarted");
        let is_plain = policy == OnDrift::Repair;
        assert_eq!(rendered.fingerprint.whole == plain.fingerprint.whole, is_plain, "{case}");
    }
}

/// Drift is repaired while the windows of the cluster and of the Host are open, or rather not at all.
#[test]
fn drift_waits_for_the_windows_of_the_host_too() {
    let config =
        CapstanConfigSpec { on_drift: Some(DriftPolicy::RepairInWindow), ..CapstanConfigSpec::default() };
    let (night, weekend) = ("daily 01:00-05:00", "Sat,Sun 03:00-09:00");
    let all = Capabilities::all();
    let without_hosts = Capabilities::all().without(Capability::HostWindows);
    let none: &[&str] = &[];
    for (case, agent, maintenance, policy, texts, of_host, left_out) in [
        (
            "both",
            &all,
            also_within(&[night], &[weekend]),
            OnDrift::RepairInWindow,
            &[night][..],
            &[weekend][..],
            false,
        ),
        (
            "only of the Host",
            &all,
            also_within(&[], &[weekend]),
            OnDrift::RepairInWindow,
            &[weekend],
            none,
            false,
        ),
        ("the same", &all, also_within(&[night], &[night]), OnDrift::RepairInWindow, &[night], none, false),
        ("not read", &all, also_within(&[night], &["sometimes"]), OnDrift::Report, none, none, false),
        (
            "an agent without",
            &without_hosts,
            also_within(&[night], &[weekend]),
            OnDrift::Report,
            none,
            none,
            true,
        ),
        (
            "an agent without, of one",
            &without_hosts,
            also_within(&[], &[weekend]),
            OnDrift::RepairInWindow,
            &[weekend],
            none,
            false,
        ),
    ] {
        let rendered = rendered_within(&maintenance, &config, agent, None);
        let start = rendered.steps.iter().find(|step| step.name.as_str() == "start").unwrap();
        assert_eq!(start.on_drift, policy, "{case}");
        assert_eq!(
            (&rendered.repair_windows[..], &rendered.host_windows[..]),
            (&owned(texts)[..], &owned(of_host)[..]),
            "{case}"
        );
        assert_eq!(rendered.left_out.is_empty(), !left_out, "{case}");
        assert!(needed_by(&rendered).lacking_in(agent).is_empty(), "{case}");
        assert!(SealedPlan::parse(&bytes(&rendered)).is_ok(), "{case}");
    }
    let whole =
        |of_host: &[&str]| rendered_within(&also_within(&[night], of_host), &config, &all, None).fingerprint;
    assert_ne!(whole(&[weekend]).whole, whole(&["Sat 03:00-09:00"]).whole);
    assert_eq!(whole(&[weekend]).restart, whole(&["Sat 03:00-09:00"]).restart);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Windows are an input only of machines that repair in them.
#[test]
fn other_windows_are_another_plan_where_drift_is_repaired_in_them() {
    let all = Capabilities::all();
    let whole = |policy: DriftPolicy, windows: &[&str]| {
        let config = CapstanConfigSpec { on_drift: Some(policy), ..CapstanConfigSpec::default() };
        rendered_within(&within(windows), &config, &all, None).fingerprint.whole
    };
    let (one, other) = (["daily 01:00-05:00"], ["daily 01:00-05:00", "Sat 06:00-08:00"]);
    for (policy, is_input) in
        [(DriftPolicy::Repair, false), (DriftPolicy::Report, false), (DriftPolicy::RepairInWindow, true)]
    {
        assert_eq!(whole(policy, &one) != whole(policy, &other), is_input, "{policy:?}");
        assert_eq!(whole(policy, &one), whole(policy, &one));
    }
}
