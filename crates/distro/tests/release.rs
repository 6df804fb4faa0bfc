//! Runs the real clean-up script below a temporary folder: it removes what k3s wrote, keeps the user's files, and never
//! deletes through a mount or a symbolic link.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use capstan_api::bootstrap::{CapstanConfigSpec, ReleasePolicy, Setting};
use capstan_distro::{
    Endpoint, Heal, Inputs, Maintenance, Network, Role, SecretFiles, Software, check, render,
};
use capstan_plan::{Action, Capabilities, Digest, SecretText};
use tempfile::TempDir;

const DATA: &str = "/var/lib/rancher/k3s";
const POD: &str = "/var/lib/kubelet/pods/p/volumes/v";

/// Where the script works.
const FOLDERS: [&str; 6] = ["/var/lib/", "/etc/rancher", "/run/", "/var/log/", "/usr/libexec/", "/srv/"];

/// What must not happen to the machine that runs the test: processes, interfaces and rules are those of the whole system.
const HARMLESS: &str = "\n\
    end_pods() { :; }\nremove_links() { :; }\nremove_routes() { :; }\nremove_rules() { :; }\nremove_groups() { :; }\n\
    shims() { :; }\nLINKS=\n\"$@\"\n";

fn policy(keep: &[&str], wipe: &[&str]) -> CapstanConfigSpec {
    let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let release = Some(ReleasePolicy { keep: list(keep), wipe: list(wipe) });
    CapstanConfigSpec { release, ..CapstanConfigSpec::default() }
}

/// The script as a server gets it.
fn script(config: &CapstanConfigSpec) -> String {
    let rendered = render(&Inputs {
        role: Role::Server,
        others_serve: false,
        version: "v1.36.0+k3s1",
        node_name: "n",
        provider_id: "p",
        endpoint: &Endpoint { host: "h".to_owned(), port: 6443 },
        network: &Network::default(),
        token: &SecretText::new("t"),
        agent_token: None,
        ca: None,
        certificates: None,
        labels: &BTreeMap::new(),
        taints: &[],
        capabilities: &Capabilities::all(),
        agent: None,
        config,
        maintenance: &Maintenance::ANY_TIME,
        secrets: &SecretFiles::new(),
        restart_after: None,
        heal: Heal::default(),
        software: &Software { sha256: Digest::of(b""), size: 0, sources: Vec::new() },
        images: None,
        former: None,
        snapshot: None,
    });
    let steps = rendered.unwrap().steps;
    let script = steps.iter().find(|step| step.name.as_str() == "script").unwrap();
    let Action::File(file) = &script.action else { panic!("{script:?}") };
    String::from_utf8(file.content.as_bytes().to_vec()).unwrap()
}

struct World {
    folder: TempDir,
}

impl World {
    /// A machine that k3s has run on.
    fn new() -> Self {
        let world = Self { folder: TempDir::with_prefix("capstan-release-").unwrap() };
        for path in [
            "/var/lib/rancher/k3s/agent/containerd/content",
            "/var/lib/rancher/k3s/agent/.hidden",
            "/var/lib/rancher/k3s/agent/images/capstan-airgap.tar",
            "/var/lib/rancher/k3s/data/0123/bin/k3s",
            "/var/lib/rancher/k3s/server/cred/passwd",
            "/var/lib/rancher/k3s/server/db/etcd/member/wal",
            "/var/lib/rancher/k3s/server/db/snapshots/before",
            "/var/lib/rancher/k3s/server/tls/server-ca.key",
            "/etc/rancher/k3s/config.yaml",
            "/etc/rancher/node/password",
            "/var/lib/kubelet/pods/p/etc-hosts",
            "/var/lib/cni/networks/a",
            "/run/k3s/containerd/a",
            "/run/flannel/subnet.env",
            "/var/log/pods/p/0.log",
            "/var/log/containers/a",
        ] {
            world.write(path);
        }
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(&path[1..])
    }

