//! A separate cgroup for each machine.
//!
//! A machine sees its cgroup as the root of the hierarchy. Two machines in one cgroup would each treat the other's pods
//! as leftovers and remove them. So each machine has its own cgroup in every hierarchy. The cgroup also lists all
//! processes of a machine, so that they can be killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};

/// What kubelet cannot do without. systemd turns them on for its own children in the same way.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// The hierarchies of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Folders that machines' cgroups are made in, one for each hierarchy.
    parents: Vec<PathBuf>,
    /// Whether there is only the one hierarchy of cgroup v2.
    pub(crate) unified: bool,
}

/// The cgroup of one machine, in every hierarchy.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
    unified: bool,
}

impl Layout {
    /// What this machine has.
    pub(crate) fn of_this_host() -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).map_err(Error::io("read", path));
        Self::of(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or(Error::Cgroups { why: "none are mounted under /sys/fs/cgroup" })
    }

    /// From `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn of(mountinfo: &str, own: &str) -> Option<Self> {
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        // Each once: a hierarchy may be mounted in several places.
        let mut v1: Vec<&Mount<'_>> = Vec::new();
        for mount in mounts.iter().filter(|mount| mount.kind == "cgroup") {
            if !v1.iter().any(|seen| seen.options == mount.options) {
                v1.push(mount);
            }
        }
        let v2 = mounts.iter().find(|mount| mount.kind == "cgroup2");
        let unified = v1.is_empty();
        let mut parents: Vec<PathBuf> = v1.iter().map(|mount| mount.folder_of(own)).collect();
        // In cgroup v2 a group with processes can have no controllers for its children, and we are a process:
        // machines stand beside us, at the top.
        parents.extend(v2.map(|mount| PathBuf::from(mount.point)));
        (!parents.is_empty()).then_some(Self { parents, unified })
    }

    /// The cgroup of this name. Nothing is made.
    pub(crate) fn named(&self, name: &str) -> Cgroup {
        Cgroup {
            folders: self.parents.iter().map(|parent| parent.join(name)).collect(),
            unified: self.unified,
        }
    }

    /// The names of the cgroups that begin with `prefix`.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .parents
            .iter()
            .filter_map(|parent| fs::read_dir(parent).ok())
            .flat_map(Iterator::flatten)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Cgroup {
    /// Makes it, ready to take processes.
    pub(crate) fn make(&self) -> Result<()> {
        for folder in &self.folders {
            let parent = folder.parent().unwrap_or(folder);
            if self.unified {
                hand_down_controllers(parent)?;
            }
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make the cgroup", folder)(error));
                }
                _ => {}
            }
            inherit_cpuset(parent, folder)?;
        }
        Ok(())
    }

    /// The files that move a process into this cgroup when its ID is written to them.
    pub(crate) fn process_files(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Every process in it.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for folder in &self.folders {
            visit(folder, &mut |folder| {
                let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                found.extend(text.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)));
            });
        }
        found.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        found.dedup();
        found
    }

    /// Kills every process in it, at most for `deadline`, and removes it. Says whether it is gone.
    pub(crate) fn remove(&self, deadline: Duration) -> bool {
        let deadline = Instant::now() + deadline;
        loop {
            for pid in self.processes() {
                // An error says that it has ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            for folder in &self.folders {
                // The deepest first; a cgroup's files need not and cannot be removed.
                visit(folder, &mut |folder| {
                    let _ = fs::remove_dir(folder);
                });
            }
            let gone = self.folders.iter().all(|folder| !folder.exists());
            if gone || Instant::now() > deadline {
                return gone;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Calls `look` for the cgroups below `folder`, the deepest first, and then for itself.
fn visit(folder: &Path, look: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path(), look);
        }
    }
    look(folder);
}

/// cgroup v2: a group has the controllers that its parent hands down.
fn hand_down_controllers(parent: &Path) -> Result<()> {
    let read = |name: &str| fs::read_to_string(parent.join(name)).unwrap_or_default();
    let (offered, handed) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    for name in NEEDED.iter().filter(|name| !has(&handed, name)) {
        if !has(&offered, name) {
            return Err(Error::Cgroups {
                why: "cpu, cpuset, memory and pids must all be offered at the top of /sys/fs/cgroup",
            });
        }
        let control = parent.join("cgroup.subtree_control");
        fs::write(&control, format!("+{name}")).map_err(Error::io("hand controllers down in", &control))?;
    }
    Ok(())
}

