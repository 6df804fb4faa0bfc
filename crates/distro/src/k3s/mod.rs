//! k3s.
//!
//! The shape of the plan is a contract with other executors than real machines: simulated hosts read exactly these
//! paths, keys and commands.
//!
//! | step | content |
//! |---|---|
//! | `script` | `/opt/capstan/lib/k3s.sh`: actions that are more than a file or a unit |
//! | `vacant` | checks that no other k3s is installed on the machine |
//! | `file-…`, `before-…` | the user's files and commands, except files that k3s reads when it starts |
//! | `k3s-…` | the software by digest, `/opt/capstan/k3s/<version>/k3s`; the version that still runs stays until then |
//! | `images` | container images for machines that cannot pull them, if the catalog has them |
//! | `room` | the folders of k3s; the undo removes all that k3s wrote except volumes and paths that the user keeps |
//! | `drained` | a gate: the manager opens it when k3s may be restarted |
//! | `snapshot` | on servers, before another version starts: a snapshot of etcd |
//! | `reboot` | if the planner requests it: reboots the machine, unless its boot ID has already changed |
//! | `file-…` | the user's files that k3s reads when it starts |
//! | `config` | `/etc/rancher/k3s/config.yaml`, mode 0600 |
//! | `proxy` | if there is a proxy: `/opt/capstan/lib/k3s-proxy.env`, mode 0600, the environment of k3s |
//! | `tls-…` | on servers: certificates under `/var/lib/rancher/k3s/server/tls` |
//! | `start` | `k3s.service` or `k3s-agent.service`, restarted when its inputs have changed |
//! | `ready` | the API server answers, or the kubelet's own Node exists; checked in every revision |
//! | `snapshot-prune` | removes surplus snapshots |
//! | `after-…` | the user's commands |
//!
//! [`probes`] has what is asked afterwards, in addition to the probes of the user.
//!
//! Everything that k3s reads when it starts is written after the gate. If a machine reboots while its plan waits at the
//! gate, or its k3s crashes, k3s starts the previous version with the previous configuration. The agent also waits for
//! the gate before it removes files that are no longer in the plan.
//!
//! A reset stops the unit and then undoes the steps in reverse order: files that k3s reads, data that k3s wrote
//! (`room`), the software, and finally the script.

mod config;
mod probes;
mod release;
mod settings;
mod software;
mod steps;
mod token;
mod unit;

use capstan_plan::{
    Action, Artifact, Check, Command, Content, EnvVar, File, Gate, MachinePath, Mode, Repeat, Retry,
    SecretText, Step, StepName, Stop, Target, Undo, Unit,
};

use crate::cost::Cost;
use crate::error::InputError;
use crate::fingerprint;
use crate::inputs::{Certificates, Inputs, Snapshot};
use crate::proxy::Proxy;
use crate::user::{self, UserFile};
use crate::user_probes;
use crate::{Fingerprint, RESTART_GATE, Rendered};
use settings::On;
use steps::{argv, command, file, name, user_command, user_file};

pub(crate) use config::refused_for_one_machine;
pub(crate) use settings::{Merging, may_be_shown, merging};
pub(crate) use software::{IMAGES, PROGRAM, is_of_version, is_program};

const CONFIG: &str = "/etc/rancher/k3s/config.yaml";
const TLS: &str = "/var/lib/rancher/k3s/server/tls";
const PROXY: &str = "/opt/capstan/lib/k3s-proxy.env";
const SCRIPT: &str = "/opt/capstan/lib/k3s.sh";

/// What the user may not write, because it is ours and leaves the machine with us.
const OURS: [&str; 3] = [TLS, "/opt/capstan", "/etc/systemd/system/k3s.service.d"];

/// k3s reads what lies here when it starts, and only then.
const OWN_FOLDERS: [&str; 2] = ["/etc/rancher", "/var/lib/rancher/k3s"];

/// Snapshots before upgrades are called this, then the node's name and the time.
const SNAPSHOT: &str = "capstan-before-upgrade";

/// Runs the words behind it if the server is up, which it may be about to be: two minutes, as long as it says so.
const IF_UP: &str = "for _ in $(seq 60); do case $(systemctl is-active k3s) in active) exec \"$@\" ;; \
    activating | reloading) sleep 2 ;; *) break ;; esac; done; echo 'k3s is not up: nothing to take a snapshot of'";

