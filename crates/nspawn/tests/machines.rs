//! Machines boot, keep their state, are reachable over SSH with their keys, and are removed completely.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_nspawn::{Error, Machine, MachineSpec, Seed, Set, remove_leftover_sets};
use tempfile::TempDir;

const BOOT: Duration = Duration::from_secs(120);

/// A folder for sets, and a key that is let in.
struct Yard {
    folder: TempDir,
}

impl Yard {
    fn new() -> Self {
        let folder = TempDir::with_prefix("capstan-nspawn-").unwrap();
        let key = folder.path().join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key).status();
        assert!(made.unwrap().success());
        Self { folder }
    }

    fn sets(&self) -> PathBuf {
        self.folder.path().join("sets")
    }

    fn owned(&self) -> Set {
        Set::owned(&self.sets(), &base()).unwrap()
    }

    fn spec(&self, name: &str) -> MachineSpec {
        let key = std::fs::read_to_string(self.folder.path().join("key.pub")).unwrap();
        MachineSpec {
            users: vec!["root".into(), "debian".into(), "nobody-knows".into()],
            ..MachineSpec::new(name, key)
        }
    }

    /// Runs a command with the real `ssh`, which accepts nothing but the key that was announced.
    fn ssh(&self, machine: &Machine, user: &str, command: &str) -> Result<String> {
        let known = self.folder.path().join("known_hosts");
        std::fs::write(&known, format!("{} {}\n", machine.address(), machine.host_key()))?;
        let output = Command::new("ssh")
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "IdentitiesOnly=yes",
            ])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .arg("-i")
            .arg(self.folder.path().join("key"))
            .arg(format!("{user}@{}", machine.address()))
            .arg(command)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{command}: {} {said}{}", output.status, machine.console_tail());
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

fn base() -> PathBuf {
    capstan_tools::machine_rootfs().unwrap()
}

fn up(machine: &Machine) {
    machine.start().unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
}

/// Every trace of a set that this machine can have.
fn traces(id: &str) -> Vec<PathBuf> {
    let below = |folder: &str, wanted: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().contains(wanted)).map(|e| e.path()).collect()
    };
    let mut found = below("/sys/class/net", id);
    found.extend(below("/run/systemd/nspawn/propagate", id));
    found.extend(below("/run/systemd/nspawn/unix-export", id));
    found.extend(below("/sys/fs/cgroup", id));
    for entry in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        found.extend(below(&entry.path().to_string_lossy(), id));
    }
    found
}

fn id_of(set: &Set) -> String {
    set.network().bridge().trim_start_matches("cap-").to_owned()
}

#[test]
fn a_machine_boots_and_keeps_what_it_has() {
    let yard = Yard::new();
    let set = yard.owned();
    let id = id_of(&set);
    let machine = set.add(&yard.spec("m1")).unwrap();
    assert!(matches!(set.add(&yard.spec("m1")), Err(Error::Exists { .. })));
    assert!(!machine.is_running());
    up(&machine);
    up(&machine);

    let facts = "hostname; . /etc/os-release; echo $ID; cat /proc/1/comm; systemctl is-system-running --wait";
    assert_eq!(yard.ssh(&machine, "root", facts).unwrap(), "m1\ndebian\nsystemd\nrunning");
    assert_eq!(yard.ssh(&machine, "debian", "sudo id -u").unwrap(), "0");
    let key = yard.ssh(&machine, "root", "cut -d' ' -f1,2 /etc/ssh/ssh_host_*_key.pub").unwrap();
    assert_eq!(key, machine.host_key());
    let boot =
        || yard.ssh(&machine, "root", "cat /proc/sys/kernel/random/boot_id; cat /etc/machine-id").unwrap();
    let first = boot();
    yard.ssh(&machine, "root", "echo kept > /root/kept; sync").unwrap();

    // A reboot from outside, one from inside, and a power cut.
    machine.reboot(BOOT).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    let second = boot();
    // The connection may be gone before the command has ended.
    let _ = yard.ssh(&machine, "root", "systemctl reboot");
    until(|| {
        let now = yard.ssh(&machine, "root", "cat /proc/sys/kernel/random/boot_id")?;
        ensure!(!second.starts_with(&now), "not yet rebooted");
        Ok(())
    });
    let third = boot();
    machine.kill().unwrap();
    assert!(!machine.is_running());
    up(&machine);
    let fourth = boot();
    let mut boots = vec![&first, &second, &third, &fourth];
    boots.sort();
    boots.dedup();
    assert_eq!(boots.len(), 4, "{boots:?}");
    let identities: Vec<&str> = boots.iter().map(|text| text.lines().nth(1).unwrap()).collect();
    assert!(identities.iter().all(|identity| *identity == identities[0]), "{identities:?}");
    assert_eq!(yard.ssh(&machine, "root", "cat /root/kept").unwrap(), "kept");

    machine.stop(Duration::from_secs(60)).unwrap();
    assert!(!machine.is_running());
    assert!(!traces(&id).is_empty(), "the bridge is still there");
    drop((machine, set));
    assert_eq!(traces(&id), Vec::<PathBuf>::new());
    assert!(!yard.sets().join(&id).exists());
}

