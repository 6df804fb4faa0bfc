//! The root file system that machines get copies of: Debian with systemd, an SSH server and cloud-init, and a few
//! files of ours that make it a good machine inside systemd-nspawn.
//!
//! It is for machines of any cluster: nothing of Capstan is in it, and of k3s only what the kernel that machines
//! share with this one makes necessary.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{Cache, remove_partials};
use crate::follow::{Listener, follow, run};
use crate::pins::fnv1a;
use crate::progress::{Progress, took};

/// Its systemd is the last but one that knows cgroup v1.
const SUITE: &str = "bookworm";

/// A mirror of Debian to take packages from, where the usual one cannot be reached.
const MIRROR: &str = "CAPSTAN_DEBIAN_MIRROR";

const PACKAGES: &[&str] = &[
    "systemd",
    "systemd-sysv",
    "dbus",
    "udev",
    "openssh-server",
    "cloud-init",
    // Without it cloud-init ends with an error of its own.
    "locales",
    "sudo",
    "curl",
    "ca-certificates",
    "iproute2",
    "iputils-ping",
    "kmod",
    "procps",
    "less",
    // What a released k3s carries for itself.
    "conntrack",
    "ethtool",
    "ipset",
    "iptables",
    "socat",
    // Linked statically: becomes the images that tests run.
    "busybox-static",
];

/// Nobody reads them in there, and they are a third of it.
const LEFT_OUT: [&str; 4] =
    ["/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*"];

/// Files of ours: where, with which mode, and what is in them.
const FILES: &[(&str, u32, &str)] = &[
    ("etc/cloud/cloud.cfg.d/99-machine.cfg", 0o644, include_str!("../rootfs/cloud.cfg")),
    ("etc/sudoers.d/90-machine", 0o440, include_str!("../rootfs/sudoers")),
    ("etc/systemd/system.conf.d/10-machine.conf", 0o644, include_str!("../rootfs/system.conf")),
    (CGROUPS, 0o644, include_str!("../rootfs/machine-cgroups.service")),
    (
        "etc/systemd/system/cri-containerd-.scope.d/10-machine.conf",
        0o644,
        include_str!("../rootfs/pod-scope.conf"),
    ),
    ("etc/systemd/system/k3s.service.d/10-machine.conf", 0o644, include_str!("../rootfs/k3s-machine.conf")),
    (
        "etc/systemd/system/k3s-agent.service.d/10-machine.conf",
        0o644,
        include_str!("../rootfs/k3s-machine.conf"),
    ),
    ("usr/local/lib/machine/prepare-k3s", 0o755, include_str!("../rootfs/prepare-k3s.sh")),
    // Names are looked up nowhere: there is no way out.
    ("etc/resolv.conf", 0o644, ""),
];

const CGROUPS: &str = "etc/systemd/system/machine-cgroups.service";

/// Links of ours: units that are started, and timers that are not, because they ask the network for packages.
const LINKS: &[(&str, &str)] = &[
    ("etc/systemd/system/sysinit.target.wants/machine-cgroups.service", "../machine-cgroups.service"),
    (
        "etc/systemd/system/multi-user.target.wants/systemd-networkd.service",
        "/lib/systemd/system/systemd-networkd.service",
    ),
    ("etc/systemd/system/apt-daily.timer", "/dev/null"),
    ("etc/systemd/system/apt-daily-upgrade.timer", "/dev/null"),
    ("etc/systemd/system/dpkg-db-backup.timer", "/dev/null"),
    ("etc/systemd/system/e2scrub_all.timer", "/dev/null"),
    ("etc/systemd/system/fstrim.timer", "/dev/null"),
];

/// Somebody who is not root and may become root.
const USER: &str = r#"chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 debian"#;

/// Where the root file system is, or an error that says how to get it.
pub fn machine_rootfs() -> Result<PathBuf> {
    let path = path(&Cache::of_user()?);
    if !path.is_dir() {
        bail!("there is no root file system for machines at {}: run `make tools` as root", path.display());
    }
    Ok(path)
}

pub(crate) fn path(cache: &Cache) -> PathBuf {
    cache.root().join("machine-rootfs").join(format!("{SUITE}-{:08x}", digest() >> 32))
}

/// Changes whenever anything in the recipe does. What Debian has mended since then does not count.
pub(crate) fn digest() -> u64 {
    let mut parts: Vec<&str> = vec![SUITE, USER];
    parts.extend(PACKAGES.iter().chain(&LEFT_OUT));
    parts.extend(FILES.iter().flat_map(|(path, _, content)| [*path, *content]));
    parts.extend(LINKS.iter().flat_map(|(path, target)| [*path, *target]));
    fnv1a(&parts)
}

