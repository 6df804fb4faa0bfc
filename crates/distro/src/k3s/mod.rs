//! k3s.
//!
//! The shape of its plan is a contract with whoever carries it out without being k3s: simulated hosts read exactly
//! these paths, keys and commands.
//!
//! | step | what |
//! |---|---|
//! | `file-…`, `before-…` | the user's own |
//! | `config` | `/etc/rancher/k3s/config.yaml`, mode 0600 |
//! | `tls-…` | on servers: certificates under `/var/lib/rancher/k3s/server/tls`, before the first start |
//! | `install` | `/opt/capstan/install-k3s <version> server\|agent`, again when one of the two changes |
//! | `start` | `systemctl restart k3s` or `k3s-agent`, again when what it starts with has changed |
//! | `ready` | the API server answers, or the agent runs; asked in every revision |
//! | `after-…` | the user's own |
//!
//! `/opt/capstan/install-k3s` stands in for artifacts by digest, which real machines will get.

mod config;

use capstan_plan::{
    Action, Argv, Check, Command, Content, EnvVar, File, MachinePath, Mode, Probe, Repeat, Retry, Step,
    StepName, Target,
};

use crate::error::InputError;
use crate::fingerprint::Fingerprint;
use crate::inputs::{Certificates, Inputs};
use crate::user::{self, UserCommand, UserFile};
use crate::{Rendered, Role};

const CONFIG: &str = "/etc/rancher/k3s/config.yaml";
const TLS: &str = "/var/lib/rancher/k3s/server/tls";

/// k3s reads what lies here when it starts, and only then.
const OWN_FOLDERS: [&str; 2] = ["/etc/rancher", "/var/lib/rancher/k3s"];

pub(crate) fn render(inputs: &Inputs<'_>) -> Result<Rendered, InputError> {
    let config = config::render(inputs)?;
    let files = user::files(inputs.config, inputs.secrets, is_own, is_taken)?;
    let before = user::commands(&inputs.config.before, "before")?;
    let after = user::commands(&inputs.config.after, "after")?;
    let fingerprint = Fingerprint::of(inputs, &files, before.iter().chain(&after));

    let mut steps: Vec<Step> = Vec::new();
    steps.extend(files.into_iter().map(user_file));
    steps.extend(before.into_iter().map(user_command));
    steps.push(file("config", CONFIG, Content::from(config), true));
    if let Some(certificates) = inputs.certificates.filter(|_| inputs.role.is_server()) {
        steps.extend(tls(certificates));
    }
    let commands = Commands::of(inputs.role);
    steps.push(Step {
        timeout_seconds: 600,
        retry: Some(Retry { attempts: 5, delay_seconds: 2, max_delay_seconds: 30 }),
        ..command("install", argv(&[INSTALL, inputs.version, commands.kind]), Vec::new())
    });
    steps.push(Step {
        timeout_seconds: 600,
        retry: Some(Retry { attempts: 5, delay_seconds: 5, max_delay_seconds: 60 }),
        // The value is what makes it another command once the inputs have changed.
        ..command(
            "start",
            argv(&["systemctl", "restart", commands.unit]),
            vec![EnvVar::new("CAPSTAN_RESTART", fingerprint.restart.to_string())],
        )
    });
    steps.push(Step {
        timeout_seconds: 10,
        repeat: Repeat::Always,
        retry: Some(Retry::every(2, 300)),
        ..Step::new(name("ready"), Action::Check(Check { target: commands.ready() }))
    });
    steps.extend(after.into_iter().map(user_command));
    let probes = vec![Probe::new(name(commands.probe), commands.ready())];
    Ok(Rendered { steps, probes, redact: vec![inputs.token.clone()], fingerprint })
}

const INSTALL: &str = "/opt/capstan/install-k3s";

/// What differs between servers and workers.
struct Commands {
    kind: &'static str,
    unit: &'static str,
    probe: &'static str,
    ready: &'static [&'static str],
}

impl Commands {
    const fn of(role: Role) -> Self {
        match role.is_server() {
            true => Self {
                kind: "server",
                unit: "k3s",
                probe: "apiserver",
                ready: &["/usr/local/bin/k3s", "kubectl", "get", "--raw", "/readyz"],
            },
            false => Self {
                kind: "agent",
                unit: "k3s-agent",
                probe: "agent",
                ready: &["systemctl", "is-active", "k3s-agent"],
            },
        }
    }

    fn ready(&self) -> Target {
        Target::Exec(argv(self.ready))
    }
}

fn tls(certificates: &Certificates) -> Vec<Step> {
    let Certificates { ca, etcd, proxy, service_accounts } = certificates;
    let mut steps = Vec::new();
    for (step, path, pair) in [
        ("tls-server-ca", "server-ca", ca),
        ("tls-client-ca", "client-ca", ca),
        ("tls-request-header-ca", "request-header-ca", proxy),
        ("tls-etcd-server-ca", "etcd/server-ca", etcd),
        ("tls-etcd-peer-ca", "etcd/peer-ca", etcd),
    ] {
        let certificate = pair.certificate.clone();
        steps.push(file(&format!("{step}-crt"), &format!("{TLS}/{path}.crt"), certificate, false));
        steps.push(file(&format!("{step}-key"), &format!("{TLS}/{path}.key"), pair.key.clone(), true));
    }
    let key = service_accounts.key.clone();
    steps.push(file("tls-service-key", &format!("{TLS}/service.key"), key, true));
    steps
}

fn file(step: &str, path: &str, content: Content, secret: bool) -> Step {
    let path = MachinePath::new(path).expect("a path of this module, absolute and plain");
    let file = File { path, content, mode: Mode::PRIVATE, owner: 0, group: 0, secret };
    Step::new(name(step), Action::File(file))
}

fn user_file(file: UserFile) -> Step {
    let UserFile { step, path, content, mode, owner, group, secret, .. } = file;
    Step::new(step, Action::File(File { path, content, mode, owner, group, secret }))
}

fn user_command(command: UserCommand) -> Step {
    let UserCommand { step, argv, timeout_seconds } = command;
    Step { timeout_seconds, ..Step::new(step, Action::Command(Command::new(argv))) }
}

fn command(step: &str, argv: Argv, env: Vec<EnvVar>) -> Step {
    Step::new(name(step), Action::Command(Command { env, ..Command::new(argv) }))
}

fn name(text: &str) -> StepName {
    StepName::new(text).expect("a name of this module, a DNS label")
}

fn argv(words: &[&str]) -> Argv {
    Argv::new(words.iter().copied())
        .expect("a handful of words; a version has at most 256 characters and no zero byte")
}

fn is_own(path: &MachinePath) -> bool {
    OWN_FOLDERS
        .iter()
        .any(|folder| path.as_str().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

/// What the steps above write themselves.
fn is_taken(path: &MachinePath) -> bool {
    let path = path.as_str();
    path == CONFIG || path == TLS || path.strip_prefix(TLS).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether Kubernetes is started again when this file changes.
pub(crate) fn restarts_for(path: &str) -> bool {
    MachinePath::new(path).is_ok_and(|path| is_own(&path))
}