    fn write(&self, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), path).unwrap();
    }

    fn is_there(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    /// Everything that is left, folders too.
    fn left(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(format!("/{}", path.strip_prefix(self.folder.path()).unwrap().display()));
                if path.symlink_metadata().unwrap().is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// The script, with this folder in the place of `/`.
    fn rooted(&self, config: &CapstanConfigSpec) -> String {
        let marked = FOLDERS
            .iter()
            .fold(script(config), |text, folder| text.replace(folder, &format!("\u{1}{folder}")));
        let text = marked.replace('\u{1}', self.folder.path().to_str().unwrap());
        let (functions, _) = text.rsplit_once("\ncase \"${1-}\" in\n").unwrap();
        format!("{functions}{HARMLESS}")
    }

    fn run(&self, config: &CapstanConfigSpec, word: &str) -> Ran {
        Ran::of(Command::new("/bin/sh").args(["-c", &self.rooted(config), "sh", word]))
    }

    /// The same with another table of mounts, and with an `umount` that never succeeds.
    fn run_with_mounts(&self, config: &CapstanConfigSpec, mounts: &Path) -> Ran {
        let script = self.rooted(config).replace("/proc/self/mounts", mounts.to_str().unwrap());
        Ran::of(Command::new("/bin/sh").args(["-c", &script, "sh", "clean"]).env("PATH", self.path(true)))
    }

    /// Where programs are looked for.
    fn path(&self, umount_fails: bool) -> String {
        let path = std::env::var("PATH").unwrap();
        if !umount_fails {
            return path;
        }
        let folder = self.folder.path().with_extension("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("umount"), "#!/bin/sh\nexit 32\n").unwrap();
        fs::set_permissions(folder.join("umount"), fs::Permissions::from_mode(0o755)).unwrap();
        format!("{}:{path}", folder.display())
    }

    /// Runs `prepare` and then the script in a mount namespace of its own. `None` where that is not allowed.
    fn run_mounted(&self, config: &CapstanConfigSpec, prepare: &str, umount_fails: bool) -> Option<Ran> {
        let flags: &[&str] = if is_root() { &["--mount"] } else { &["--map-root-user", "--mount"] };
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(flags);
            command
        };
        if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this user may not make a mount namespace");
            return None;
        }
        // What is mounted is looked for with the real table.
        let clean = self.folder.path().with_extension("sh");
        fs::write(&clean, self.rooted(config)).unwrap();
        let root = self.folder.path().to_str().unwrap();
        let all = format!(
            "set -e; root={root}; {prepare}; set +e; PATH={} /bin/sh {} clean; code=$?; \
             grep -c $root /proc/self/mounts >&2; exit $code",
            self.path(umount_fails),
            clean.display()
        );
        let ran = Ran::of(unshare().args(["/bin/sh", "-c", &all]));
        fs::remove_file(clean).unwrap();
        Some(ran)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.folder.path().with_extension("bin"));
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

const NO_POLICY: fn() -> CapstanConfigSpec = CapstanConfigSpec::default;

#[test]
fn without_volumes_nothing_is_left() {
    let world = World::new();
    fs::create_dir_all(world.at("/var/lib/rancher/k3s/storage")).unwrap();
    assert_eq!(world.run(&NO_POLICY(), "vacant").code, Some(1));
    let ran = world.run(&NO_POLICY(), "clean");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    assert_eq!(world.left(), ["/etc", "/run", "/var", "/var/lib", "/var/log"]);
    // Once more, as after a crash.
    assert_eq!(world.run(&NO_POLICY(), "clean").code, Some(0));
    assert_eq!(world.run(&NO_POLICY(), "vacant").code, Some(0));
}

#[test]
fn volumes_of_users_survive_and_the_next_machine_accepts_them() {
    let world = World::new();
    // The second is what `default-local-storage-path` of the servers may say; workers do not know it.
    let volumes =
        ["/var/lib/rancher/k3s/storage/pvc-1_a_b/file", "/var/lib/rancher/k3s/volumes/pvc-2_a_b/file"];
    volumes.iter().for_each(|path| world.write(path));
    world.write("/srv/data/file");
    let ran = world.run(&NO_POLICY(), "clean");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, format!("keeps {}\n", world.at(DATA).display()));
    let files: Vec<String> = world.left().into_iter().filter(|path| world.at(path).is_file()).collect();
    assert_eq!(files, ["/srv/data/file", volumes[0], volumes[1]]);
    assert_eq!(world.run(&NO_POLICY(), "vacant").code, Some(0));
    assert_eq!(world.run(&NO_POLICY(), "room").code, Some(0));
}

#[test]
fn named_paths_are_kept_and_wiped_whatever_their_names() {
    let world = World::new();
    let odd = "/srv/it's $(touch pwned) * \\ #";
    for path in ["storage/pvc-1/file", "agent/own/a b/file", "agent/own/other"] {
        world.write(&format!("{DATA}/{path}"));
    }
    world.write(&format!("{odd}/deep/file"));
    world.write("/srv/it/file");
    let snapshots = format!("{DATA}/server/db/snapshots");
    let spaced = format!("{DATA}/agent/own/a b");
    let storage = format!("{DATA}/storage");
    let missing = format!("{DATA}/agent/missing");
    let config = policy(&[&snapshots, &spaced, &missing, "/var/log/pods"], &[&storage, odd, "/srv/missing"]);
    let ran = world.run(&config, "clean");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let files: Vec<String> = world.left().into_iter().filter(|path| world.at(path).is_file()).collect();
    let kept = [
        "/srv/it/file".to_owned(),
        format!("{spaced}/file"),
        format!("{snapshots}/before"),
        "/var/log/pods/p/0.log".to_owned(),
    ];
    assert_eq!(files, kept);
    assert!(!world.is_there(odd) && !world.is_there(&storage));
    for path in [DATA, &snapshots, &spaced, "/var/log/pods"] {
        let line = format!("keeps {}\n", world.at(path).display());
        assert!(ran.stdout.contains(&line), "{}", ran.stdout);
    }
    // Also for a machine that has another policy.
    assert_eq!(world.run(&NO_POLICY(), "vacant").code, Some(0));
}