pub(crate) fn is_root() -> Result<bool> {
    Ok(run(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Makes it, unless it is there.
pub(crate) fn make(cache: &Cache, progress: Progress<'_>) -> Result<()> {
    let path = path(cache);
    if path.is_dir() {
        progress("machine root file system: there");
        return Ok(());
    }
    let folder = path.parent().context("it has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    remove_partials(folder)?;
    let partial = path.with_extension("partial");
    progress("machine root file system: fetching Debian packages");
    let started = Instant::now();
    bootstrap(&partial, progress)?;
    furnish(&partial).context("cannot write into the machines' root file system")?;
    // Thousands of files: all of them, then the name.
    run(Command::new("sync").arg("--file-system").arg(&partial))?;
    fs::rename(&partial, &path).with_context(|| format!("cannot name {}", path.display()))?;
    progress(&format!("machine root file system: made in {}", took(started.elapsed())));
    Ok(())
}

fn bootstrap(target: &Path, progress: Progress<'_>) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args(["--mode=root", "--variant=minbase", "--format=directory"]);
    command.arg(format!("--include={}", PACKAGES.join(",")));
    command.arg(r#"--aptopt=Acquire::Languages "none""#);
    command.args(LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.arg(format!("--customize-hook={USER}"));
    command.arg(SUITE).arg(target).args(std::env::var_os(MIRROR).filter(|mirror| !mirror.is_empty()));
    let mut listener = Lines { started: Instant::now(), last: VecDeque::new() };
    let status = follow(&mut command, &mut listener, progress)
        .context("cannot run `mmdebstrap`: install the package mmdebstrap (`make packages` does)")?;
    ensure!(
        status.success(),
        "mmdebstrap failed ({status}); the last it said:\n  {}\n\
         where Debian's mirror cannot be reached, name another in {MIRROR}",
        listener.last.make_contiguous().join("\n  ")
    );
    Ok(())
}

fn furnish(root: &Path) -> Result<()> {
    for (path, mode, content) in FILES {
        let path = root.join(path);
        prepare(&path)?;
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
    }
    for (path, target) in LINKS {
        let path = root.join(path);
        prepare(&path)?;
        symlink(target, &path)?;
    }
    // Two machines must not have one key, nor one identity: both are made with the machine.
    for entry in fs::read_dir(root.join("etc/ssh"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path())?;
        }
    }
    fs::write(root.join("etc/machine-id"), "")?;
    Ok(())
}

/// Makes room for a file: its folder, and nothing where it goes.
fn prepare(path: &Path) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The last lines, of which the very last says how far it is.
struct Lines {
    started: Instant,
    last: VecDeque<String>,
}

impl Listener for Lines {
    fn hear(&mut self, line: String) {
        if self.last.len() == 20 {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn report(&self) -> String {
        let last = self.last.back().map_or("", |line| line.trim());
        format!("machine root file system: {}, {last}", took(self.started.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_are_put_in_and_keys_are_taken_out() {
        let root = std::env::temp_dir().join(format!("capstan-rootfs-test-{}", std::process::id()));
        fs::create_dir_all(root.join("etc/ssh")).expect("made");
        for name in ["ssh_host_rsa_key", "ssh_host_rsa_key.pub", "sshd_config"] {
            fs::write(root.join("etc/ssh").join(name), "").expect("written");
        }
        symlink("/nowhere/outside", root.join("etc/resolv.conf")).expect("linked");
        furnish(&root).expect("furnished");
        for (path, mode, content) in FILES {
            let path = root.join(path);
            assert_eq!(fs::read_to_string(&path).expect("there"), *content);
            let found = fs::symlink_metadata(&path).expect("there").permissions().mode();
            assert_eq!(found & 0o7777, *mode, "{}", path.display());
        }
        for (path, target) in LINKS {
            assert_eq!(fs::read_link(root.join(path)).expect("a link"), Path::new(target));
        }
        let left: Vec<_> = fs::read_dir(root.join("etc/ssh")).expect("there").flatten().collect();
        assert_eq!(left.len(), 1);
        fs::remove_dir_all(&root).expect("removed");
    }

    #[test]
    fn scripts_are_valid_shell() {
        for (path, mode, content) in FILES {
            if mode & 0o111 != 0 {
                assert!(content.starts_with("#!/bin/sh\n"), "{path}");
                let status = Command::new("sh").args(["-n", "-c", content]).status().expect("sh runs");
                assert!(status.success(), "{path}");
            }
        }
    }

    #[test]
    fn the_linked_unit_is_one_of_the_files() {
        assert!(FILES.iter().any(|(path, ..)| *path == CGROUPS));
    }
}
