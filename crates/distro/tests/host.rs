//! The configuration of machines on Hosts: precedence, origins, what may not differ from machine to machine, and the cost of
//! changes.

#![cfg(test)]

use std::collections::BTreeMap;

use capstan_api::bootstrap::{CapstanConfigSpec, File, HostConfig, HostConfigEntry, HostTaint, Setting};
use capstan_api::core::TaintEffect;
use capstan_distro::cost::Setup;
use capstan_distro::{
    Cost, Endpoint, Heal, HostFacts, Inputs, Maintenance, MergedConfig, Network, Origin, Rendered, Role,
    SecretFiles, Software, check, classify_on, merge, render,
};
use capstan_plan::{Capabilities, Digest, SecretText};
use proptest::prelude::*;
use serde_json::{Value, json};

fn config(value: Value) -> CapstanConfigSpec {
    serde_json::from_value(value).unwrap()
}

fn overlay(value: Value) -> HostConfig {
    serde_json::from_value(value).unwrap()
}

/// Host `h` in rack `a`.
fn host(config: Value) -> HostFacts {
    HostFacts {
        name: "h".to_owned(),
        labels: BTreeMap::from([("rack".to_owned(), "a".to_owned())]),
        config: overlay(config),
        windows: Vec::new(),
    }
}

fn entry(name: &str, rack: &str, config: &Value) -> Value {
    json!({"name": name, "selector": {"matchLabels": {"rack": rack}}, "config": config})
}

fn settings(value: &Value) -> Value {
    json!({"settings": value})
}

fn rendered(config: &CapstanConfigSpec) -> Rendered {
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
        capabilities: &Capabilities::all(),
        agent: None,
        config,
        maintenance: &Maintenance::ANY_TIME,
        secrets: &SecretFiles::new(),
        restart_after: None,
        heal: Heal::default(),
        software: &Software { sha256: Digest::of(b"k3s"), size: 3, sources: Vec::new() },
        images: None,
        former: None,
        snapshot: None,
    })
    .unwrap()
}

#[test]
fn a_host_goes_before_entries_and_entries_before_the_configuration() {
    let three = json!({
        "settings": {"node-ip": "0", "flannel-iface": "0", "debug": true, "kubelet-arg": ["max-pods=0", "v=0"]},
        "hostConfig": [
            entry("first", "a", &settings(&json!({"node-ip": "1", "flannel-iface": "1"}))),
            entry("other", "b", &settings(&json!({"node-ip": "other"}))),
            entry("second", "a", &settings(&json!({"node-ip": "2", "kubelet-arg": "max-pods=2"}))),
        ],
    });
    let (three, entry) = (config(three), |name: &str| Origin::Entry(name.to_owned()));
    let of_host = || Origin::Host("h".to_owned());
    for (host, field, value, origins) in [
        (None, "node-ip", json!("0"), vec![]),
        (Some(host(json!({}))), "node-ip", json!("2"), vec![entry("second")]),
        (Some(host(settings(&json!({"node-ip": "3"})))), "node-ip", json!("3"), vec![of_host()]),
        (Some(host(json!({}))), "flannel-iface", json!("1"), vec![entry("first")]),
        (Some(host(json!({}))), "debug", json!(true), vec![]),
        (Some(host(json!({}))), "kubelet-arg", json!(["v=0", "max-pods=2"]), vec![entry("second")]),
        (
            Some(host(settings(&json!({"kubelet-arg": ["v=3"]})))),
            "kubelet-arg",
            json!(["max-pods=2", "v=3"]),
            vec![entry("second"), of_host()],
        ),
    ] {
        let merged = merge(&three, host.as_ref()).unwrap();
        assert_eq!(merged.config.settings[field].0, value, "{field} {host:?}");
        let found: Vec<Origin> =
            merged.origins(&format!("spec.settings.{field}")).into_iter().cloned().collect();
        assert_eq!(found, origins, "{field} {host:?}");
        assert!(merged.config.host_config.is_empty());
    }
}

#[test]
fn origins_are_told_in_the_words_of_the_objects() {
    let base = config(json!({
        "settings": {"kubelet-arg": ["v=2"], "tls-san": ["a"]},
        "hostConfig": [entry("disks", "a", &settings(&json!({"kubelet-arg": ["max-pods=9"]})))],
    }));
    let own = json!({"settings": {"node-ip": "10.0.0.2", "tls-san": ["a", "b"]},
        "files": [{"path": "/etc/motd", "content": "x"}]});
    let merged = merge(&base, Some(&host(own))).unwrap();
    for (field, origin) in [
        ("spec.settings.node-ip", Some("Host h spec.config")),
        ("spec.files[/etc/motd].content", Some("Host h spec.config")),
        ("spec.settings.kubelet-arg", Some("the CapstanConfig and spec.hostConfig[disks]")),
        ("spec.settings.tls-san", Some("the CapstanConfig and Host h spec.config")),
        ("spec.settings.debug", None),
        ("spec.version", None),
    ] {
        assert_eq!(merged.origin(field).as_deref(), origin, "{field}");
    }
    assert_eq!(merged.config.settings["tls-san"].0, json!(["a", "b"]));
}

