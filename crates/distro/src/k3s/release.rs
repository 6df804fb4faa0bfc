//! The files that stay on a machine's disk when its host is released.
//!
//! The policy is part of `k3s.sh`, which every plan writes. It is not an argument of the command that undoes the step
//! `room`: the agent keeps every undo that it has recorded and runs all of them on a reset. A path that was once an
//! argument would be removed even if the user has deleted it from the policy.

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_plan::MachinePath;

use super::is_at_or_below;
use crate::error::InputError;

const SCRIPT: &str = include_str!("k3s.sh");

/// Where the lists stand in the script.
const KEEP: &str = "\nKEEP=''\n";
const WIPE: &str = "\nWIPE=''\n";

const DATA: &str = "/var/lib/rancher/k3s";

/// Folders that users may keep something of, and whether they may keep all of it.
const KEEPABLE: [(&str, bool); 4] =
    [(DATA, false), ("/etc/rancher/k3s", false), ("/var/log/pods", true), ("/var/log/containers", true)];

/// The state of a cluster, and its keys. A machine that finds some of it is not vacant, or would start with it.
const STATE: [&str; 8] = [
    "/var/lib/rancher/k3s/data",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/k3s/server/cred",
    "/var/lib/rancher/k3s/server/db/etcd",
    "/var/lib/rancher/k3s/server/db/state.db",
    "/var/lib/rancher/k3s/server/tls",
    "/var/lib/rancher/k3s/server/token",
];

/// Folders of the operating system, and of Capstan itself, that are not removed, nor anything in them.
const SYSTEM: [&str; 16] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/opt/capstan",
    "/var/lib/capstan",
    "/var/lib/capstan-claims",
];

/// Folders that hold what is not only the user's. What is in them may be named, they themselves may not.
const SHARED: [&str; 17] = [
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/srv",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/lib/cloud",
    "/var/lib/systemd",
    "/var/log",
    "/var/opt",
    "/var/run",
    "/var/spool",
    "/var/tmp",
];

/// The script of a machine with this setup.
pub(super) fn script(config: &CapstanConfigSpec) -> Result<String, InputError> {
    let none = (Vec::new(), Vec::new());
    let (keep, wipe) =
        config.release.as_ref().map_or(none, |policy| (policy.keep.clone(), policy.wipe.clone()));
    let mut keep = paths("keep", &keep, may_be_kept)?;
    let wipe = paths("wipe", &wipe, may_be_wiped)?;
    for kept in &keep {
        if let Some(wiped) = wipe.iter().find(|wiped| overlap(kept, wiped)) {
            let why = format!("overlaps spec.release.wipe[{wiped}]: take one of them out");
            return Err(InputError::new(field("keep", kept.as_str()), why));
        }
    }
    if let Some(volumes) = volumes(config).filter(|volumes| !is_wiped(volumes, &wipe)) {
        if let Some(wiped) = wipe.iter().find(|wiped| overlap(&volumes, wiped)) {
            let why = "is inside the folder that spec.settings.default-local-storage-path names, which is itself inside a \
                       folder of k3s: name the whole folder, or use one elsewhere for volumes";
            return Err(InputError::new(field("wipe", wiped.as_str()), why));
        }
        keep.push(volumes);
    }
    let list = |name: &str, paths: &[MachinePath]| {
        let paths: Vec<String> = paths.iter().map(|path| path.as_str().replace('\'', r"'\''")).collect();
        format!("\n{name}='{}'\n", paths.join("\n"))
    };
    Ok(SCRIPT.replacen(KEEP, &list("KEEP", &keep), 1).replacen(WIPE, &list("WIPE", &wipe), 1))
}

/// Where k3s is told to put volumes, if that is below a folder of its own. Workers are not told, but they keep everything that
/// is directly in the folder of k3s and is not its own.
fn volumes(config: &CapstanConfigSpec) -> Option<MachinePath> {
    let path = config.settings.get("default-local-storage-path")?.0.as_str()?;
    MachinePath::new(path).ok().filter(|path| may_be_kept(path).is_ok())
}

fn is_wiped(path: &MachinePath, wipe: &[MachinePath]) -> bool {
    wipe.iter().any(|wiped| is_at_or_below(path, wiped.as_str()))
}

fn field(list: &str, path: &str) -> String {
    format!("spec.release.{list}[{path}]")
}

