//! `spec.probes`: each kind of target as the plan has it, what is refused, and what agents of different versions get.

#![cfg(test)]

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_distro::cost::{Setup, classify};
use capstan_distro::{
    Cost, Endpoint, Heal, InputError, Inputs, Maintenance, Network, Rendered, Role, SecretFiles, Software,
    check, render,
};
use capstan_plan::{
    Capabilities, Capability, Digest, Epoch, MachineIdentity, MachinePlan, Probe, Revision, SealedPlan,
    SecretText,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn config(probes: &Value) -> CapstanConfigSpec {
    serde_json::from_value(json!({ "probes": probes })).unwrap()
}

fn rendered(config: &CapstanConfigSpec, capabilities: &Capabilities) -> Result<Rendered, InputError> {
    let source = "https://plane.example/k3s".parse().unwrap();
    let sources = vec![capstan_plan::Source::new(source)];
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
        agent: None,
        config,
        maintenance: &Maintenance::ANY_TIME,
        secrets: &SecretFiles::new(),
        restart_after: None,
        heal: Heal::default(),
        software: &Software { sha256: Digest::of(b"k3s"), size: 3, sources },
        images: None,
        former: None,
        snapshot: None,
    })
}

/// The plan as an agent gets it.
fn bytes(rendered: &Rendered) -> Vec<u8> {
    let machine = MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "id".parse().unwrap() };
    let mut plan = MachinePlan::new(machine, Revision::FIRST, Epoch(1), jiff::Timestamp::UNIX_EPOCH);
    plan.steps.clone_from(&rendered.steps);
    plan.probes.clone_from(&rendered.probes);
    plan.seal().unwrap().bytes().to_vec()
}

/// The probes of the plan that are the user's.
fn of_user(rendered: &Rendered) -> Vec<&Probe> {
    rendered.probes.iter().filter(|probe| probe.name.as_str().starts_with("probe-")).collect()
}

fn all_kinds() -> Value {
    json!([
        {"name": "disk", "exec": {"command": ["/usr/sbin/smartctl", "--health", "/dev/sda"]}},
        {"name": "cache", "http": {"url": "http://127.0.0.1:3128/"}, "intervalSeconds": 30, "timeoutSeconds": 2,
            "successThreshold": 2, "failureThreshold": 5},
        {"name": "etcd", "https": {"url": "https://127.0.0.1:2379/health", "ca": "/etc/etcd/ca.crt",
            "client": {"certificate": "/etc/etcd/client.crt", "key": "/etc/etcd/client.key"}}},
        {"name": "plain-tls", "https": {"url": "https://mirror.example/"}},
        {"name": "ssh", "tcp": {"address": "[::1]:22"}},
        {"name": "backup", "file": {"path": "/var/backups/last", "maxAgeSeconds": 86_400}},
        {"name": "time", "unit": {"name": "chrony.service"}},
    ])
}

#[test]
fn every_kind_of_probe_is_in_the_plan_as_the_user_wrote_it() {
    let rendered = rendered(&config(&all_kinds()), &Capabilities::all()).unwrap();
    let probe = |name: &str, target: Value, interval: u32| {
        json!({"name": name, "target": target, "intervalSeconds": interval, "timeoutSeconds": 5,
            "successThreshold": 1, "failureThreshold": 3})
    };
    let cache = json!({"name": "probe-cache", "target": {"http": "http://127.0.0.1:3128/"}, "intervalSeconds": 30,
        "timeoutSeconds": 2, "successThreshold": 2, "failureThreshold": 5});
    let tls = json!({"url": "https://127.0.0.1:2379/health", "ca": "/etc/etcd/ca.crt",
        "client": {"certificate": "/etc/etcd/client.crt", "key": "/etc/etcd/client.key"}});
    assert_eq!(
        json!(of_user(&rendered)),
        json!([
            probe("probe-disk", json!({"exec": ["/usr/sbin/smartctl", "--health", "/dev/sda"]}), 60),
            cache,
            probe("probe-etcd", json!({ "https": tls }), 10),
            probe("probe-plain-tls", json!({"https": {"url": "https://mirror.example/"}}), 10),
            probe("probe-ssh", json!({"tcp": "[::1]:22"}), 10),
            probe(
                "probe-backup",
                json!({"file": {"path": "/var/backups/last", "maxAgeSeconds": 86_400}}),
                10
            ),
            probe("probe-time", json!({"unit": "chrony.service"}), 60),
        ])
    );
    assert!(SealedPlan::parse(&bytes(&rendered)).is_ok());
    assert!(rendered.left_out.is_empty());
}

/// The most that the API allows fits beside those of Capstan.
#[test]
fn a_full_list_is_a_valid_plan() {
    let probes: Vec<Value> = (0..24)
        .map(|number| json!({"name": format!("p{number}"), "tcp": {"address": "127.0.0.1:1"}}))
        .collect();
    let rendered = rendered(&config(&json!(probes)), &Capabilities::all()).unwrap();
    assert_eq!(of_user(&rendered).len(), 24);
    assert!(SealedPlan::parse(&bytes(&rendered)).is_ok());
}