#[test]
fn files_labels_and_taints_are_replaced_one_by_one() {
    let base = config(json!({
        "files": [{"path": "/etc/a", "content": "0"}, {"path": "/etc/b", "content": "0"}],
        "hostConfig": [entry("rack", "a", &json!({
            "labels": {"x": "1", "y": "1"},
            "taints": [{"key": "k", "value": "1", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}],
        }))],
    }));
    let own = json!({
        "files": [{"path": "/etc/c", "content": "2"}, {"path": "/etc/a", "content": "2"}],
        "labels": {"y": "2"}, "taints": [{"key": "k", "value": "2", "effect": "NoSchedule"}],
    });
    let merged = merge(&base, Some(&host(own))).unwrap();
    let content = |file: &File| (file.path.clone(), file.content.clone().unwrap());
    let files: Vec<(String, String)> = merged.config.files.iter().map(content).collect();
    let expected = [("/etc/a", "2"), ("/etc/b", "0"), ("/etc/c", "2")];
    assert_eq!(files, expected.map(|(path, content)| (path.to_owned(), content.to_owned())));
    assert_eq!(json!(merged.labels), json!({"x": "1", "y": "2"}));
    let taint = |value: Option<&str>, effect| HostTaint {
        key: "k".to_owned(),
        value: value.map(str::to_owned),
        effect,
    };
    assert_eq!(
        merged.taints,
        [taint(Some("2"), TaintEffect::NoSchedule), taint(None, TaintEffect::NoExecute)]
    );
}

#[test]
fn what_cannot_differ_from_machine_to_machine_is_refused_with_its_field() {
    for (overlay, field, remedy) in [
        (settings(&json!({"data-dir": "/srv"})), "settings.data-dir", "take it out"),
        (settings(&json!({"server": "x"})), "settings.server", "take it out"),
        (settings(&json!({"kubelet-arg": ["provider-id=x"]})), "settings.kubelet-arg", "take it out"),
        (settings(&json!({"kubelet-arg+": ["v=2"]})), "settings.kubelet-arg+", "take the + out"),
        (
            settings(&json!({"default-local-storage-path": "/srv"})),
            "settings.default-local-storage-path",
            "set it in",
        ),
        (settings(&json!({"disable": ["traefik"]})), "settings.disable", "set it in spec.settings"),
        (settings(&json!({"of-the-future": 1})), "settings.of-the-future", "set it in spec.settings"),
        (settings(&json!({"node-label": ["a=b"]})), "settings.node-label", "use labels"),
        (settings(&json!({"node-taint": ["a=b:NoSchedule"]})), "settings.node-taint", "use taints"),
        (json!({"labels": {"kubernetes.io/hostname": "x"}}), "labels.kubernetes.io/hostname", "take it out"),
        (json!({"labels": {"a b": "x"}}), "labels.a b", "example.com/rack"),
        (json!({"labels": {"a": "x y"}}), "labels.a", "at most 63"),
        (
            json!({"taints": [{"key": "a/b/c", "effect": "NoSchedule"}]}),
            "taints[a/b/c:NoSchedule]",
            "example.com",
        ),
    ] {
        let error = merge(&config(json!({})), Some(&host(overlay.clone()))).unwrap_err();
        assert_eq!(error.place(), format!("Host h spec.config.{field}"));
        assert!(error.message.contains(remedy), "{error}");
        let with = config(json!({"hostConfig": [entry("x", "nowhere", &overlay)]}));
        assert!(merge(&with, Some(&host(json!({})))).is_ok(), "the entry selects another Host");
        let error = check(&with, Role::Worker).unwrap_err();
        assert_eq!(error.place(), format!("spec.hostConfig[x].config.{field}"));
    }
}

