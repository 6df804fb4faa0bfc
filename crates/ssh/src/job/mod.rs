//! Bootstrap data as a job that runs on the host by itself: the files of a claim's folder. Pure.
//!
//! The folder of a claim contains a runner, small steps in order, and their data. The runner records which steps have
//! begun and ended. After an interruption it repeats only steps that may be repeated. See `sh/run.sh`.

mod by_cloud_init;
mod by_us;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use report::{JobReport, read};

use capstan_infrastructure::BootstrapData;
use std::fmt::Write as _;

use crate::cloudconfig::{self, CLOUD_INITS, CloudConfig, Metadata, Refused};
use crate::script::{Script, encode, quote};

/// What upstream's bootstrap data leaves when it is through.
pub(crate) const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";
/// Where upstream's bootstrap data puts what kubeadm reads.
const KUBEADM: &str = "/run/kubeadm/";

/// What machines leave behind when they are not undone. What is there before a claim is not held against it. Of the data
/// folder of k3s only what k3s itself keeps there: volumes of users stay on a host that is released.
pub(crate) const WATCHED: [&str; 13] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/etc/cni/net.d",
    "/var/lib/cni",
    "/etc/rancher",
    "/var/lib/rancher/k3s/agent",
    "/var/lib/rancher/k3s/data",
    "/var/lib/rancher/k3s/server",
    "/var/lib/rancher/rke2",
    "/opt/capstan",
    "/etc/capstan",
    "/etc/systemd/system/capstan-agent.service",
];

const LIB: &str = include_str!("../sh/lib.sh");
const RUN: &str = include_str!("../sh/run.sh");
const START: &str = include_str!("../sh/start.sh");
const UPLOAD: &str = include_str!("../sh/upload.sh");
const STATUS: &str = include_str!("../sh/status.sh");
const WAIT: &str = include_str!("../sh/wait.sh");
const LEAVE: &str = include_str!("../sh/leave.sh");
const RESET: &str = include_str!("../sh/reset.sh");

/// What must be known of a host to carry data out on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostView {
    pub(crate) hostname: String,
    /// Where its cloud-init is, if it has one.
    pub(crate) cloud_init: Option<String>,
}

/// Whether a step that was cut short is begun again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It comes to the same.
    Again,
    /// Nobody knows what it does.
    Once,
}

/// What stands in a comment at the head of data that says it may be cut off anywhere and run again.
const REPEATABLE: &str = "# capstan.dev/repeatable";

impl Repeat {
    /// What the data says of itself.
    fn of(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let mut head = text.lines().take_while(|line| line.starts_with('#'));
        if head.any(|line| line.trim_end() == REPEATABLE) { Self::Again } else { Self::Once }
    }
}

/// The files of a claim's folder.
pub(crate) struct Job {
    files: Vec<(String, Vec<u8>)>,
    names: String,
    steps: usize,
}

impl Job {
    fn new() -> Self {
        let mut job = Self { files: Vec::new(), names: String::new(), steps: 0 };
        job.add("lib", LIB);
        job.add("run", RUN);
        job.add("watched", WATCHED.join("\n"));
        job
    }

    fn add(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.files.push((name.to_owned(), content.into()));
    }

    /// Adds a step. `name` is for people.
    fn step(&mut self, repeat: Repeat, name: &str, body: &str) {
        self.steps += 1;
        let number = format!("{:03}", self.steps);
        let how = match repeat {
            Repeat::Again => "again",
            Repeat::Once => "once",
        };
        self.add(&format!("steps/{number}.{how}"), format!("dir=$1\nroot=$2\n. \"$dir/lib\"\n{body}\n"));
        self.name(&number, name);
    }

    fn name(&mut self, id: &str, name: &str) {
        // Writing to a String cannot fail.
        _ = writeln!(self.names, "{id} {name}");
    }