#[test]
fn volumes_survive_in_the_folder_that_servers_configure() {
    let volumes = format!("{DATA}/agent/volumes");
    let config = |wipe: &[&str]| {
        let mut config = policy(&["/var/log/pods"], wipe);
        let setting = Setting(serde_json::json!(volumes));
        config.settings.insert("default-local-storage-path".to_owned(), setting);
        config
    };
    let world = World::new();
    world.write(&format!("{volumes}/pvc-1/file"));
    assert_eq!(world.run(&config(&[]), "clean").code, Some(0));
    assert!(world.is_there(&format!("{volumes}/pvc-1/file")));
    assert!(!world.is_there(&format!("{DATA}/agent/containerd")));
    assert_eq!(world.run(&config(&[&volumes]), "clean").code, Some(0));
    assert!(!world.is_there(DATA));
    let below = format!("{volumes}/pvc-1");
    let error = check(&config(&[&below]), Role::Server).unwrap_err();
    assert_eq!(error.field, format!("spec.release.wipe[{below}]"));
}

#[test]
fn symbolic_links_are_not_followed() {
    let world = World::new();
    for path in ["/srv/outside/a", "/srv/volumes/b", "/srv/kept/c/d", "/srv/named/e"] {
        world.write(path);
    }
    symlink(world.at("/srv/outside"), world.at("/var/lib/rancher/k3s/agent/link")).unwrap();
    symlink(world.at("/srv/volumes"), world.at("/var/lib/rancher/k3s/storage")).unwrap();
    symlink(world.at("/srv/kept"), world.at("/var/lib/rancher/k3s/agent/elsewhere")).unwrap();
    symlink(world.at("/srv/named"), world.at("/srv/link")).unwrap();
    let behind = format!("{DATA}/agent/elsewhere/c");
    let ran = world.run(&policy(&[&behind], &["/srv/link"]), "clean");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/srv/link is a symbolic link"), "{}", ran.stderr);
    for path in ["/srv/outside/a", "/srv/volumes/b", "/srv/kept/c/d", "/srv/named/e"] {
        assert!(world.is_there(path), "{path}");
    }
    assert!(world.is_there("/var/lib/rancher/k3s/storage") && world.is_there(&behind));
    assert!(!world.is_there("/var/lib/rancher/k3s/agent/link"));
    // A folder of k3s that leads elsewhere is told, not followed.
    let world = World::new();
    fs::rename(world.at("/var/lib/kubelet"), world.at("/var/lib/elsewhere")).unwrap();
    symlink(world.at("/var/lib/elsewhere"), world.at("/var/lib/kubelet")).unwrap();
    let ran = world.run(&NO_POLICY(), "clean");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/var/lib/kubelet is a symbolic link"), "{}", ran.stderr);
    assert!(world.is_there("/var/lib/elsewhere/pods/p/etc-hosts"));
}

/// The deadly case: the volume is on the same file system as the folder, so that no option of `rm` or `find` sees a border.
#[test]
fn a_volume_that_cannot_be_unmounted_survives() {
    let world = World::new();
    world.write("/srv/user/precious");
    fs::create_dir_all(world.at(POD)).unwrap();
    let bind = format!("mount --bind $root/srv/user $root{POD}");
    let Some(ran) = world.run_mounted(&NO_POLICY(), &bind, true) else { return };
    assert!(world.is_there("/srv/user/precious"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let said = format!(
        "{} is left as it is, because something is still mounted in it: ",
        world.at("/var/lib/kubelet").display()
    );
    assert!(ran.stderr.contains(&format!("{said}{}", world.at(POD).display())), "{}", ran.stderr);
    assert!(world.is_there("/var/lib/kubelet/pods/p/etc-hosts"), "the folder is left as it is");
    assert!(!world.is_there("/var/lib/rancher/k3s/server"), "the others go");
    assert_eq!(ran.stdout, "");
}

#[test]
fn volumes_are_unmounted_however_often_they_are_mounted() {
    let world = World::new();
    world.write("/srv/a user/precious");
    fs::create_dir_all(world.at(POD)).unwrap();
    fs::create_dir_all(world.at("/var/lib/kubelet/pods/p/volume subpaths/v")).unwrap();
    let bind = format!(
        "mount --bind \"$root/srv/a user\" $root{POD}; mount --bind \"$root/srv/a user\" $root{POD}; \
         mount --bind \"$root/srv/a user\" \"$root/var/lib/kubelet/pods/p/volume subpaths/v\""
    );
    let Some(ran) = world.run_mounted(&NO_POLICY(), &bind, false) else { return };
    assert!(world.is_there("/srv/a user/precious"), "{}", ran.stderr);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "0\n"));
    assert!(!world.is_there("/var/lib/kubelet"));
}

