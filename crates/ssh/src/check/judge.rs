//! The findings about a host, from what was collected on it. Pure.

use capstan_api::infrastructure::Host;

use super::{Collected, Finding, Level};
use crate::CLAIMS;
use crate::error::SshError;
use crate::work::not_root;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Ports that a control plane or a node needs for itself.
const PORTS: [(u16, &str); 4] =
    [(6443, "the API server"), (2379, "etcd's clients"), (2380, "etcd's peers"), (10250, "the kubelet")];
/// Architectures that the agent is built for.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
/// Programs without which nothing can be carried out, and their packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("flock", "util-linux"),
    ("setsid", "util-linux"),
    ("base64", "coreutils"),
    ("tar", "tar"),
    ("gzip", "gzip"),
];
/// Programs that can fetch something: one of them is enough.
const FETCHERS: [&str; 3] = ["curl", "wget", "python3"];
/// Folders, what they should have free, and what they must. Those further down are told of only where they are on a disk
/// of their own.
const FOLDERS: [(&str, u64, u64); 6] = [
    ("/var", 10 * GIB, 2 * GIB),
    ("/var/lib/rancher", 8 * GIB, GIB),
    ("/var/lib/kubelet", GIB, 256 * MIB),
    ("/var/lib/capstan", GIB, 256 * MIB),
    ("/opt", GIB, 256 * MIB),
    ("/opt/capstan", GIB, 256 * MIB),
];
/// Less is not enough for a node, and less is tight.
const MEMORY: (u64, u64) = (512 * MIB, 2 * GIB);
/// Seconds by which a clock may be off before somebody notices, and before certificates and tokens are refused.
const SKEW: (u64, u64) = (5, 60);

/// What an error is about.
pub(super) const fn subject(error: &SshError) -> &'static str {
    match error {
        SshError::Credentials(_) | SshError::Refused { .. } => "credential",
        SshError::PinnedKey { .. }
        | SshError::WrongHostKey { .. }
        | SshError::NoPinnedKeyOffered { .. }
        | SshError::NothingPinned { .. }
        | SshError::Pin(_) => "host key",
        SshError::NotRoot(_) => "root",
        SshError::Down { .. }
        | SshError::Protocol { .. }
        | SshError::Lost { .. }
        | SshError::Slow { .. }
        | SshError::Silent { .. } => "reachability",
        SshError::Registration(_) => "registration",
        SshError::Failed { .. } => "scripts",
    }
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, subject: &'static str, message: impl Into<String>, remedy: &str) {
        let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
        self.0.push(Finding { level, subject, message: message.into(), remedy });
    }
}

/// The findings about a host. Effects of the machine that has claimed the host are not findings.
pub fn judge(collected: &Collected, host: &Host) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    system(collected, &mut found);
    resources(collected, &mut found);
    programs(collected, &mut found);
    if let Some(claim) = &host.spec.claim {
        let message =
            format!("HostMachine {} of Cluster {} has this host", claim.machine_name, claim.cluster_name);
        found.add(Level::Note, "claim", message, "");
    } else {
        remains(collected, &mut found);
    }
    if host.spec.quarantine.is_some() {
        found.add(
            Level::Problem,
            "quarantine",
            "the host is quarantined",
            "put it right, then remove spec.quarantine of the Host",
        );
    }
    if host.spec.unschedulable == Some(true) {
        found.add(Level::Note, "schedule", "spec.unschedulable is set: the host is not claimed", "");
    }
    found.0
}