    /// What puts the folder there and starts the work.
    pub(crate) fn upload(&self, root: &str, claim: &str) -> Script {
        let mut put_all = String::from("put_all() {\n");
        let names = ("names".to_owned(), self.names.clone().into_bytes());
        for (name, content) in self.files.iter().chain([&names]) {
            _ = writeln!(
                put_all,
                "put {} <<'CAPSTAN_END'\n{}\nCAPSTAN_END",
                quote(name),
                lines(&encode(content))
            );
        }
        put_all.push_str(":\n}\n");
        of_claim(root, claim).set("watched", &WATCHED.join(" ")).also(&put_all).run(UPLOAD)
    }
}

/// Text in lines that every `base64` reads.
fn lines(text: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    lines.join("\n")
}

/// A script about a claim.
pub(crate) fn of_claim(root: &str, claim: &str) -> Script {
    Script::new(root).set("claim", claim).also(START)
}

/// What asks how the data of a claim fares, and goes on with it if nobody does.
pub(crate) fn status(root: &str, claim: &str) -> Script {
    of_claim(root, claim).run(STATUS)
}

/// What waits until the work of a claim has ended, or for a while.
pub(crate) fn wait(root: &str, claim: &str) -> Script {
    of_claim(root, claim).run(WAIT)
}

/// What undoes a claim, and asks how that fares.
pub(crate) fn leave(root: &str, claim: &str) -> Script {
    of_claim(root, claim).set("reset", &encode(RESET.as_bytes())).run(LEAVE)
}

/// The work that carries data out on a host, under a claim, for the machine with this provider ID.
///
/// # Errors
/// If the data is not understood, or asks for what cannot be done on this host.
pub(crate) fn compile(
    data: &BootstrapData,
    claim: &str,
    provider_id: &str,
    host: &HostView,
) -> Result<Job, Refused> {
    match data.format.as_str() {
        "script" => Ok(script(&data.value)),
        // As cloud-init has it: what begins like a script is one.
        "" | "cloud-config" if data.value.starts_with(b"#!") => Ok(script(&data.value)),
        "" | "cloud-config" => {
            let metadata = Metadata {
                instance_id: claim.to_owned(),
                hostname: host.hostname.clone(),
                provider_id: provider_id.to_owned(),
            };
            let config = cloudconfig::parse(&data.value, &metadata)?;
            let mut job = Job::new();
            if config.write_files.iter().any(|file| file.path.starts_with(KUBEADM)) {
                job.add("kubeadm", "");
            }
            if config.runcmd.iter().any(|command| command.mentions(SENTINEL)) {
                job.add("sentinel", SENTINEL);
            }
            match &host.cloud_init {
                Some(program) => by_cloud_init::steps(&mut job, program, &data.value, &config, &metadata),
                None => {
                    refuse_what_needs_cloud_init(&config)?;
                    by_us::steps(&mut job, &config, Repeat::of(&data.value));
                }
            }
            Ok(job)
        }
        other => Err(Refused::new(format!(
            "bootstrap data of the format {} is not supported: cloud-config and script are",
            crate::facts::plain(other, 32)
        ))),
    }
}

fn refuse_what_needs_cloud_init(config: &CloudConfig) -> Result<(), Refused> {
    match config.keys.iter().find(|key| CLOUD_INITS.contains(&key.as_str())) {
        Some(key) => Err(Refused::new(format!(
            "the key {key} of cloud-config needs cloud-init, which the host does not have: install cloud-init on it, \
             or take the key out"
        ))),
        None => Ok(()),
    }
}

fn script(data: &[u8]) -> Job {
    let mut job = Job::new();
    if String::from_utf8_lossy(data).contains(SENTINEL) {
        job.add("sentinel", SENTINEL);
    }
    job.add("data", data);
    let run = match data.starts_with(b"#!") {
        true => "chmod 700 \"$dir/data\" && \"$dir/data\"",
        false => "/bin/sh \"$dir/data\"",
    };
    job.step(Repeat::of(data), "script", &format!("{run}\njudge \"$?\""));
    job
}
