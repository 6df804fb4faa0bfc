//! The table of costs and the digests that the planner compares agree: a change that the table classifies as live,
//! restart, or drain and restart has that effect in the rendered plan.

#![cfg(test)]

use std::collections::BTreeMap;

use capstan_api::bootstrap::{CapstanConfigSpec, Command, DriftPolicy, File, ReleasePolicy, Setting};
use capstan_distro::cost::{Setup, classify, worst};
use capstan_distro::{
    Certificates, Cost, Endpoint, Fingerprint, Heal, Inputs, KeyPair, Maintenance, Network, Role,
    SecretFiles, Software, render,
};
use capstan_plan::{Capabilities, Digest, SecretText};
use proptest::prelude::*;
use serde_json::{Value, json};

fn setting() -> impl Strategy<Value = (String, Setting)> {
    let keys = [
        "debug",
        "disable",
        "node-label",
        "kubelet-arg+",
        "snapshotter",
        "flannel-backend",
        "node-ip",
        "tls-san",
    ];
    let values: Vec<Value> = vec![json!(true), json!("x"), json!(["a"]), json!(["a", "b"])];
    (prop::sample::select(keys.to_vec()), prop::sample::select(values))
        .prop_map(|(key, value)| (key.to_owned(), Setting(value)))
}

fn file() -> impl Strategy<Value = File> {
    let paths = [
        "/etc/motd",
        "/etc/issue",
        "/etc/rancher/k3s/registries.yaml",
        "/var/lib/rancher/k3s/agent/pod.yaml",
    ];
    let modes = [None, Some("0600"), Some("600"), Some("0755")];
    let owners = [None, Some("root"), Some("0:0"), Some("1000:0")];
    let (modes, owners) = (prop::sample::select(modes.to_vec()), prop::sample::select(owners.to_vec()));
    (prop::sample::select(paths.to_vec()), "[ab]", modes, owners).prop_map(|(path, content, mode, owner)| {
        File {
            path: path.to_owned(),
            content: Some(content),
            content_from: None,
            owner: owner.map(str::to_owned),
            permissions: mode.map(str::to_owned),
        }
    })
}

fn command() -> impl Strategy<Value = Command> {
    ("[xyz]", "[ab]").prop_map(|(name, word)| Command {
        name,
        command: vec!["/bin/echo".to_owned(), word],
        timeout_seconds: None,
    })
}

/// At most one with each name, in any order.
fn once<T>(all: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
    let mut seen = std::collections::BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(name(one))).collect()
}

fn config() -> impl Strategy<Value = CapstanConfigSpec> {
    let settings = prop::collection::vec(setting(), 0..4);
    let files = prop::collection::vec(file(), 0..4);
    let commands = || prop::collection::vec(command(), 0..3);
    let paths =
        || prop::sample::subsequence(vec!["/var/log/pods/a".to_owned(), "/var/log/pods/b".to_owned()], 0..=2);
    let release =
        prop::option::of(paths().prop_map(|keep| ReleasePolicy { keep, wipe: vec!["/srv/a".to_owned()] }));
    let on_drift = prop::option::of(Just(DriftPolicy::Report));
    let all = (settings, files, commands(), commands(), release, on_drift);
    all.prop_map(|(settings, files, before, after, release, on_drift)| CapstanConfigSpec {
        release,
        on_drift,
        settings: settings.into_iter().collect(),
        files: once(files, |file| file.path.clone()),
        before: once(before, |command| command.name.clone()),
        after: once(after, |command| command.name.clone()),
        ..CapstanConfigSpec::default()
    })
}

fn pair() -> KeyPair {
    KeyPair { certificate: "certificate".to_owned().into(), key: "key".to_owned().into() }
}

fn fingerprint(version: &str, config: &CapstanConfigSpec) -> Fingerprint {
    let certificates = Certificates { ca: pair(), etcd: pair(), proxy: pair(), service_accounts: pair() };
    render(&Inputs {
        role: Role::Server,
        others_serve: false,
        version,
        node_name: "n",
        provider_id: "p",
        endpoint: &Endpoint { host: "h".to_owned(), port: 6443 },
        network: &Network::default(),
        token: &SecretText::new("t"),
        agent_token: None,
        ca: None,
        certificates: Some(&certificates),
        labels: &BTreeMap::new(),
        taints: &[],
        capabilities: &Capabilities::all(),
        agent: None,
        config,
        maintenance: &Maintenance::ANY_TIME,
        secrets: &SecretFiles::new(),
        restart_after: None,
        heal: Heal::default(),
        software: &Software { sha256: Digest::of(b""), size: 0, sources: Vec::new() },
        images: None,
        former: None,
        snapshot: None,
    })
    .unwrap()
    .fingerprint
}

fn agree(
    versions: (&str, &str),
    old: &CapstanConfigSpec,
    new: &CapstanConfigSpec,
) -> Result<(), TestCaseError> {
    let changes =
        classify(Setup { version: versions.0, config: old }, Setup { version: versions.1, config: new });
    let (before, after) = (fingerprint(versions.0, old), fingerprint(versions.1, new));
    let really = if before.drain != after.drain {
        Cost::DrainAndRestart
    } else if before.restart != after.restart {
        Cost::Restart
    } else if before.whole != after.whole {
        Cost::Live
    } else {
        Cost::Nothing
    };
    prop_assert_eq!(worst(&changes), really, "{:?}", changes);
    Ok(())
}

const SAME: &str = "v1.36.0+k3s1";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_table_and_the_planner_agree(old in config(), new in config(), is_upgrade: bool) {
        agree((SAME, if is_upgrade { "v1.36.1+k3s1" } else { SAME }), &old, &new)?;
    }

    #[test]
    fn they_agree_about_the_order_of_lists(old in config()) {
        let mut new = old.clone();
        new.files.reverse();
        agree((SAME, SAME), &old, &new)?;
        new.before.reverse();
        agree((SAME, SAME), &old, &new)?;
    }
}