fn system(collected: &Collected, found: &mut Findings) {
    if !collected.is_root {
        found.add(Level::Problem, "root", not_root(&collected.user), "");
    }
    if !collected.has_systemd {
        found.add(
            Level::Problem,
            "systemd",
            "systemd does not run this host, and the agent is a unit of systemd's",
            "install a distribution that systemd runs",
        );
    }
    let architecture = collected.reached.facts.architecture.as_deref().unwrap_or("unknown");
    if !ARCHITECTURES.contains(&architecture) {
        let message = format!("the architecture {architecture} has no agent");
        found.add(Level::Problem, "architecture", message, "use a host of amd64 or arm64");
    }
    let off = collected.skew.unsigned_abs();
    let level = if off > SKEW.1 { Level::Problem } else { Level::Warning };
    if off > SKEW.0 {
        let way = if collected.skew > 0 { "ahead" } else { "behind" };
        let message =
            format!("the clock is {off} s {way}; certificates and tokens are refused when it is too far off");
        found.add(level, "clock", message, "set it, and start an NTP client (systemd-timesyncd, chrony)");
    }
    match collected.cgroup {
        Some(2) => {
            for controller in ["cpu", "memory", "pids"] {
                if !collected.controllers.contains(controller) {
                    let message = format!("the control group controller {controller} is not there");
                    found.add(
                        Level::Problem,
                        "cgroups",
                        message,
                        "switch it on (on the kernel's command line)",
                    );
                }
            }
        }
        Some(_) => {
            for controller in ["cpu", "memory"] {
                if !collected.controllers.contains(controller) {
                    let message = format!("the control group controller {controller} is not there");
                    let remedy = "add `cgroup_enable=memory cgroup_memory=1` to the kernel's command line";
                    found.add(Level::Problem, "cgroups", message, remedy);
                }
            }
            let message =
                "control groups are of version 1, which new versions of Kubernetes refuse by default";
            found.add(Level::Warning, "cgroups", message, "boot with systemd.unified_cgroup_hierarchy=1");
        }
        None => found.add(Level::Problem, "cgroups", "there are no control groups", "mount /sys/fs/cgroup"),
    }
    for module in ["overlay", "br_netfilter"] {
        if !collected.modules.contains(module) {
            let message = format!("the kernel module {module} is neither loaded nor found");
            found.add(Level::Warning, "kernel", message, "install the modules of the kernel that runs");
        }
    }
    if !collected.swap.is_empty() {
        let message = format!(
            "it swaps to {}; the kubelet puts up with that only if told to",
            collected.swap.join(", ")
        );
        found.add(Level::Note, "swap", message, "");
    }
}

fn resources(collected: &Collected, found: &mut Findings) {
    let memory = collected.reached.facts.memory_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    match memory {
        Some(bytes) if bytes < MEMORY.0 => {
            let message = format!("{} MiB of memory are too little for a node", bytes / MIB);
            found.add(
                Level::Problem,
                "memory",
                message,
                "give it at least 512 MiB, or 2 GiB for a control plane",
            );
        }
        Some(bytes) if bytes < MEMORY.1 => {
            let message =
                format!("{} MiB of memory will do for a worker, not for a control plane", bytes / MIB);
            found.add(Level::Warning, "memory", message, "");
        }
        Some(_) => {}
        None => found.add(Level::Warning, "memory", "it does not say how much memory it has", ""),
    }
    for (folder, enough, least) in FOLDERS {
        match collected.free.get(folder) {
            Some(free) if free < &enough => {
                let level = if *free < least { Level::Problem } else { Level::Warning };
                let message = format!("{} MiB are free in {folder}", free / MIB);
                let remedy = format!("make room: at least {} MiB, better {} MiB", least / MIB, enough / MIB);
                found.add(level, "disk", message, &remedy);
            }
            None if folder.matches('/').count() == 1 => {
                found.add(Level::Warning, "disk", format!("it does not say what is free in {folder}"), "");
            }
            _ => {}
        }
    }
}

fn programs(collected: &Collected, found: &mut Findings) {
    for (program, package) in PROGRAMS {
        if !collected.programs.contains(program) {
            let message = format!("there is no `{program}`");
            found.add(Level::Problem, "programs", message, &format!("install the package {package}"));
        }
    }
    if !FETCHERS.iter().any(|program| collected.programs.contains(*program)) {
        let message = format!("nothing can fetch the agent: none of {} is there", FETCHERS.join(", "));
        found.add(Level::Problem, "download", message, "install the package curl");
    }
    let has_cloud_init = collected.programs.contains("cloud-init");
    let how = if has_cloud_init { "by its own cloud-init" } else { "by Capstan: there is no cloud-init" };
    found.add(Level::Note, "bootstrap", format!("cloud-config will be carried out {how}"), "");
}

/// What somebody else has left, or still runs.
fn remains(collected: &Collected, found: &mut Findings) {
    for (port, whose) in PORTS {
        if collected.listening.contains(&port) {
            let message = format!("port {port}, which {whose} must have, is in use");
            found.add(
                Level::Problem,
                "ports",
                message,
                &format!("stop who listens there (`ss -ltnp sport = {port}`)"),
            );
        }
    }
    for path in &collected.left {
        // Some distributions bring it along, and images may have the agent in them already.
        let level = match path.as_str() {
            "/etc/cni/net.d" | "/var/lib/cni" | "/opt/capstan" => Level::Warning,
            _ => Level::Problem,
        };
        let message = format!("{path} is there: an older cluster may have left it");
        found.add(
            level,
            "leftovers",
            message,
            "take the older cluster off the host, and remove what it left",
        );
    }
    for claim in &collected.claims {
        let message = format!("{CLAIMS}/{claim} is there: an earlier machine was not taken off the host");
        found.add(Level::Problem, "leftovers", message, "clean the host, then remove that folder");
    }
}