#[test]
fn machines_reach_each_other_and_sets_do_not_meet() {
    let yard = Yard::new();
    let (one, other) = (yard.owned(), yard.owned());
    assert_ne!(one.network().subnet(), other.network().subnet());
    let machines =
        [&one, &one, &other].into_iter().zip(["a", "b", "a"]).map(|(set, name)| set.add(&yard.spec(name)));
    let machines: Vec<Machine> = machines.collect::<Result<_, _>>().unwrap();
    machines.iter().for_each(|machine| machine.start().unwrap());
    machines.iter().for_each(|machine| machine.wait_for_ssh(BOOT).unwrap());
    let [a, b, c] = &machines[..] else { panic!("three machines") };
    let ping = |from: &Machine, to: &Machine| {
        yard.ssh(from, "root", &format!("ping -c 1 -W 2 {} > /dev/null && echo yes || echo no", to.address()))
            .unwrap()
    };
    assert_eq!(ping(a, b), "yes");
    // Each machine has a cgroup of its own and finds nobody else in it: a process of another machine would be
    // shown as 0, because it has no number there.
    let strangers = "cat $(find /sys/fs/cgroup -name cgroup.procs) | grep -c '^0$' || true";
    assert_eq!(yard.ssh(a, "root", strangers).unwrap(), "0");
    assert_eq!(c.name(), "a");
    assert_ne!(a.host_key(), c.host_key());
    one.remove("b").unwrap();
    assert!(one.get("b").unwrap().is_none());
    assert_eq!(one.machines().unwrap().len(), 1);
}

#[test]
fn cloud_init_carries_out_what_it_finds() {
    let yard = Yard::new();
    let set = yard.owned();
    let user_data = "#cloud-config\nwrite_files:\n- {path: /opt/written, content: by cloud-init, permissions: '0600'}\n\
                     runcmd:\n- [sh, -c, 'hostname > /opt/ran']\n";
    let seed = Seed { instance_id: "i-1".to_owned(), user_data: user_data.to_owned() };
    let machine = set.add(&MachineSpec { seed: Some(seed), ..yard.spec("m1") }).unwrap();
    up(&machine);
    let status = yard.ssh(&machine, "root", "cloud-init status --wait --long").unwrap();
    assert!(status.contains("status: done"), "{status}");
    assert_eq!(yard.ssh(&machine, "root", "cat /opt/written /opt/ran").unwrap(), "by cloud-initm1");
    // It has neither replaced the key that was announced nor locked root out.
    machine.reboot(BOOT).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    assert_eq!(yard.ssh(&machine, "root", "systemctl is-system-running --wait").unwrap(), "running");
}

#[test]
fn a_host_with_another_key_is_not_talked_to() {
    let yard = Yard::new();
    let set = yard.owned();
    let machine = set.add(&yard.spec("m1")).unwrap();
    machine.start().unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    let key = std::fs::read_to_string(yard.folder.path().join("key.pub")).unwrap();
    let known = yard.folder.path().join("wrong");
    std::fs::write(&known, format!("{} {key}", machine.address())).unwrap();
    let output = Command::new("ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o"])
        .arg(format!("UserKnownHostsFile={}", known.display()))
        .arg("-i")
        .arg(yard.folder.path().join("key"))
        .arg(format!("root@{}", machine.address()))
        .arg("true")
        .output()
        .unwrap();
    assert!(!output.status.success());
}

/// What a process leaves that was killed: this test runs itself again as that process.
#[test]
fn what_a_killed_process_left_is_removed() {
    const CHILD: &str = "CAPSTAN_NSPAWN_TEST_CHILD";
    if let Some(folder) = std::env::var_os(CHILD) {
        let folder = Path::new(&folder);
        let set = Set::owned(&folder.join("sets"), &base()).unwrap();
        let machine = set.add(&MachineSpec::new("m1", "ssh-ed25519 AAAA nobody")).unwrap();
        up(&machine);
        std::fs::write(folder.join("up"), id_of(&set)).unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let yard = Yard::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_a_killed_process_left_is_removed", "--nocapture"])
        .env(CHILD, yard.folder.path())
        .spawn()
        .unwrap();
    let up = yard.folder.path().join("up");
    until(|| {
        ensure!(child.try_wait()?.is_none(), "it ended");
        std::fs::read_to_string(&up).map(|_| ()).context("not up yet")
    });
    let id = std::fs::read_to_string(&up).unwrap();
    assert_eq!(remove_leftover_sets(&yard.sets()).unwrap(), Vec::<String>::new(), "its owner lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(remove_leftover_sets(&yard.sets()).unwrap(), [id.as_str()]);
    assert_eq!(traces(&id), Vec::<PathBuf>::new());
    assert!(!yard.sets().join(&id).exists());
}

#[test]
fn lasting_machines_are_found_again() {
    let yard = Yard::new();
    // Only for its bridge.
    let owned = yard.owned();
    let (folder, bridge) = (yard.folder.path().join("lasting"), owned.network().bridge());
    let set = Set::lasting(&folder, &base(), bridge).unwrap();
    let machine = set.add(&yard.spec("m1")).unwrap();
    up(&machine);
    let (address, key) = (machine.address(), machine.host_key().to_owned());
    drop((machine, set));

    let set = Set::lasting(&folder, &base(), bridge).unwrap();
    let machine = set.get("m1").unwrap().unwrap();
    assert!(machine.is_running());
    assert_eq!((machine.address(), machine.host_key()), (address, key.as_str()));
    assert_eq!(yard.ssh(&machine, "root", "hostname").unwrap(), "m1");
    let second = set.add(&yard.spec("m2")).unwrap();
    assert_ne!(second.address(), address);
    set.remove("m1").unwrap();
    set.remove("m2").unwrap();
    assert!(set.machines().unwrap().is_empty());
    let error = Set::lasting(&folder, &base(), "nobridge0").unwrap_err().to_string();
    assert!(error.contains("ip link add"), "{error}");
}

fn until(mut done: impl FnMut() -> Result<()>) {
    let deadline = Instant::now() + BOOT;
    while let Err(not_yet) = done() {
        assert!(Instant::now() < deadline, "{not_yet:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