#[test]
fn an_error_of_rendering_names_the_layer() {
    let of_server = settings(&json!({"advertise-address": "10.0.0.2"}));
    let with = config(json!({"hostConfig": [entry("x", "a", &of_server)]}));
    assert!(check(&with, Role::Server).is_ok());
    let error = check(&with, Role::Worker).unwrap_err();
    assert_eq!(error.place(), "spec.hostConfig[x].config.settings.advertise-address");
    let file = json!({"files": [{"path": "/etc/rancher/k3s/config.yaml", "content": ""}]});
    let error = check(&config(json!({"hostConfig": [entry("x", "a", &file)]})), Role::Worker).unwrap_err();
    assert_eq!(error.place(), "spec.hostConfig[x].config.files[/etc/rancher/k3s/config.yaml].path");
    let unknown = json!({"name": "x", "config": {"labels": {"a": "b"}},
        "selector": {"matchExpressions": [{"key": "rack", "operator": "Like"}]}});
    let error = check(&config(json!({"hostConfig": [unknown]})), Role::Worker).unwrap_err();
    assert_eq!(error.place(), "spec.hostConfig[x].selector.matchExpressions[rack].operator");
}

fn setup(config: &CapstanConfigSpec) -> Setup<'_> {
    Setup { version: "v1.36.0", config }
}

#[test]
fn a_change_costs_what_it_does_to_the_machine_on_the_host() {
    let ip = |value: &str| settings(&json!({"node-ip": value}));
    let with = |rack: &str, overlay: Value| config(json!({"hostConfig": [entry("e", rack, &overlay)]}));
    let plain = config(json!({}));
    for (what, old, new, expected) in [
        (
            "a setting of the Host",
            (plain.clone(), host(ip("1"))),
            (plain.clone(), host(ip("2"))),
            vec![("spec.settings.node-ip", Cost::DrainAndRestart, Some("Host h spec.config"))],
        ),
        (
            "an entry for it",
            (plain.clone(), host(json!({}))),
            (with("a", ip("1")), host(json!({}))),
            vec![("spec.settings.node-ip", Cost::DrainAndRestart, Some("spec.hostConfig[e]"))],
        ),
        (
            "an entry for others",
            (plain.clone(), host(json!({}))),
            (with("b", ip("1")), host(json!({}))),
            vec![("spec.hostConfig[e]", Cost::Nothing, None)],
        ),
        (
            "a setting that the Host has another value for",
            (plain.clone(), host(ip("1"))),
            (config(ip("2")), host(ip("1"))),
            vec![("spec.settings.node-ip", Cost::Nothing, None)],
        ),
        (
            "the Host has its own value no more",
            (config(ip("2")), host(ip("1"))),
            (config(ip("2")), host(json!({}))),
            vec![("spec.settings.node-ip", Cost::DrainAndRestart, None)],
        ),
        (
            "labels and taints",
            (plain.clone(), host(json!({"labels": {"a": "1"}}))),
            (
                plain.clone(),
                host(json!({"labels": {"b": "1"}, "taints": [{"key": "k", "effect": "NoExecute"}]})),
            ),
            vec![
                ("labels.a", Cost::Live, None),
                ("labels.b", Cost::Live, Some("Host h spec.config")),
                ("taints[k:NoExecute]", Cost::Live, Some("Host h spec.config")),
            ],
        ),
        ("nothing", (plain.clone(), host(ip("1"))), (plain.clone(), host(ip("1"))), vec![]),
    ] {
        let found = classify_on((setup(&old.0), Some(&old.1)), (setup(&new.0), Some(&new.1))).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|change| (change.field.as_str(), change.cost, change.origin.as_deref()))
            .collect();
        assert_eq!(found, expected, "{what}");
    }
    let wrong = classify_on(
        (setup(&plain), Some(&host(json!({})))),
        (setup(&plain), Some(&host(settings(&json!({"data-dir": "/srv"}))))),
    );
    assert_eq!(wrong.unwrap_err().place(), "Host h spec.config.settings.data-dir");
}

fn any_overlay() -> impl Strategy<Value = HostConfig> {
    let list = || prop::collection::vec(prop::sample::select(vec!["a=1", "a=2", "b=1", "a+=3", "c"]), 0..3);
    let arguments = prop_oneof![
        list().prop_map(|list| json!(list)),
        prop::sample::select(vec!["a=1", "b=2"]).prop_map(|one| json!(one)),
    ];
    let optional = |value: BoxedStrategy<Value>| prop::option::of(value);
    let ip = prop::sample::select(vec!["1", "2"]).prop_map(|ip| json!(ip)).boxed();
    let settings =
        (optional(arguments.boxed()), optional(list().prop_map(|list| json!(list)).boxed()), optional(ip));
    let file = (prop::sample::select(vec!["/etc/a", "/etc/b", "/etc/c"]), "[xy]");
    let files = prop::collection::vec(file, 0..3);
    let labels = prop::collection::btree_map("[pq]", "[xy]", 0..3);
    let taint = ("[pq]", prop::option::of("[xy]"), prop::bool::ANY);
    let taints = prop::collection::vec(taint, 0..3);
    (settings, files, labels, taints).prop_map(|((arguments, names, ip), files, labels, taints)| {
        let keys = [("kubelet-arg", arguments), ("tls-san", names), ("node-ip", ip)];
        let settings = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Setting(value?))));
        let file = |(path, content): (&str, String)| File {
            path: path.to_owned(),
            content: Some(content),
            content_from: None,
            owner: None,
            permissions: None,
        };
        let mut config = HostConfig { settings: settings.collect(), labels, ..HostConfig::default() };
        for (path, content) in files {
            if config.files.iter().all(|file| file.path != path) {
                config.files.push(file((path, content)));
            }
        }
        for (key, value, is_schedule) in taints {
            let effect = if is_schedule { TaintEffect::NoSchedule } else { TaintEffect::NoExecute };
            if config.taints.iter().all(|taint| taint.key != key || taint.effect != effect) {
                config.taints.push(HostTaint { key, value, effect });
            }
        }
        config
    })
}