pub(crate) fn render(inputs: &Inputs<'_>) -> Result<Rendered, InputError> {
    let k3s = software::program_path(inputs.version)?;
    let config = config::render(inputs)?;
    let files = user::files(inputs.config, inputs.secrets, is_own, is_taken)?;
    let before = user::commands(&inputs.config.before, "before")?;
    let after = user::commands(&inputs.config.after, "after")?;
    let proxy = Proxy::of(inputs)?;
    let mut periodic = user::periodic(&inputs.config.periodic)?;
    if !inputs.runs_periodic() {
        periodic.clear();
    }
    let of_user = user_probes::of(inputs)?;
    let fingerprint = fingerprint::of(inputs, &files, before.iter().chain(&after), &periodic, &of_user);

    let (read_at_start, files): (Vec<UserFile>, Vec<UserFile>) =
        files.into_iter().partition(|file| file.restarts);

    let mut steps: Vec<Step> = vec![script(release::script(inputs.config)?), vacant()];
    steps.extend(files.into_iter().map(user_file));
    steps.extend(before.into_iter().map(user_command));
    let program = software::program(inputs.software, &k3s);
    // The version that still runs must not leave before another one does.
    let former = inputs.former.filter(|former| former.path != program.path).cloned();
    steps.extend(former.into_iter().chain([program]).map(|program| fetch(program_step(&program), program)));
    steps.extend(inputs.images.map(|images| fetch(name("images"), software::images(images))));
    steps.push(room());
    steps.push(Step::new(name(RESTART_GATE), Action::Gate(Gate {})));
    let snapshot = inputs.snapshot.filter(|_| inputs.role.is_server());
    steps.extend(snapshot.map(|snapshot| save(&k3s, inputs, snapshot)));
    steps.extend(inputs.heal.boot_id().map(reboot));
    // From here on a k3s that starts, for whatever reason, starts with what this plan says.
    steps.extend(read_at_start.into_iter().map(user_file));
    steps.push(file("config", CONFIG, Content::from(config), true));
    let environment = proxy.as_ref().map(Proxy::environment);
    steps.extend(environment.map(|environment| file("proxy", PROXY, Content::from(environment), true)));
    if let Some(certificates) = inputs.certificates.filter(|_| inputs.role.is_server()) {
        steps.extend(tls(certificates));
    }
    steps.push(start(inputs, &k3s, &fingerprint));
    let ready = Target::Exec(argv(&ready_words(inputs, &k3s)));
    steps.push(Step {
        timeout_seconds: 30,
        repeat: Repeat::Always,
        retry: Some(Retry::every(2, 150)),
        ..Step::new(name("ready"), Action::Check(Check { target: ready }))
    });
    steps.extend(snapshot.map(|snapshot| prune(&k3s, inputs, snapshot)));
    steps.extend(after.into_iter().map(user_command));
    if inputs.heal.reapply.is_some() {
        steps.iter_mut().filter(|step| step.path().is_some()).for_each(|step| step.repeat = Repeat::Always);
    }
    let drift = inputs.on_drift();
    // The script is Capstan's own: a reset needs it.
    let theirs = steps.iter_mut().filter(|step| step.name.as_str() != "script");
    theirs.for_each(|step| step.on_drift = drift.policy);
    let mut agent = inputs.agent.cloned();
    let artifacts = steps.iter_mut().filter_map(|step| match &mut step.action {
        Action::Artifact(artifact) => Some(&mut artifact.sources),
        _ => None,
    });
    for source in artifacts.chain(agent.as_mut().map(|agent| &mut agent.sources)).flatten() {
        let through = proxy.as_ref().filter(|_| inputs.proxies_downloads());
        // What comes from an earlier plan may have another one.
        source.proxy = through.and_then(|proxy| proxy.of_source(source));
    }
    let probes = probes::of(inputs).into_iter().chain(of_user).collect();
    let tokens = [Some(inputs.token), inputs.agent_token.filter(|_| inputs.role.is_server())];
    let tokens = tokens.into_iter().flatten().map(|token| SecretText::new(token::password(token)));
    let redact = tokens.chain(proxy.iter().flat_map(Proxy::redact)).collect();
    let left_out = inputs.left_out();
    let (repair_windows, host_windows) = (drift.windows, drift.host_windows);
    Ok(Rendered {
        steps,
        probes,
        periodic,
        repair_windows,
        host_windows,
        agent,
        redact,
        fingerprint,
        left_out,
    })
}

fn script(content: String) -> Step {
    let path = MachinePath::new(SCRIPT).expect("a path of this module, absolute and plain");
    let mode = Mode::new(0o755).expect("a mode");
    let content = Content::from(content);
    Step::new(name("script"), Action::File(File { path, content, mode, owner: 0, group: 0, secret: false }))
}

fn vacant() -> Step {
    let target = Target::Exec(argv(&["/bin/sh", SCRIPT, "vacant"]));
    Step::new(name("vacant"), Action::Check(Check { target }))
}

fn fetch(step: StepName, artifact: Artifact) -> Step {
    Step {
        timeout_seconds: 1800,
        retry: Some(Retry { attempts: 10, delay_seconds: 2, max_delay_seconds: 60 }),
        ..Step::new(step, Action::Artifact(artifact))
    }
}

/// By its path, so that a version has one name for as long as it is on the machine.
fn program_step(program: &Artifact) -> StepName {
    user::step_name(PROGRAM, program.path.as_str())
}