#[test]
fn a_probe_that_cannot_be_run_is_refused_with_its_field_and_the_remedy() {
    for (probe, field, remedy) in [
        (json!({"name": "a"}), "spec.probes[a]", "set exactly one of exec, http, https, tcp, file and unit"),
        (
            json!({"name": "a", "http": {"url": "http://h/"}, "tcp": {"address": "h:1"}}),
            "spec.probes[a]",
            "set exactly one of exec, http, https, tcp, file and unit",
        ),
        (json!({"name": "A", "tcp": {"address": "h:1"}}), "spec.probes[A].name", "a DNS label"),
        (json!({"name": "a", "exec": {"command": []}}), "spec.probes[a].exec.command", "number of words"),
        (
            json!({"name": "a", "http": {"url": "https://h/"}}),
            "spec.probes[a].http.url",
            "http://host[:port]/path",
        ),
        (
            json!({"name": "a", "https": {"url": "http://h/"}}),
            "spec.probes[a].https.url",
            "https://host[:port]/path",
        ),
        (
            json!({"name": "a", "https": {"url": "https://h/", "ca": "ca.crt"}}),
            "spec.probes[a].https.ca",
            "absolute",
        ),
        (
            json!({"name": "a", "https": {"url": "https://h/", "client": {"certificate": "/a", "key": "/../b"}}}),
            "spec.probes[a].https.client.key",
            "absolute and plain",
        ),
        (json!({"name": "a", "tcp": {"address": "h"}}), "spec.probes[a].tcp.address", "host:port"),
        (json!({"name": "a", "file": {"path": "/a/"}}), "spec.probes[a].file.path", "absolute and plain"),
        (json!({"name": "a", "unit": {"name": "a@.service"}}), "spec.probes[a].unit.name", "no template"),
    ] {
        let config = config(&json!([probe]));
        let error = check(&config, Role::Worker).expect_err(&probe.to_string());
        assert_eq!(error.field, field, "{probe}");
        assert!(error.message.contains(remedy), "{error}");
        // Also for an agent that would not get it.
        assert_eq!(rendered(&config, &Capabilities::FIRST_RELEASE).expect_err("refused"), error);
    }
}

#[test]
fn an_agent_gets_the_probes_that_it_knows() {
    let (config, old) = (config(&all_kinds()), Capabilities::FIRST_RELEASE);
    let new = Capabilities::from_iter([Capability::Targets]);
    let (without, with) = (rendered(&config, &old).unwrap(), rendered(&config, &new).unwrap());
    let names = |rendered: &Rendered| {
        of_user(rendered).iter().map(|probe| probe.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&without), ["probe-disk", "probe-cache"]);
    assert_eq!(without.left_out, ["spec.probes (https, tcp, file and unit)"]);
    let needed =
        |rendered: &Rendered| Capabilities::needed_by(&rendered.steps, &rendered.probes, &[], &[], None);
    assert!(needed(&without).is_empty());
    assert_eq!((names(&with).len(), with.left_out.len(), needed(&with)), (7, 0, new));
    // The agent that takes its place gets another plan, and k3s is not restarted.
    assert_ne!(without.fingerprint.whole, with.fingerprint.whole);
    assert_eq!(
        (without.fingerprint.restart, without.fingerprint.drain),
        (with.fingerprint.restart, with.fingerprint.drain)
    );
}

#[test]
fn a_change_of_a_probe_is_another_plan_and_restarts_nothing() {
    let all = Capabilities::all();
    let of = |probes: &Value| rendered(&config(probes), &all).unwrap().fingerprint;
    let first = json!([{"name": "a", "tcp": {"address": "h:1"}}]);
    let others = [
        json!([]),
        json!([{"name": "b", "tcp": {"address": "h:1"}}]),
        json!([{"name": "a", "tcp": {"address": "h:2"}}]),
        json!([{"name": "a", "tcp": {"address": "h:1"}, "intervalSeconds": 11}]),
    ];
    for other in &others {
        let (one, other_print) = (of(&first), of(other));
        assert_ne!(one.whole, other_print.whole, "{other}");
        assert_eq!((one.restart, one.drain), (other_print.restart, other_print.drain), "{other}");
        let (before, after) = (config(&first), config(other));
        let setup = |config| Setup { version: "v1.36.0", config };
        let changes = classify(setup(&before), setup(&after));
        assert!(!changes.is_empty() && changes.iter().all(|change| change.cost == Cost::Live), "{changes:?}");
    }
    // A default that is written down is no change.
    assert_eq!(of(&first), of(&json!([{"name": "a", "tcp": {"address": "h:1"}, "timeoutSeconds": 5}])));
}
