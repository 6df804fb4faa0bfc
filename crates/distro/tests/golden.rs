//! Golden plans, one for each role, and the promise that inputs count and bytes do not.
//!
//! `UPDATE_GOLDEN=1 cargo test -p capstan-distro --test golden` writes the files anew. A changed `fingerprint` line
//! in them restarts every machine there is when Capstan is upgraded: that needs a very good reason.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use capstan_api::bootstrap::{CapstanConfigSpec, Command, Distro, File, FileSource, SecretKey, Setting};
use capstan_distro::{Certificates, Endpoint, Inputs, KeyPair, Rendered, Role, SecretFiles, check, render};
use capstan_plan::{Action, Content, Epoch, MachineIdentity, MachinePlan, Revision, SecretText};
use serde_json::json;

struct Setup {
    endpoint: Endpoint,
    token: SecretText,
    certificates: Certificates,
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
    config: CapstanConfigSpec,
    secrets: SecretFiles,
}

fn pair(name: &str) -> KeyPair {
    KeyPair { certificate: format!("{name} certificate\n").into(), key: format!("{name} key\n").into() }
}

fn file(path: &str) -> File {
    File {
        path: path.to_owned(),
        content: Some("x\n".to_owned()),
        content_from: None,
        owner: None,
        permissions: None,
    }
}

fn setup() -> Setup {
    let secret = SecretKey { name: "registries".to_owned(), key: "yaml".to_owned() };
    let command = |name: &str| Command {
        name: name.to_owned(),
        command: vec!["/bin/true".to_owned(), name.to_owned()],
        timeout_seconds: Some(7),
    };
    Setup {
        endpoint: Endpoint { host: "10.0.0.10".to_owned(), port: 6443 },
        token: SecretText::new("token-of-the-cluster"),
        certificates: Certificates {
            ca: pair("ca"),
            etcd: pair("etcd"),
            proxy: pair("proxy"),
            service_accounts: pair("sa"),
        },
        labels: BTreeMap::from([("node.cluster.x-k8s.io/pool".to_owned(), "a".to_owned())]),
        taints: vec!["dedicated=db:NoSchedule".to_owned()],
        config: CapstanConfigSpec {
            settings: BTreeMap::from([
                ("disable".to_owned(), Setting(json!(["traefik"]))),
                ("kubelet-arg".to_owned(), Setting(json!("max-pods=50"))),
                ("tls-san".to_owned(), Setting(json!(["api.example.com"]))),
            ]),
            files: vec![
                File {
                    permissions: Some("0644".to_owned()),
                    owner: Some("1000:0".to_owned()),
                    ..file("/etc/motd")
                },
                File {
                    content: None,
                    content_from: Some(FileSource { secret: secret.clone() }),
                    ..file("/etc/rancher/k3s/registries.yaml")
                },
            ],
            before: vec![command("swap.off")],
            after: vec![command("greet")],
            ..Default::default()
        },
        secrets: BTreeMap::from([((secret.name, secret.key), Content::from("mirrors: {}\n"))]),
    }
}

impl Setup {
    fn inputs(&self, role: Role) -> Inputs<'_> {
        Inputs {
            role,
            version: "v1.36.0+k3s1",
            node_name: "web-0",
            provider_id: "host://rack-1/web-0",
            endpoint: &self.endpoint,
            token: &self.token,
            certificates: Some(&self.certificates),
            labels: &self.labels,
            taints: &self.taints,
            config: &self.config,
            secrets: &self.secrets,
        }
    }
}

fn sealed(rendered: &Rendered) -> MachinePlan {
    let machine = MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "id".parse().unwrap() };
    let mut plan = MachinePlan::new(machine, Revision::FIRST, Epoch(1), jiff::Timestamp::UNIX_EPOCH);
    plan.steps.clone_from(&rendered.steps);
    plan.probes.clone_from(&rendered.probes);
    plan.redact.clone_from(&rendered.redact);
    plan.clone().seal().unwrap();
    plan
}

/// The plan as a person reads it.
fn told(rendered: &Rendered) -> String {
    let mut text = String::new();
    writeln!(text, "fingerprint restart {}", rendered.fingerprint.restart).unwrap();
    writeln!(text, "fingerprint whole   {}\n", rendered.fingerprint.whole).unwrap();
    for step in &sealed(rendered).steps {
        let retry = step.retry.map_or(1, |retry| retry.attempts);
        writeln!(text, "== {} ({:?}, {} s, {retry} times)", step.name, step.repeat, step.timeout_seconds)
            .unwrap();
        match &step.action {
            Action::File(file) => {
                writeln!(text, "file {} {} {}:{}", file.path, file.mode, file.owner, file.group).unwrap();
                text.push_str(std::str::from_utf8(file.content.as_bytes()).unwrap());
            }
            Action::Command(command) => {
                writeln!(text, "run {}", command.argv.words().join(" ")).unwrap();
                for variable in &command.env {
                    writeln!(text, "  {}={}", variable.name, variable.value.expose()).unwrap();
                }
            }
            other => writeln!(text, "{other:?}").unwrap(),
        }
    }
    for probe in &rendered.probes {
        writeln!(text, "== probe {} {:?}", probe.name, probe.target).unwrap();
    }
    text
}

