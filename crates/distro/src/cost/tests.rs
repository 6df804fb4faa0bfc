//! Tests of differences and how they are displayed.

use super::*;
use capstan_api::bootstrap::{BootstrapFormat, Command, Distro, File, Setting};

fn config(change: impl FnOnce(&mut CapstanConfigSpec)) -> CapstanConfigSpec {
    let mut config = CapstanConfigSpec::default();
    change(&mut config);
    config
}

fn file(path: &str, content: &str) -> File {
    File {
        path: path.to_owned(),
        content: Some(content.to_owned()),
        content_from: None,
        owner: None,
        permissions: None,
    }
}

fn command(name: &str) -> Command {
    Command { name: name.to_owned(), command: vec!["swapoff".to_owned()], timeout_seconds: None }
}

fn setting(key: &str, value: Value) -> impl FnOnce(&mut CapstanConfigSpec) {
    let key = key.to_owned();
    move |config| _ = config.settings.insert(key, Setting(value))
}

#[test]
fn each_field_of_a_config_has_its_cost() {
    let plain = CapstanConfigSpec::default();
    for (changed, field, cost) in [
        (config(|c| c.distro = Distro::Rke2), "spec.distro", Cost::Refused),
        (config(|c| c.format = Some(BootstrapFormat::Script)), "spec.format", Cost::Nothing),
        (config(setting("disable", json!(["traefik"]))), "spec.settings.disable", Cost::Restart),
        (config(setting("kubelet-arg+", json!("a=b"))), "spec.settings.kubelet-arg+", Cost::Restart),
        (config(setting("snapshotter", json!("native"))), "spec.settings.snapshotter", Cost::DrainAndRestart),
        (config(setting("cluster-dns", json!("10.0.0.10"))), "spec.settings.cluster-dns", Cost::Refused),
        (config(setting("server", json!("https://a"))), "spec.settings.server", Cost::Refused),
        (config(|c| c.files.push(file("/etc/motd", "hi"))), "spec.files[/etc/motd]", Cost::Live),
        (
            config(|c| c.files.push(file("/etc/rancher/k3s/registries.yaml", "{}"))),
            "spec.files[/etc/rancher/k3s/registries.yaml]",
            Cost::Restart,
        ),
        (config(|c| c.before.push(command("swap"))), "spec.before[swap]", Cost::Live),
    ] {
        let setup = |config| Setup { version: "v1.36.0", config };
        for (old, new) in [(&plain, &changed), (&changed, &plain)] {
            let changes = classify(setup(old), setup(new));
            assert_eq!(changes.len(), 1, "{field}: {changes:?}");
            assert_eq!((changes[0].field.as_str(), changes[0].cost), (field, cost));
        }
        assert_eq!(worst(&classify(setup(&changed), setup(&changed))), Cost::Nothing);
    }
}

#[test]
fn what_was_and_what_is_to_be_are_shown_unless_they_are_secret() {
    let change_of = |old: CapstanConfigSpec, new: CapstanConfigSpec| {
        let setup = |config| Setup { version: "v1.36.0", config };
        let change = classify(setup(&old), setup(&new)).remove(0);
        (change.field, change.from.unwrap_or_default(), change.to.unwrap_or_default())
    };
    let shown = |field: &str, from: &str, to: &str| (field.to_owned(), from.to_owned(), to.to_owned());
    assert_eq!(
        change_of(config(setting("disable", json!(["a"]))), config(setting("disable", json!(["a", "b"])))),
        shown("spec.settings.disable", r#"["a"]"#, r#"["a","b"]"#)
    );
    assert_eq!(
        change_of(config(|_| ()), config(setting("etcd-s3-secret-key", json!("s3cret")))),
        shown("spec.settings.etcd-s3-secret-key", "", "(not shown)")
    );
    let (field, from, to) = change_of(
        config(|c| c.files.push(file("/etc/motd", "plain-text"))),
        config(|c| c.files.push(file("/etc/motd", "plain-texts"))),
    );
    assert_eq!(field, "spec.files[/etc/motd].content");
    assert!(from.starts_with("10 bytes, sha256 ") && to.starts_with("11 bytes, sha256 "), "{from} {to}");
    let long = "x".repeat(500);
    let (_, _, to) = change_of(config(|_| ()), config(setting("pause-image", json!(long))));
    assert_eq!(to.len(), 83);
}

#[test]
fn the_config_of_a_control_plane_is_a_config() {
    let object =
        |spec: Value| json!({"metadata": {"uid": "1", "labels": {"a": "b"}}, "spec": spec, "status": {}});
    let old =
        object(json!({"version": "v1.36.0", "replicas": 1, "config": {"settings": {"disable": ["x"]}}}));
    let new = object(json!({
        "version": "v1.36.1", "replicas": 3, "config": {"settings": {"disable": ["y"]}},
        "machineTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": {
            "infrastructureRef": {"kind": "K", "name": "other", "apiGroup": "g"},
            "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]}},
        "rollout": {"after": "2026-01-01T00:00:00Z"},
    }));
    let found: Vec<(String, Cost)> =
        changes(Subject::ControlPlane, &old, &new).into_iter().map(|c| (c.field, c.cost)).collect();
    let expected = [
        ("spec.config.settings.disable", Cost::Restart),
        ("spec.machineTemplate.metadata.labels.team", Cost::Live),
        ("spec.machineTemplate.spec.infrastructureRef", Cost::Replace),
        ("spec.machineTemplate.spec.taints[k:NoSchedule]", Cost::Live),
        ("spec.replicas", Cost::Live),
        ("spec.rollout.after", Cost::Restart),
        ("spec.version", Cost::DrainAndRestart),
    ];
    assert_eq!(found, expected.map(|(field, cost)| (field.to_owned(), cost)));
    let reference = changes(Subject::ControlPlane, &old, &new).remove(2);
    assert_eq!((reference.from, reference.to.as_deref()), (None, Some("K other")));
    assert!(changes(Subject::ControlPlane, &new, &new).is_empty());
}

#[test]
fn what_nobody_has_classified_is_refused() {
    let found = changes(Subject::Machine, &json!({"spec": {}}), &json!({"spec": {"ofTheFuture": "s3cret"}}));
    assert_eq!((found[0].field.as_str(), found[0].cost), ("spec.ofTheFuture", Cost::Refused));
    assert!(!format!("{found:?}").contains("s3cret"));
}

#[test]
fn the_template_of_a_deployment_is_a_machine_but_for_what_it_refers_to() {
    let object = |spec: Value| json!({"spec": {"replicas": 1, "template": {"spec": spec}}});
    let config = |name: &str| json!({"configRef": {"kind": "CapstanConfigTemplate", "name": name}});
    let old = object(json!({"version": "v1.36.0", "bootstrap": config("a"), "minReadySeconds": 1}));
    let new = object(json!({"version": "v1.36.1", "bootstrap": config("b"), "failureDomain": "x"}));
    let found: Vec<(String, Cost)> =
        changes(Subject::Deployment, &old, &new).into_iter().map(|c| (c.field, c.cost)).collect();
    let expected = [
        ("spec.template.spec.bootstrap.configRef", Cost::Nothing),
        ("spec.template.spec.failureDomain", Cost::Replace),
        ("spec.template.spec.minReadySeconds", Cost::Live),
        ("spec.template.spec.version", Cost::DrainAndRestart),
    ];
    assert_eq!(found, expected.map(|(field, cost)| (field.to_owned(), cost)));
    let only_new = changes(Subject::Set, &old, &new);
    assert!(only_new.iter().all(|change| change.cost <= Cost::Live), "{only_new:?}");
}
