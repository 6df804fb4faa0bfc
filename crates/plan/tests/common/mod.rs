//! A plan that uses every field, and a key to sign it with.

#![allow(dead_code, reason = "each suite uses its part")]

use capstan_plan::{
    Action, Argv, Artifact, Check, Command, Content, Digest, Directory, EnvVar, Epoch, File, Gate, HttpUrl,
    MachineIdentity, MachinePath, MachinePlan, Mode, Probe, Repeat, Retry, Revision, SecretText, SigningKey,
    Source, Step, StepName, Stop, Target, TrustedKeys, Undo, Unit, Unpack,
};

pub(crate) fn machine() -> MachineIdentity {
    MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "3f0c2a64-7f5e".parse().unwrap() }
}

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

pub(crate) fn trusted() -> TrustedKeys {
    [key().public()].into_iter().collect()
}

pub(crate) fn name(text: &str) -> StepName {
    text.parse().unwrap()
}

pub(crate) fn path(text: &str) -> MachinePath {
    text.parse().unwrap()
}

pub(crate) fn argv(words: &[&str]) -> Argv {
    Argv::new(words.iter().copied()).unwrap()
}

pub(crate) fn plan() -> MachinePlan {
    let expires = "2026-11-16T12:00:00Z".parse().unwrap();
    let mut plan = MachinePlan::new(machine(), Revision::new(4).unwrap(), Epoch(2), expires);
    plan.redact = vec![SecretText::new("K10-token")];
    plan.steps = vec![
        Step {
            repeat: Repeat::Always,
            ..Step::new(
                name("folder"),
                Action::Directory(Directory {
                    path: path("/etc/rancher/k3s"),
                    mode: Mode::EXECUTABLE,
                    owner: 0,
                    group: 0,
                }),
            )
        },
        Step::new(
            name("config"),
            Action::File(File {
                path: path("/etc/rancher/k3s/config.yaml"),
                content: Content::from("token: K10-token\n"),
                mode: Mode::PRIVATE,
                owner: 0,
                group: 10,
                secret: true,
            }),
        ),
        Step {
            repeat: Repeat::Once,
            timeout_seconds: 600,
            retry: Some(Retry { attempts: 5, delay_seconds: 1, max_delay_seconds: 60 }),
            inputs: vec![name("config")],
            ..Step::new(
                name("install"),
                Action::Command(Command {
                    env: vec![EnvVar::new("MODE", "server"), EnvVar::secret("TOKEN", "hunter2")],
                    creates: Some(path("/usr/local/bin/k3s")),
                    unless: Some(argv(&["test", "-x", "/usr/local/bin/k3s"])),
                    undo: Some(Undo {
                        argv: argv(&["/usr/local/bin/k3s-uninstall.sh"]),
                        env: vec![EnvVar::secret("TOKEN", "hunter3")],
                    }),
                    ..Command::new(argv(&["/opt/install.sh", "--quiet"]))
                }),
            )
        },
        Step {
            retry: Some(Retry::every(2, 30)),
            ..Step::new(
                name("ready"),
                Action::Check(Check { target: Target::Http(url("http://127.0.0.1:10248/healthz")) }),
            )
        },
        Step::new(name("node"), Action::Check(Check { target: Target::Exec(argv(&["k3s", "check"])) })),
        Step::new(
            name("k3s"),
            Action::Artifact(Artifact {
                sha256: Digest::of(b"k3s"),
                size: 3,
                sources: vec![source("file:///srv/k3s"), source("https://mirror.example/k3s")],
                path: path("/opt/capstan/k3s/v1/k3s"),
                unpack: None,
                mode: Mode::EXECUTABLE,
                owner: 0,
                group: 0,
            }),
        ),
        Step::new(
            name("tools"),
            Action::Artifact(Artifact {
                sha256: Digest::of(b"tools"),
                size: 5,
                sources: vec![Source {
                    ca: Some(CA.to_owned()),
                    ..source("https://mirror.example:8443/tools")
                }],
                path: path("/opt/capstan/tools/v1"),
                unpack: Some(Unpack::TarZst),
                mode: Mode::EXECUTABLE,
                owner: 0,
                group: 10,
            }),
        ),
        Step::new(name("drained"), Action::Gate(Gate {})),
        Step {
            inputs: vec![name("config")],
            ..Step::new(
                name("server"),
                Action::Unit(Unit {
                    name: "k3s.service".parse().unwrap(),
                    content: Content::from("[Service]\nExecStart=/opt/capstan/k3s/v1/k3s server\n"),
                    restart: "v1 0123".parse().unwrap(),
                    stop: Some(Stop {
                        argv: argv(&["/opt/capstan/tools/v1/kill-all", "--now"]),
                        timeout_seconds: 120,
                    }),
                }),
            )
        },
    ];
    plan.probes = vec![Probe::new(name("kubelet"), Target::Http(url("http://127.0.0.1:10248/healthz")))];
    plan
}

/// Nobody looks closer at it here than a plan does.
pub(crate) const CA: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

pub(crate) fn source(text: &str) -> Source {
    Source::new(text.parse().unwrap())
}

pub(crate) fn url(text: &str) -> HttpUrl {
    HttpUrl::new(text).unwrap()
}
