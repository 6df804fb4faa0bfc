//! Golden plans, one for each role. Fingerprints depend on inputs and not on rendered bytes.
//!
//! `UPDATE_GOLDEN=1 cargo test -p capstan-distro --test golden` writes the files again. A changed `fingerprint` line
//! restarts every existing machine when Capstan is upgraded; avoid that.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use capstan_api::bootstrap::{
    CapstanConfigSpec, Command, Distro, DriftPolicy, File, FileSource, ReleasePolicy, SecretKey, Setting,
};
use capstan_distro::{
    Certificates, Endpoint, Heal, Inputs, KeyPair, Maintenance, Network, RESTART_GATE, Rendered, Role,
    SecretFiles, Snapshot, Software, check, render,
};
use capstan_plan::{
    Action, Artifact, Capabilities, Content, Digest, Epoch, MachineIdentity, MachinePlan, OnDrift, Repeat,
    Revision, SecretText, Source, Step,
};
use serde_json::json;

struct Setup {
    capabilities: Capabilities,
    others_serve: bool,
    heal: Heal<'static>,
    endpoint: Endpoint,
    token: SecretText,
    agent_token: Option<SecretText>,
    certificates: Certificates,
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
    config: CapstanConfigSpec,
    secrets: SecretFiles,
    network: Network,
    software: Software,
    former: Option<Artifact>,
    snapshot: Option<Snapshot>,
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
        capabilities: Capabilities::all(),
        others_serve: false,
        heal: Heal::default(),
        endpoint: Endpoint { host: "10.0.0.10".to_owned(), port: 6443 },
        token: SecretText::new("token-of-the-cluster"),
        agent_token: None,
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
        network: Network {
            pods: vec!["10.42.0.0/16".to_owned(), "fd00:42::/56".to_owned()],
            services: vec!["10.43.0.0/16".to_owned()],
            domain: None,
            api_server_port: None,
        },
        software: software("newer"),
        former: None,
        snapshot: None,
    }
}

fn release() -> ReleasePolicy {
    ReleasePolicy { keep: vec!["/var/log/pods".to_owned()], wipe: vec!["/srv/data".to_owned()] }
}

fn software(content: &str) -> Software {
    let ca = Some("-----BEGIN CERTIFICATE-----\n".to_owned());
    Software {
        sha256: Digest::of(content.as_bytes()),
        size: content.len() as u64,
        sources: vec![Source {
            ca,
            url: format!("https://plane.example:7443/artifacts/{content}").parse().unwrap(),
            proxy: None,
        }],
    }
}

/// The software of an earlier version, as it stands in the plan of that version.
fn former() -> Artifact {
    let setup = Setup { software: software("older"), ..setup() };
    let older = Inputs { version: "v1.35.9+k3s1", ..setup.inputs(Role::Server) };
    artifact(&render(&older).unwrap()).clone()
}

fn artifact(rendered: &Rendered) -> &Artifact {
    let mut artifacts = rendered.steps.iter().filter_map(|step| match &step.action {
        Action::Artifact(artifact) => Some(artifact),
        _ => None,
    });
    artifacts.next_back().unwrap()
}

/// `config.yaml` of k3s.
fn config(rendered: &Rendered) -> serde_json::Value {
    let step = rendered.steps.iter().find(|step| step.name.as_str() == "config").unwrap();
    let Action::File(file) = &step.action else { panic!("{step:?}") };
    serde_json::from_slice(file.content.as_bytes()).unwrap()
}

/// Workers have no settings of servers.
fn worker() -> Setup {
    let mut setup = setup();
    setup.config.settings.retain(|key, _| key == "kubelet-arg");
    setup
}

/// A cluster whose workers have a token of their own.
fn with_agent_token(setup: Setup) -> Setup {
    Setup { agent_token: Some(SecretText::new("token-of-workers")), ..setup }
}

/// The same for one of its workers.
fn of_worker(mut setup: Setup) -> Setup {
    setup.token = setup.agent_token.take().unwrap();
    setup
}