#[test]
fn what_is_mounted_in_kept_data_stays_mounted_and_in_wiped_data_is_not_touched() {
    let world = World::new();
    for path in ["/srv/disk/precious", "/srv/other/precious", "/srv/wiped/mounted/x", "/srv/wiped/file"] {
        world.write(path);
    }
    fs::create_dir_all(world.at("/var/lib/rancher/k3s/storage/pvc-1")).unwrap();
    fs::create_dir_all(world.at("/var/lib/rancher/k3s/server/db/snapshots/disk")).unwrap();
    let bind = "mount --bind $root/srv/disk $root/var/lib/rancher/k3s/storage/pvc-1; \
                mount --bind $root/srv/disk $root/var/lib/rancher/k3s/server/db/snapshots/disk; \
                mount --bind $root/srv/other $root/srv/wiped/mounted";
    let config = policy(&["/var/lib/rancher/k3s/server/db/snapshots"], &["/srv/wiped"]);
    let Some(ran) = world.run_mounted(&config, bind, false) else { return };
    for path in ["/srv/disk/precious", "/srv/other/precious", "/srv/wiped/mounted/x", "/srv/wiped/file"] {
        assert!(world.is_there(path), "{path}: {}", ran.stderr);
    }
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/srv/wiped is left as it is"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("3\n"), "{}", ran.stderr);
    assert!(!world.is_there("/var/lib/rancher/k3s/server/tls"));
}

/// Needs no right to mount anything.
#[test]
fn a_folder_with_a_mount_in_the_table_is_left_alone() {
    let world = World::new();
    let volume = format!("{POD}/a b");
    world.write(&format!("{volume}/precious"));
    let table = world.folder.path().with_extension("mounts");
    let escaped = world.at(&volume).to_str().unwrap().replace(' ', r"\040");
    fs::write(&table, format!("/dev/sda1 / ext4 rw 0 0\n/dev/sda1 {escaped} ext4 rw 0 0\n")).unwrap();
    let ran = world.run_with_mounts(&NO_POLICY(), &table);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains(world.at(&volume).to_str().unwrap()), "{}", ran.stderr);
    assert!(world.is_there(&format!("{volume}/precious")));
    // Without the table nobody knows what is mounted.
    fs::write(&table, "").unwrap();
    let ran = world.run_with_mounts(&NO_POLICY(), &table);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nothing is removed"), "{}", ran.stderr);
    assert!(world.is_there("/var/lib/kubelet/pods/p/etc-hosts"));
    fs::remove_file(table).unwrap();
}

#[test]
fn policies_that_cannot_be_are_refused_by_name() {
    for (keep, wipe, field) in [
        ("/srv/data", None, "spec.release.keep[/srv/data]"),
        ("/var/lib/rancher/k3s/server", None, "spec.release.keep[/var/lib/rancher/k3s/server]"),
        ("/var/lib/rancher/k3s/../x", None, "spec.release.keep[/var/lib/rancher/k3s/../x]"),
        ("/var/log/pods", Some("/etc"), "spec.release.wipe[/etc]"),
        ("/var/log/pods", Some("/"), "spec.release.wipe[/]"),
        ("/var/log/pods", Some("relative"), "spec.release.wipe[relative]"),
        ("/var/log/pods/a", Some("/var/log/pods"), "spec.release.keep[/var/log/pods/a]"),
        ("/var/log/pods", Some("/var/log/pods/a"), "spec.release.keep[/var/log/pods]"),
        ("/var/log/pods", Some("/var/log/pods"), "spec.release.keep[/var/log/pods]"),
    ] {
        let wipe: Vec<&str> = wipe.into_iter().collect();
        let error = check(&policy(&[keep], &wipe), Role::Worker).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
    assert_eq!(check(&policy(&["/var/log/pods"], &["/var/log/podsarchive"]), Role::Server), Ok(()));
}