fn room() -> Step {
    let undo = Undo { argv: argv(&["/bin/sh", SCRIPT, "clean"]), env: Vec::new() };
    let room = Command { undo: Some(undo), ..Command::new(argv(&["/bin/sh", SCRIPT, "room"])) };
    Step { timeout_seconds: 300, ..Step::new(name("room"), Action::Command(room)) }
}

/// Booting the machine ends the step, and the agent with it. The agent starts with the machine, finds that the step was
/// interrupted and asks the guard, which needs no memory: the boot ID is another one. So this cannot go round in circles.
/// It is retried because systemd may end the command before it ends the agent, which is a failure of the command.
fn reboot(boot_id: &str) -> Step {
    let unless = Some(argv(&["/bin/sh", SCRIPT, "rebooted", boot_id]));
    let reboot = Command { unless, ..Command::new(argv(&["/bin/sh", SCRIPT, "reboot", boot_id])) };
    Step {
        timeout_seconds: 600,
        retry: Some(Retry { attempts: 5, delay_seconds: 30, max_delay_seconds: 120 }),
        ..Step::new(name("reboot"), Action::Command(reboot))
    }
}

fn start(inputs: &Inputs<'_>, k3s: &str, fingerprint: &Fingerprint) -> Step {
    let unit = Unit {
        name: format!("{}.service", unit::name(inputs.role)).parse().expect("a name of this module"),
        content: Content::from(unit::content(inputs.role, k3s, inputs.config.proxy.as_ref().map(|_| PROXY))),
        restart: fingerprint.restart.to_string().parse().expect("hexadecimal digits"),
        stop: Some(Stop { argv: argv(&["/bin/sh", SCRIPT, "stop"]), timeout_seconds: 120 }),
    };
    Step {
        timeout_seconds: 900,
        retry: Some(Retry { attempts: 10, delay_seconds: 2, max_delay_seconds: 30 }),
        ..Step::new(name("start"), Action::Unit(unit))
    }
}

fn ready_words<'a>(inputs: &Inputs<'a>, k3s: &'a str) -> [&'a str; 6] {
    ["/bin/sh", SCRIPT, "ready", unit::kind(inputs.role), k3s, inputs.node_name]
}

/// At most once in a revision: a snapshot that was interrupted may be half a snapshot, and the next revision takes
/// another one.
fn save(k3s: &str, inputs: &Inputs<'_>, snapshot: Snapshot) -> Step {
    let server = format!("https://127.0.0.1:{}", inputs.listen_port());
    let words = [k3s, "etcd-snapshot", "save", "--etcd-server", &server, "--name", SNAPSHOT];
    let words = if snapshot.may_be_down {
        [&["/bin/sh", "-c", IF_UP, "sh"], &words[..]].concat()
    } else {
        words.to_vec()
    };
    // What makes it another command in another revision.
    let env = vec![EnvVar::new("CAPSTAN_REVISION", snapshot.revision.to_string())];
    Step { timeout_seconds: 300, repeat: Repeat::Once, ..command("snapshot", argv(&words), env) }
}

fn prune(k3s: &str, inputs: &Inputs<'_>, snapshot: Snapshot) -> Step {
    let server = format!("https://127.0.0.1:{}", inputs.listen_port());
    let most = snapshot.retention.to_string();
    let words = [
        k3s,
        "etcd-snapshot",
        "prune",
        "--etcd-server",
        &server,
        "--name",
        SNAPSHOT,
        "--snapshot-retention",
        &most,
    ];
    let retry = Some(Retry { attempts: 5, delay_seconds: 2, max_delay_seconds: 30 });
    Step { timeout_seconds: 120, retry, ..command("snapshot-prune", argv(&words), Vec::new()) }
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

fn is_own(path: &MachinePath) -> bool {
    OWN_FOLDERS.iter().any(|folder| is_at_or_below(path, folder))
}

/// What the steps above write themselves.
fn is_taken(path: &MachinePath) -> bool {
    path.as_str() == CONFIG || OURS.iter().any(|ours| is_at_or_below(path, ours))
}

fn is_at_or_below(path: &MachinePath, folder: &str) -> bool {
    path.as_str().strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether Kubernetes is started again when this file changes.
pub(crate) fn restarts_for(path: &str) -> bool {
    MachinePath::new(path).is_ok_and(|path| is_own(&path))
}

/// What a change of a setting costs, and why.
pub(crate) fn setting_cost(key: &str) -> (Cost, &'static str) {
    let setting = settings::find(key);
    (setting.cost, setting.why)
}

/// Every setting that is known: key, machines, cost and reason, for the documentation.
pub(crate) fn settings() -> impl Iterator<Item = (&'static str, &'static str, Cost, &'static str)> {
    settings::SETTINGS.iter().chain(settings::DECIDED).map(|setting| {
        let machines = match setting.on {
            On::Servers => "servers",
            On::All => "all",
        };
        (setting.key, machines, setting.cost, setting.why)
    })
}