impl Setup {
    fn inputs(&self, role: Role) -> Inputs<'_> {
        Inputs {
            role,
            others_serve: self.others_serve,
            version: "v1.36.0+k3s1",
            node_name: "web-0",
            provider_id: "host://rack-1/web-0",
            endpoint: &self.endpoint,
            token: &self.token,
            agent_token: self.agent_token.as_ref(),
            ca: Some(&self.certificates.ca.certificate),
            certificates: Some(&self.certificates),
            labels: &self.labels,
            taints: &self.taints,
            capabilities: &self.capabilities,
            agent: None,
            config: &self.config,
            maintenance: &Maintenance::ANY_TIME,
            secrets: &self.secrets,
            network: &self.network,
            restart_after: None,
            heal: self.heal,
            software: &self.software,
            images: None,
            former: self.former.as_ref(),
            snapshot: self.snapshot,
        }
    }
}

fn sealed(rendered: &Rendered) -> MachinePlan {
    let machine = MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "id".parse().unwrap() };
    let mut plan = MachinePlan::new(machine, Revision::FIRST, Epoch(1), jiff::Timestamp::UNIX_EPOCH);
    plan.steps.clone_from(&rendered.steps);
    plan.probes.clone_from(&rendered.probes);
    plan.periodic.clone_from(&rendered.periodic);
    plan.repair_windows.clone_from(&rendered.repair_windows);
    plan.host_windows.clone_from(&rendered.host_windows);
    plan.redact.clone_from(&rendered.redact);
    plan.clone().seal().unwrap();
    plan
}