#[test]
fn plans_are_as_written_down() {
    let setup = setup();
    for (name, role) in [("init", Role::Init), ("server", Role::Server), ("worker", Role::Worker)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/k3s-{name}.txt"));
        let told = told(&render(&setup.inputs(role)).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &told).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(told, golden, "{}: see the head of this file", path.display());
    }
}

#[test]
fn only_what_matters_restarts() {
    let base = render(&setup().inputs(Role::Server)).unwrap().fingerprint;
    let with = |change: fn(&mut Setup)| {
        let mut setup = setup();
        change(&mut setup);
        render(&setup.inputs(Role::Server)).unwrap().fingerprint
    };
    // Core keeps these up on the Node itself.
    assert_eq!(with(|s| s.labels.clear()), base);
    assert_eq!(with(|s| s.taints.clear()), base);
    for (change, restarts) in [
        ((|s| s.config.files[0].content = Some("y".to_owned())) as fn(&mut Setup), false),
        (|s| s.config.after.clear(), false),
        (|s| s.config.settings.clear(), true),
        (|s| s.token = SecretText::new("another"), true),
        (|s| s.endpoint.port = 443, true),
        (|s| s.certificates.etcd = pair("other"), true),
        (|s| s.secrets.values_mut().for_each(|content| *content = Content::from("other")), true),
    ] {
        let found = with(change);
        assert_ne!(found.whole, base.whole);
        assert_eq!(found.restart != base.restart, restarts);
    }
    let setup = setup();
    let version = Inputs { version: "v1.36.1+k3s1", ..setup.inputs(Role::Server) };
    assert_ne!(render(&version).unwrap().fingerprint.restart, base.restart);
}

#[test]
fn workers_never_see_keys() {
    let setup = setup();
    let worker = render(&setup.inputs(Role::Worker)).unwrap();
    assert!(worker.steps.iter().all(|step| !step.name.as_str().starts_with("tls-")));
    let alone = Inputs { certificates: None, ..setup.inputs(Role::Worker) };
    assert_eq!(render(&alone).unwrap().fingerprint, worker.fingerprint);
}

#[test]
fn what_capstan_decides_is_refused_by_name() {
    for (key, value) in [
        ("server", json!("https://evil:6443")),
        ("token", json!("secret-of-mine")),
        ("cluster-init", json!(true)),
        ("node-name", json!("a")),
        ("data-dir", json!("/a")),
        ("https-listen-port", json!(1)),
        ("kubelet-arg", json!(["provider-id=secret-of-mine"])),
        ("kubelet-arg+", json!("--provider-id=secret-of-mine")),
    ] {
        let mut setup = setup();
        setup.config.settings.insert(key.to_owned(), Setting(value));
        let error = render(&setup.inputs(Role::Worker)).unwrap_err();
        assert_eq!(error.field, format!("spec.settings.{key}"));
        assert!(!error.to_string().contains("secret-of-mine"), "{error}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (change, field) in [
        ((|s| s.config.distro = Distro::Rke2) as fn(&mut Setup), "spec.distro"),
        (|s| s.config.distro = Distro::Kubeadm, "spec.distro"),
        (|s| s.secrets.clear(), "spec.files[/etc/rancher/k3s/registries.yaml].contentFrom.secret"),
        (|s| s.config.files[0].owner = Some("www-data".to_owned()), "spec.files[/etc/motd].owner"),
        (|s| s.config.files[0].path = "/a/../b".to_owned(), "spec.files[/a/../b].path"),
        (
            |s| s.config.files[0].path = "/etc/rancher/k3s/config.yaml".to_owned(),
            "spec.files[/etc/rancher/k3s/config.yaml].path",
        ),
        (|s| s.config.before[0].command.clear(), "spec.before[swap.off].command"),
    ] {
        let mut setup = setup();
        change(&mut setup);
        assert_eq!(render(&setup.inputs(Role::Init)).unwrap_err().field, field);
        // The same before there is a machine, but for what stands in Secrets.
        let early = check(&setup.config).map_err(|error| error.field);
        assert_eq!(early.err().as_deref(), Some(field).filter(|field| !field.contains("contentFrom")));
    }
}