/// The layers as entries for every Host.
fn with_entries(base: &HostConfig, layers: &[&HostConfig]) -> CapstanConfigSpec {
    let entry = |(number, layer): (usize, &&HostConfig)| HostConfigEntry {
        name: format!("e{number}"),
        selector: serde_json::from_value(json!({})).unwrap(),
        config: (*layer).clone(),
    };
    CapstanConfigSpec {
        settings: base.settings.clone(),
        files: base.files.clone(),
        host_config: layers.iter().enumerate().map(entry).collect(),
        ..CapstanConfigSpec::default()
    }
}

fn merged(base: &HostConfig, layers: &[&HostConfig], own: &HostConfig) -> MergedConfig {
    let host = HostFacts { name: "h".to_owned(), config: own.clone(), ..HostFacts::default() };
    merge(&with_entries(base, layers), Some(&host)).unwrap()
}

proptest! {
    #[test]
    fn it_does_not_matter_which_layers_are_merged_first(
        base in any_overlay(), a in any_overlay(), b in any_overlay(), c in any_overlay(),
    ) {
        let one_by_one = merged(&base, &[&a, &b], &c);
        // Two upper layers, as one layer.
        let upper = merged(&HostConfig::default(), &[&b], &c);
        let upper = HostConfig {
            settings: upper.config.settings, files: upper.config.files, labels: upper.labels, taints: upper.taints,
        };
        let at_once = merged(&base, &[&a], &upper);
        prop_assert_eq!(&one_by_one.config, &at_once.config);
        prop_assert_eq!(&one_by_one.labels, &at_once.labels);
        prop_assert_eq!(&one_by_one.taints, &at_once.taints);
    }

    #[test]
    fn an_origin_has_the_value(base in any_overlay(), a in any_overlay(), b in any_overlay()) {
        let merged = merged(&base, &[&a], &b);
        let has = |layer: &HostConfig, key: &str, entry: &Value| {
            layer.settings.get(key).is_some_and(|Setting(value)| {
                value == entry || value.as_array().is_some_and(|entries| entries.contains(entry))
            })
        };
        let layer = |origin: &Origin| match origin { Origin::Entry(_) => &a, Origin::Host(_) => &b };
        for (key, Setting(value)) in &merged.config.settings {
            let field = format!("spec.settings.{key}");
            let entries = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            let origins = merged.origins(&field);
            // Each origin has set something of the value.
            for origin in &origins {
                prop_assert!(entries.iter().any(|entry| has(layer(origin), key, entry)), "{} {:?}", key, origin);
            }
            // And what no origin has set is of the configuration.
            for entry in &entries {
                let is_set = origins.iter().any(|origin| has(layer(origin), key, entry));
                prop_assert!(is_set || has(&base, key, entry), "{} {}", key, entry);
            }
        }
        for file in &merged.config.files {
            let from = merged.origins(&format!("spec.files[{}]", file.path));
            let source = from.first().map_or(&base, |origin| layer(origin));
            prop_assert!(source.files.contains(file));
        }
    }

    #[test]
    fn without_a_layer_the_plan_has_the_same_bytes(base in any_overlay()) {
        // A setting of servers has no place on a worker.
        let base = HostConfig {
            settings: base.settings.into_iter().filter(|(key, _)| key != "tls-san").collect(), ..base
        };
        let (alone, empty) = (with_entries(&base, &[]), HostConfig::default());
        let on_host = merged(&base, &[], &empty);
        let elsewhere = merge(&alone, None).unwrap();
        prop_assert_eq!(&on_host.config, &alone);
        for config in [&on_host.config, &elsewhere.config] {
            prop_assert_eq!(rendered(config), rendered(&alone));
        }
    }
}