/// The plan as a person reads it.
fn printed(rendered: &Rendered) -> String {
    let mut text = String::new();
    writeln!(text, "fingerprint drain   {}", rendered.fingerprint.drain).unwrap();
    writeln!(text, "fingerprint restart {}", rendered.fingerprint.restart).unwrap();
    writeln!(text, "fingerprint whole   {}\n", rendered.fingerprint.whole).unwrap();
    for step in &sealed(rendered).steps {
        let retry = step.retry.map_or(1, |retry| retry.attempts);
        writeln!(text, "== {} ({:?}, {} s, {retry} times)", step.name, step.repeat, step.timeout_seconds)
            .unwrap();
        match &step.action {
            // A file of its own, which has its own tests.
            Action::File(file) if step.name.as_str() == "script" => {
                writeln!(text, "file {} {} {}:{}", file.path, file.mode, file.owner, file.group).unwrap();
            }
            Action::File(file) => {
                writeln!(text, "file {} {} {}:{}", file.path, file.mode, file.owner, file.group).unwrap();
                text.push_str(std::str::from_utf8(file.content.as_bytes()).unwrap());
            }
            Action::Artifact(artifact) => {
                let Artifact { path, unpack, mode, owner, group, sha256, size, .. } = artifact;
                writeln!(text, "artifact {path} {mode} {owner}:{group} {unpack:?}").unwrap();
                writeln!(text, "  {size} bytes, sha256 {sha256}").unwrap();
                for source in &artifact.sources {
                    writeln!(text, "  from {} pinned {}", source.url, source.ca.is_some()).unwrap();
                }
            }
            Action::Unit(unit) => {
                writeln!(text, "unit {} restart {}", unit.name, unit.restart).unwrap();
                if let Some(stop) = &unit.stop {
                    writeln!(text, "  stop {} ({} s)", stop.argv.words().join(" "), stop.timeout_seconds)
                        .unwrap();
                }
                text.push_str(std::str::from_utf8(unit.content.as_bytes()).unwrap());
            }
            Action::Command(command) => {
                writeln!(text, "run {}", command.argv.words().join(" ")).unwrap();
                if let Some(unless) = &command.unless {
                    writeln!(text, "  unless {}", unless.words().join(" ")).unwrap();
                }
                if let Some(undo) = &command.undo {
                    writeln!(text, "  undo {}", undo.argv.words().join(" ")).unwrap();
                }
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

const NONE: Heal<'static> = Heal { restart: None, reapply: None, reboot: None };
const RESTART: Heal<'static> = Heal { restart: Some("2026-11-16T12:00:00Z"), ..NONE };
const REAPPLY: Heal<'static> = Heal { reapply: Some("2026-11-16T12:00:00Z"), ..NONE };
const REBOOT: Heal<'static> = Heal { reboot: Some("0f8fad5b-d9cb-469f-a165-70867728950e"), ..NONE };

#[test]
fn plans_are_as_written_down() {
    let upgrade = |may_be_down| Setup {
        snapshot: Some(Snapshot { revision: 7, retention: 5, may_be_down }),
        former: Some(former()),
        ..setup()
    };
    for (name, role, setup) in [
        ("init", Role::Init, setup()),
        ("init-beside-others", Role::Init, Setup { others_serve: true, ..setup() }),
        ("server", Role::Server, setup()),
        ("worker", Role::Worker, worker()),
        ("init-agent-token", Role::Init, with_agent_token(setup())),
        ("server-agent-token", Role::Server, with_agent_token(setup())),
        ("worker-agent-token", Role::Worker, of_worker(with_agent_token(worker()))),
        ("upgrade", Role::Server, upgrade(false)),
        ("upgrade-interrupted", Role::Server, upgrade(true)),
        ("heal-restart", Role::Worker, Setup { heal: RESTART, ..worker() }),
        ("heal-reapply", Role::Worker, Setup { heal: REAPPLY, ..worker() }),
        ("heal-reboot", Role::Worker, Setup { heal: REBOOT, ..worker() }),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/k3s-{name}.txt"));
        let printed = printed(&render(&setup.inputs(role)).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &printed).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(printed, golden, "{}: see the head of this file", path.display());
    }
}

/// The words of the step themselves, with another systemd and nothing to wait for.
#[test]
fn what_may_be_down_is_saved_if_it_is_up() {
    let snapshot = Some(Snapshot { revision: 7, retention: 5, may_be_down: true });
    let setup = Setup { snapshot, former: Some(former()), ..setup() };
    let rendered = render(&setup.inputs(Role::Server)).unwrap();
    let save = rendered.steps.iter().find(|step| step.name.as_str() == "snapshot").unwrap();
    let Action::Command(save) = &save.action else { panic!("{save:?}") };
    let [shell, flag, script, name, saving @ ..] = save.argv.words() else { panic!("{save:?}") };
    assert!(saving[0].ends_with("/k3s"), "{saving:?}");
    for (at_first, later, is_saved) in [
        ("active", "active", true),
        ("activating", "active", true),
        ("reloading", "active", true),
        ("activating", "failed", false),
        ("activating", "activating", false),
        ("inactive", "active", false),
        ("failed", "active", false),
    ] {
        let world =
            format!("now={at_first}; systemctl() {{ echo $now; }}; sleep() {{ now={later}; }}; {script}");
        let output =
            std::process::Command::new(shell).args([flag, &world, name, "echo", "saved"]).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{at_first}, {later}: {stdout}");
        assert_eq!(stdout == "saved\n", is_saved, "{at_first}, {later}: {stdout}");
    }
}

#[test]
fn servers_may_listen_elsewhere_than_the_endpoint() {
    let mut behind = setup();
    behind.network.api_server_port = Some(16443);
    let server = printed(&render(&behind.inputs(Role::Server)).unwrap());
    assert!(server.contains("\"https-listen-port\": 16443"), "{server}");
    assert!(
        server.contains(&format!("\"server\": \"{}\"", behind.inputs(Role::Server).endpoint.url())),
        "{server}"
    );
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
        (|s| s.config.release = Some(release()), false),
        (|s| s.config.on_drift = Some(DriftPolicy::Report), false),
        (|s| s.config.settings.clear(), true),
        (|s| s.token = SecretText::new("another"), true),
        (|s| s.endpoint.port = 443, true),
        (|s| s.certificates.etcd = pair("other"), true),
        (|s| s.secrets.values_mut().for_each(|content| *content = Content::from("other")), true),
        (|s| s.network.pods.clear(), true),
    ] {
        let found = with(change);
        assert_ne!(found.whole, base.whole);
        assert_eq!(found.restart != base.restart, restarts);
    }
    // The default, written out.
    assert_eq!(with(|s| s.config.on_drift = Some(DriftPolicy::Repair)), base);
    // Where software comes from, what must not be lost and what is saved are no inputs.
    assert_eq!(with(|s| s.software = software("elsewhere")), base);
    assert_eq!(with(|s| s.former = Some(former())), base);
    assert_eq!(with(|s| s.snapshot = Some(Snapshot { revision: 9, retention: 1, may_be_down: true })), base);
    let setup = setup();
    let after = Inputs { restart_after: Some("2026-01-01T00:00:00Z"), ..setup.inputs(Role::Server) };
    let after = render(&after).unwrap().fingerprint;
    assert!(after.restart != base.restart && after.drain == base.drain);
}

#[test]
fn the_policy_for_drift_is_that_of_every_step_but_capstans_own_script() {
    let policies = |policy: Option<DriftPolicy>| {
        let mut setup = setup();
        setup.config.on_drift = policy;
        let steps = render(&setup.inputs(Role::Server)).unwrap().steps;
        steps.into_iter().map(|step| (step.name.to_string(), step.on_drift)).collect::<Vec<_>>()
    };
    for policy in [None, Some(DriftPolicy::Repair)] {
        assert!(policies(policy).iter().all(|(_, policy)| *policy == OnDrift::Repair));
    }
    for (step, policy) in policies(Some(DriftPolicy::Report)) {
        let expected = if step == "script" { OnDrift::Repair } else { OnDrift::Report };
        assert_eq!(policy, expected, "{step}");
    }
}

#[test]
fn only_what_matters_drains() {
    let setup = setup();
    let base = render(&setup.inputs(Role::Server)).unwrap().fingerprint;
    let version = Inputs { version: "v1.36.1+k3s1", ..setup.inputs(Role::Server) };
    let version = render(&version).unwrap().fingerprint;
    assert!(version.drain != base.drain && version.restart != base.restart && version.whole != base.whole);
    for (key, drains) in [("snapshotter", true), ("node-ip", true), ("kubelet-arg", false), ("debug", false)]
    {
        let mut setup = self::setup();
        setup.config.settings.insert(key.to_owned(), Setting(json!("x=y")));
        let found = render(&setup.inputs(Role::Server)).unwrap().fingerprint;
        assert_ne!(found.restart, base.restart, "{key}");
        assert_eq!(found.drain != base.drain, drains, "{key}");
    }
}

/// Without the data of its etcd, a first server that begins the cluster again would make a second one.
#[test]
fn the_first_server_joins_once_there_are_others() {
    let setup = setup();
    let alone = render(&setup.inputs(Role::Init)).unwrap();
    let joined = render(&Inputs { others_serve: true, ..setup.inputs(Role::Init) }).unwrap();
    assert_eq!(config(&alone)["cluster-init"], true);
    assert_eq!(config(&alone).get("server"), None);
    assert_eq!(config(&joined).get("cluster-init"), None);
    assert_eq!(config(&joined)["server"], "https://10.0.0.10:6443");
    // It is written live: k3s reads it when it starts the next time, whatever for.
    assert_eq!(joined.fingerprint.restart, alone.fingerprint.restart);
    assert_eq!(joined.fingerprint.drain, alone.fingerprint.drain);
    assert_ne!(joined.fingerprint.whole, alone.fingerprint.whole);
    // The others join anyway.
    for (role, setup) in [(Role::Server, &setup), (Role::Worker, &worker())] {
        let inputs = setup.inputs(role);
        assert_eq!(
            render(&Inputs { others_serve: true, ..inputs.clone() }).unwrap(),
            render(&inputs).unwrap()
        );
    }
}

#[test]
fn healing_restarts_once_for_each_token_and_drains_for_none() {
    let fingerprint = |heal| render(&Inputs { heal, ..setup().inputs(Role::Server) }).unwrap().fingerprint;
    let base = fingerprint(NONE);
    let mut seen = vec![base.restart];
    let later = "2026-11-16T12:00:01Z";
    for heal in [
        RESTART,
        Heal { restart: Some(later), ..NONE },
        REAPPLY,
        Heal { reapply: Some(later), ..NONE },
        REBOOT,
        Heal { reboot: Some("a"), ..NONE },
        Heal { reboot: REBOOT.reboot, ..REAPPLY },
    ] {
        let found = fingerprint(heal);
        assert_eq!(fingerprint(heal), found, "{heal:?}");
        assert!(!seen.contains(&found.restart) && found.whole != base.whole, "{heal:?}");
        assert_eq!(found.drain, base.drain, "{heal:?}");
        seen.push(found.restart);
    }
}

#[test]
fn everything_on_the_machine_is_put_right_and_nothing_else_is_run_again() {
    let setup = Setup {
        snapshot: Some(Snapshot { revision: 7, retention: 5, may_be_down: false }),
        former: Some(former()),
        ..setup()
    };
    let repeats = |heal| {
        let rendered = render(&Inputs { heal, ..setup.inputs(Role::Server) }).unwrap();
        rendered.steps.into_iter().map(|step| (step.repeat, step)).collect::<Vec<_>>()
    };
    for ((before, _), (after, step)) in repeats(NONE).into_iter().zip(repeats(REAPPLY)) {
        let is_put = !matches!(step.action, Action::Command(_) | Action::Check(_) | Action::Gate(_));
        let expected = if is_put || step.name.as_str() == "ready" { Repeat::Always } else { before };
        assert_eq!(after, expected, "{}", step.name);
    }
}

#[test]
fn a_machine_is_rebooted_after_the_gate_and_only_away_from_a_boot_id() {
    let setup = setup();
    let names = |reboot| {
        let heal = Heal { reboot: Some(reboot), ..NONE };
        let rendered = render(&Inputs { heal, ..setup.inputs(Role::Server) }).unwrap();
        rendered.steps.iter().map(|step| step.name.to_string()).collect::<Vec<_>>()
    };
    let steps = names("0f8fad5b-d9cb-469f-a165-70867728950e");
    let at = |name: &str| steps.iter().position(|step| step == name).unwrap();
    assert!(at("drained") < at("reboot") && at("reboot") < at("config") && at("config") < at("start"));
    let base = render(&setup.inputs(Role::Server)).unwrap().fingerprint;
    for odd in ["", "$(reboot)", "A", "a b", "-c\n", &"a".repeat(65)] {
        assert!(!names(odd).contains(&"reboot".to_owned()), "{odd:?}");
        let heal = Heal { reboot: Some(odd), ..NONE };
        assert_eq!(render(&Inputs { heal, ..setup.inputs(Role::Server) }).unwrap().fingerprint, base);
    }
}

/// The words of the guard themselves, on this machine.
#[test]
fn the_guard_of_a_reboot_asks_the_kernel() {
    let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let setup = setup();
    for (boot_id, code) in [(now.trim(), 1), ("0f8fad5b", 0)] {
        let heal = Heal { reboot: Some(boot_id), ..NONE };
        let rendered = render(&Inputs { heal, ..setup.inputs(Role::Server) }).unwrap();
        let find = |name: &str| rendered.steps.iter().find(|step| step.name.as_str() == name).unwrap();
        let Action::File(script) = &find("script").action else { panic!("no script") };
        let Action::Command(reboot) = &find("reboot").action else { panic!("no command") };
        let words = reboot.unless.as_ref().unwrap().words();
        assert_eq!(words[1], script.path.as_str());
        let folder = std::env::temp_dir().join(format!("capstan-guard-{}-{code}", std::process::id()));
        std::fs::write(&folder, script.content.as_bytes()).unwrap();
        let ran = std::process::Command::new(&words[0]).arg(&folder).args(&words[2..]).output().unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    }
}

/// The promise itself: these digests are on every machine there is. A renderer that gives others restarts the fleet
/// when Capstan is upgraded. Written by hand, so that no command brings them up to date in passing.
#[test]
fn a_new_renderer_restarts_nobody() {
    let (setup, worker) = (setup(), worker());
    for (role, setup, drain, restart) in [
        (
            Role::Init,
            &setup,
            "d15f30ed8e68d5a45192c2129b4100575423447391ce9a45d8b74da251671066",
            "8f320f3db778ce4c857a6240bfb3ef3a5aacb657a9e7291d2145c9c32283f27a",
        ),
        (
            Role::Server,
            &setup,
            "d15f30ed8e68d5a45192c2129b4100575423447391ce9a45d8b74da251671066",
            "610a6adafec17c3f5569bf3bb33ebf5f46027f0d85d9f312298466e98aea8c1b",
        ),
        (
            Role::Worker,
            &worker,
            "d15f30ed8e68d5a45192c2129b4100575423447391ce9a45d8b74da251671066",
            "9e4e14f583a2b4d3c607a37e9fa6bcbc56f1b0024261e9f785315950ed6c09a5",
        ),
    ] {
        let rendered = render(&setup.inputs(role)).unwrap();
        let found = (rendered.fingerprint.drain.to_string(), rendered.fingerprint.restart.to_string());
        assert_eq!((found.0.as_str(), found.1.as_str()), (drain, restart), "{role:?}");
        // Nothing but the token decides: the unit counts no other step as its input.
        let start = rendered.steps.iter().find(|step| step.name.as_str() == "start").unwrap();
        let Action::Unit(unit) = &start.action else { panic!("start is a unit") };
        assert!(start.inputs.is_empty());
        assert_eq!(unit.restart.to_string(), restart);
    }
}

#[test]
fn steps_come_in_the_order_that_a_reset_needs() {
    let setup = setup();
    let rendered = render(&setup.inputs(Role::Server)).unwrap();
    let at =
        |name: &str| rendered.steps.iter().position(|step| step.name.as_str().starts_with(name)).unwrap();
    // A reset stops the unit first, then undoes the last step first: the script that cleans up must go last.
    assert!(at("script") < at("room") && at("room") < at("start"));
    // Downloads are complete before pods are moved away.
    assert!(at("k3s-opt") < at("drained") && at("drained") < at("start"));
}

/// A machine may reboot, and k3s may crash, while the plan waits at the gate. Then k3s must start with what it ran
/// with before.
#[test]
fn nothing_that_k3s_reads_when_it_starts_is_written_before_the_gate() {
    let (mut setup, mut worker) = (setup(), worker());
    for one in [&mut setup, &mut worker] {
        one.config.files.push(file("/var/lib/rancher/k3s/agent/etc/own.toml"));
        one.config.files.push(file("/etc/rancher/node/own"));
    }
    let upgrade = |setup: Setup| Setup {
        former: Some(former()),
        snapshot: Some(Snapshot { revision: 7, retention: 5, may_be_down: false }),
        ..setup
    };
    let images = software("images");
    let upgraded = upgrade(self::setup());
    for (role, setup) in [
        (Role::Init, &setup),
        (Role::Server, &setup),
        (Role::Worker, &worker),
        (Role::Server, &upgraded),
        (Role::Init, &upgraded),
    ] {
        let rendered = render(&Inputs { images: Some(&images), ..setup.inputs(role) }).unwrap();
        let gate = rendered.steps.iter().position(|step| step.name.as_str() == RESTART_GATE).unwrap();
        let is_read = |step: &&Step| match &step.action {
            Action::Unit(_) => true,
            Action::File(file) => {
                let path = file.path.as_str();
                path.starts_with("/etc/rancher/") || path.starts_with("/var/lib/rancher/k3s/")
            }
            _ => false,
        };
        let early: Vec<&str> =
            rendered.steps[..gate].iter().filter(is_read).map(|step| step.name.as_str()).collect();
        assert!(early.is_empty(), "{role:?}: {early:?}");
        // None is left out: after the gate, and before the unit starts, stands all of it.
        let start = rendered.steps.iter().position(|step| step.name.as_str() == "start").unwrap();
        let late = rendered.steps[gate..=start].iter().filter(is_read).count();
        assert_eq!(late, rendered.steps.iter().filter(is_read).count(), "{role:?}");
        assert!(late >= 3, "{role:?}");
    }
}

#[test]
fn workers_never_see_keys() {
    let setup = worker();
    let worker = render(&setup.inputs(Role::Worker)).unwrap();
    assert!(worker.steps.iter().all(|step| !step.name.as_str().starts_with("tls-")));
    let alone = Inputs { certificates: None, ..setup.inputs(Role::Worker) };
    assert_eq!(render(&alone).unwrap().fingerprint, worker.fingerprint);
}

/// Everything that reaches the machine: steps, probes and what must not be repeated.
fn all_text(rendered: &Rendered) -> String {
    let plan = serde_json::to_string(&sealed(rendered)).unwrap();
    let redacted: String = rendered.redact.iter().map(SecretText::expose).collect();
    format!("{plan}\n{}\n{redacted}", printed(rendered))
}

#[test]
fn workers_never_see_the_token_of_servers() {
    let (server, worker) = (with_agent_token(setup()), of_worker(with_agent_token(worker())));
    for role in [Role::Init, Role::Server] {
        let rendered = render(&server.inputs(role)).unwrap();
        let redacted: Vec<&str> = rendered.redact.iter().map(SecretText::expose).collect();
        assert_eq!(redacted, ["token-of-the-cluster", "token-of-workers"], "{role:?}");
        let config = config(&rendered);
        let digest = server.certificates.ca.certificate.digest();
        assert_eq!(config["token"], format!("K10{digest}::server:token-of-the-cluster"), "{role:?}");
        assert_eq!(config["agent-token"], "token-of-workers", "{role:?}");
    }
    // Also if both tokens are given for a worker by mistake.
    let mistaken = Setup {
        agent_token: Some(SecretText::new("token-of-the-cluster")),
        ..of_worker(with_agent_token(self::worker()))
    };
    for setup in [worker, mistaken] {
        let rendered = render(&setup.inputs(Role::Worker)).unwrap();
        assert!(!all_text(&rendered).contains("token-of-the-cluster"));
        let (config, digest) = (config(&rendered), setup.certificates.ca.certificate.digest());
        assert_eq!(config["token"], format!("K10{digest}::node:token-of-workers"));
        assert_eq!(config.get("agent-token"), None);
    }
}

/// Machines of clusters that began before workers had a token of their own are not restarted, and a worker that gets its
/// own token is restarted without a drain.
#[test]
fn a_token_of_workers_restarts_and_does_not_drain() {
    for (role, before, after) in [
        (Role::Init, setup(), with_agent_token(setup())),
        (Role::Server, setup(), with_agent_token(setup())),
        (Role::Worker, worker(), of_worker(with_agent_token(worker()))),
    ] {
        let fingerprint = |setup: &Setup| render(&setup.inputs(role)).unwrap().fingerprint;
        let (before, after) = (fingerprint(&before), fingerprint(&after));
        assert!(before.restart != after.restart && before.drain == after.drain, "{role:?}");
    }
    // A pinned CA alone restarts no machine.
    let setup = setup();
    let unpinned = Inputs { ca: None, ..setup.inputs(Role::Server) };
    assert_eq!(
        render(&unpinned).unwrap().fingerprint,
        render(&setup.inputs(Role::Server)).unwrap().fingerprint
    );
}

#[test]
fn what_capstan_decides_is_refused_by_name() {
    for (key, value) in [
        ("server", json!("https://evil:6443")),
        ("token", json!("secret-of-mine")),
        ("agent-token", json!("secret-of-mine")),
        ("cluster-init", json!(true)),
        ("node-name", json!("a")),
        ("data-dir", json!("/a")),
        ("https-listen-port", json!(1)),
        ("kubelet-arg", json!(["provider-id=secret-of-mine"])),
        ("kubelet-arg+", json!("--provider-id=secret-of-mine")),
        ("cluster-cidr", json!("10.0.0.0/8")),
        // A worker would not start with it.
        ("disable", json!(["traefik"])),
    ] {
        let mut setup = setup();
        setup.config.settings.clear();
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
        (
            |s| s.config.files[0].path = "/opt/capstan/lib/k3s.sh".to_owned(),
            "spec.files[/opt/capstan/lib/k3s.sh].path",
        ),
        (|s| s.config.before[0].command.clear(), "spec.before[swap.off].command"),
    ] {
        let mut setup = setup();
        change(&mut setup);
        assert_eq!(render(&setup.inputs(Role::Init)).unwrap_err().field, field);
        // The same before there is a machine, but for what stands in Secrets.
        let early = check(&setup.config, Role::Server).map_err(|error| error.field);
        assert_eq!(early.err().as_deref(), Some(field).filter(|field| !field.contains("contentFrom")));
    }
}

#[test]
fn a_version_is_no_path() {
    let setup = setup();
    for version in ["", "1.36.0", "v1/../../etc", "v1 36"] {
        let inputs = Inputs { version, ..setup.inputs(Role::Worker) };
        assert_eq!(render(&inputs).unwrap_err().field, "spec.version", "{version:?}");
    }
}