/// cgroup v1: a new cpuset is empty, and nothing can run in it.
fn inherit_cpuset(parent: &Path, folder: &Path) -> Result<()> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let own = folder.join(name);
        let is_empty = fs::read_to_string(&own).is_ok_and(|text| text.trim().is_empty());
        // cgroup v2 leaves them empty and means the parent's.
        if is_empty && !folder.join("cgroup.type").exists() {
            let inherited = parent.join(name);
            let value = fs::read(&inherited).map_err(Error::io("read", &inherited))?;
            fs::write(&own, value).map_err(Error::io("write", &own))?;
        }
    }
    Ok(())
}

/// One line of mountinfo that is about cgroups.
struct Mount<'a> {
    /// Which cgroup is mounted.
    root: &'a str,
    /// Where.
    point: &'a str,
    /// `cgroup` or `cgroup2`.
    kind: &'a str,
    /// The options of the hierarchy, with its controllers.
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let kind = system.next().filter(|kind| kind.starts_with("cgroup"))?;
        Some(Self { root, point, kind, options: system.nth(1)? })
    }

    /// The folder of the cgroup we are in ourselves, where `own` is `/proc/self/cgroup`.
    fn folder_of(&self, own: &str) -> PathBuf {
        let ours = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let mounted = |name: &str| self.options.split(',').any(|option| option == name);
            (!controllers.is_empty() && controllers.split(',').all(mounted)).then_some(path)
        });
        let below = ours.and_then(|path| path.strip_prefix(self.root)).unwrap_or_default();
        Path::new(self.point).join(below.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
        24 1 0:22 / /sys rw - sysfs sysfs rw\n\
        30 24 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        32 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory\n\
        33 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
        34 30 0:27 / /other/memory rw,relatime - cgroup cgroup rw,memory\n\
        35 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V1_OWN: &str = "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu:/\n0::/\n";

    #[test]
    fn machines_have_a_group_in_every_hierarchy() {
        let layout = Layout::of(V1, V1_OWN).expect("cgroups");
        assert!(!layout.unified);
        let expected = ["cpu/m", "memory/jobs/7/m", "systemd/m", "unified/m"]
            .map(|path| Path::new("/sys/fs/cgroup").join(path));
        assert_eq!(layout.named("m").folders, expected);
        assert!(layout.named("m").process_files()[0].ends_with("cpu/m/cgroup.procs"));
    }

    #[test]
    fn controllers_may_share_a_hierarchy() {
        let mounts = "31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let layout = Layout::of(mounts, "2:cpu,cpuacct:/user.slice\n").expect("cgroups");
        assert_eq!(layout.named("m").folders, [Path::new("/sys/fs/cgroup/cpu,cpuacct/user.slice/m")]);
    }

    #[test]
    fn a_group_that_is_itself_a_root_is_not_counted_twice() {
        let mounts = "31 30 0:26 /docker/a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let layout = Layout::of(mounts, "2:cpu:/docker/a/b\n").expect("cgroups");
        assert_eq!(layout.named("m").folders, [Path::new("/sys/fs/cgroup/cpu/b/m")]);
    }

    #[test]
    fn with_version_2_machines_stand_at_the_top() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let layout = Layout::of(mounts, "0::/user.slice/session-1.scope\n").expect("cgroups");
        assert!(layout.unified);
        assert_eq!(layout.named("m").folders, [Path::new("/sys/fs/cgroup/m")]);
        assert_eq!(Layout::of("24 1 0:22 / /sys rw - sysfs sysfs rw\n", ""), None);
    }

    #[test]
    fn what_the_parent_does_not_offer_is_an_error() {
        let parent = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(parent.path().join(name), text).expect("written");
        write("cgroup.controllers", "cpu io memory\n");
        write("cgroup.subtree_control", "cpu\n");
        let error = hand_down_controllers(parent.path()).expect_err("no cpuset").to_string();
        assert!(error.contains("cpuset"), "{error}");
        write("cgroup.controllers", "cpuset cpu io memory pids\n");
        write("cgroup.subtree_control", "cpuset cpu memory\n");
        hand_down_controllers(parent.path()).expect("all there");
        let asked = fs::read_to_string(parent.path().join("cgroup.subtree_control")).expect("read");
        assert_eq!(asked, "+pids");
    }
}