fn paths(
    list: &str,
    texts: &[String],
    check: impl Fn(&MachinePath) -> Result<(), &'static str>,
) -> Result<Vec<MachinePath>, InputError> {
    let read = |text: &String| {
        let path =
            MachinePath::new(text).map_err(|error| InputError::new(field(list, text), error.to_string()))?;
        check(&path).map_err(|why| InputError::new(field(list, text), why))?;
        Ok(path)
    };
    texts.iter().map(read).collect()
}

fn may_be_kept(path: &MachinePath) -> Result<(), &'static str> {
    let is_ours =
        |(folder, whole): &(&str, bool)| is_at_or_below(path, folder) && (*whole || path.as_str() != *folder);
    if !KEEPABLE.iter().any(is_ours) {
        return Err(
            "is not below /var/lib/rancher/k3s, /etc/rancher/k3s, /var/log/pods or /var/log/containers: take it \
                    out; whatever is elsewhere, and is not state of Kubernetes, stays unless spec.release.wipe names it",
        );
    }
    match STATE.iter().any(|state| touches(path, state)) {
        true => Err(
            "holds state or keys of the cluster, which must not outlive the machine: take it out, or name a path \
                     inside it that does not",
        ),
        false => Ok(()),
    }
}

fn may_be_wiped(path: &MachinePath) -> Result<(), &'static str> {
    let is_system = SYSTEM.iter().any(|system| touches(path, system)) || SHARED.contains(&path.as_str());
    match is_system {
        true => {
            Err("belongs to the operating system or to Capstan: name a folder of your own, such as /srv/data")
        }
        false => Ok(()),
    }
}

/// Whether a path is a folder, is in it, or holds it.
fn touches(path: &MachinePath, folder: &str) -> bool {
    is_at_or_below(path, folder)
        || folder.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

fn overlap(one: &MachinePath, other: &MachinePath) -> bool {
    touches(one, other.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MachinePath {
        MachinePath::new(text).expect("a path")
    }

    #[test]
    fn the_script_has_a_place_for_each_list() {
        for place in [KEEP, WIPE] {
            assert_eq!(SCRIPT.matches(place).count(), 1, "{place:?}");
        }
    }

    /// What can be kept must not make the next machine refuse the host.
    #[test]
    fn what_makes_a_host_occupied_can_never_be_kept() {
        let list = SCRIPT.split("\nSTATE=\"").nth(1).and_then(|rest| rest.split('"').next());
        let list = list.expect("the list of the script").replace("$DATA", DATA);
        assert!(list.split_whitespace().count() >= 5, "{list}");
        for state in list.split_whitespace() {
            assert!(may_be_kept(&path(state)).is_err(), "{state}");
            assert!(may_be_kept(&path(&format!("{state}/below"))).is_err(), "{state}");
            let above = path(state).parent().expect("a folder");
            assert!(may_be_kept(&above).is_err(), "{above}");
        }
    }

    #[test]
    fn paths_are_kept_below_the_folders_of_k3s_only() {
        for (text, expected) in [
            ("/var/lib/rancher/k3s/server/db/snapshots", true),
            ("/var/lib/rancher/k3s/storage", true),
            ("/var/lib/rancher/k3s/agent/images", true),
            ("/etc/rancher/k3s/notes", true),
            ("/var/log/pods", true),
            ("/var/log/pods/a", true),
            ("/var/lib/rancher/k3s", false),
            ("/var/lib/rancher/k3s/server", false),
            ("/var/lib/rancher/k3s/server/db", false),
            ("/var/lib/rancher/k3s/server/tls/mine", false),
            ("/etc/rancher/k3s", false),
            ("/etc/rancher/node/password", false),
            ("/var/lib/kubelet/pods", false),
            ("/srv/data", false),
            ("/var/lib/rancher/k3s2", false),
        ] {
            assert_eq!(may_be_kept(&path(text)).is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_operating_system_is_not_wiped() {
        for (text, expected) in [
            ("/var/lib/rancher/k3s/storage", true),
            ("/srv/data", true),
            ("/data", true),
            ("/home/shop/data", true),
            ("/var/lib/shop", true),
            ("/mnt/disk1", true),
            ("/etc", false),
            ("/etc/ssh", false),
            ("/usr", false),
            ("/usr/local/bin", false),
            ("/home", false),
            ("/var", false),
            ("/var/lib", false),
            ("/boot", false),
            ("/boot/efi", false),
            ("/opt", false),
            ("/opt/capstan", false),
            ("/opt/capstan/lib", false),
            ("/var/lib/capstan", false),
            ("/proc/1", false),
            ("/root", false),
            ("/lib/modules", false),
        ] {
            assert_eq!(may_be_wiped(&path(text)).is_ok(), expected, "{text}");
        }
    }
}
