//! Files that are written into a machine's root file system before its first boot, so that its address, its name and
//! its SSH keys are known in advance.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::subnet::Subnet;

/// The data that cloud-init reads on the machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// Instance ID. A changed instance ID makes cloud-init run again.
    pub instance_id: String,
    /// The user data. It may be secret: it is written with mode 0600 and never printed.
    pub user_data: String,
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Seed {{ instance_id: {:?}, user_data: [{} bytes] }}",
            self.instance_id,
            self.user_data.len()
        )
    }
}

/// What a machine is told about itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: Ipv4Addr,
    pub(crate) subnet: Subnet,
    /// 32 hexadecimal digits.
    pub(crate) machine_id: &'a str,
    pub(crate) seed: Option<&'a Seed>,
}

/// A file to write. The path is below the machine's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineFile {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
}

impl MachineFile {
    fn new(path: &str, mode: u32, content: String) -> Self {
        Self { path: path.into(), content, mode, owner: (0, 0) }
    }
}

/// Everything but keys.
pub(crate) fn files(facts: &Facts<'_>) -> Vec<MachineFile> {
    let Facts { name, address, subnet, machine_id, seed } = facts;
    let gateway = subnet.gateway();
    let network = format!(
        "[Match]\nName=host0\n\n[Network]\nAddress={address}/24\nGateway={gateway}\n\
         LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    );
    let mut files = vec![
        MachineFile::new("etc/hostname", 0o644, format!("{name}\n")),
        MachineFile::new("etc/hosts", 0o644, format!("127.0.0.1 localhost\n{address} {name}\n")),
        MachineFile::new("etc/machine-id", 0o444, format!("{machine_id}\n")),
        MachineFile::new("etc/systemd/network/10-host0.network", 0o644, network),
    ];
    if let Some(seed) = seed {
        let meta = format!("instance-id: {}\nlocal-hostname: {name}\n", seed.instance_id);
        let folder = "var/lib/cloud/seed/nocloud";
        files.push(MachineFile::new(&format!("{folder}/meta-data"), 0o644, meta));
        files.push(MachineFile::new(&format!("{folder}/user-data"), 0o600, seed.user_data.clone()));
    }
    files
}

/// The keys that let `user` in, as `passwd` knows the user; nothing if it does not.
pub(crate) fn authorized_keys(passwd: &str, user: &str, keys: &[String]) -> Option<MachineFile> {
    let mut fields = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let found = fields.next() == Some(user);
        found.then_some(fields)
    })?;
    let owner = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    let home = fields.nth(1)?.trim_start_matches('/');
    let content = keys.iter().map(|key| format!("{}\n", key.trim())).collect();
    Some(MachineFile { owner, ..MachineFile::new(&format!("{home}/.ssh/authorized_keys"), 0o600, content) })
}

/// Writes `file` under `root`, and never outside of it: links in the root file system, which point to where
/// they would in the running machine, are not followed.
pub(crate) fn write(root: &Path, file: &MachineFile) -> Result<()> {
    let mut folder = root.to_owned();
    for part in file.path.parent().unwrap_or(Path::new("")).components() {
        let Component::Normal(part) = part else { return Err(outside(root, &file.path)) };
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(outside(root, &file.path)),
            Err(_) => {
                // Keys are the only thing that lies in a folder of its own.
                let mode = if file.owner == (0, 0) && file.mode != 0o600 { 0o755 } else { 0o700 };
                fs::DirBuilder::new().mode(mode).create(&folder).map_err(Error::io("make", &folder))?;
                chown(&folder, Some(file.owner.0), Some(file.owner.1)).map_err(Error::io("own", &folder))?;
            }
        }
    }
    let path = root.join(&file.path);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("replace", &path)(error));
        }
        _ => {}
    }
    let fill = || {
        let mut target = fs::OpenOptions::new().write(true).create_new(true).mode(file.mode).open(&path)?;
        target.write_all(file.content.as_bytes())?;
        chown(&path, Some(file.owner.0), Some(file.owner.1))
    };
    fill().map_err(Error::io("write", &path))
}

fn outside(root: &Path, path: &Path) -> Error {
    Error::Root {
        path: root.to_owned(),
        why: format!("/{} is not below plain folders in it", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn facts(seed: Option<&Seed>) -> Facts<'_> {
        let address = Ipv4Addr::new(10, 66, 1, 10);
        Facts {
            name: "m1",
            address,
            subnet: Subnet::of(address),
            machine_id: "0123456789abcdef0123456789abcdef",
            seed,
        }
    }

    #[test]
    fn a_machine_knows_its_name_and_address() {
        let files = files(&facts(None));
        let content = |path: &str| {
            let file = files.iter().find(|file| file.path == Path::new(path)).expect(path);
            file.content.as_str()
        };
        assert_eq!(content("etc/hostname"), "m1\n");
        assert_eq!(content("etc/machine-id").len(), 33);
        let network = content("etc/systemd/network/10-host0.network");
        assert!(network.contains("Address=10.66.1.10/24\nGateway=10.66.1.1\n"), "{network}");
        assert!(!files.iter().any(|file| file.path.starts_with("var/lib/cloud")));
    }

    #[test]
    fn user_data_is_private() {
        let seed = Seed { instance_id: "i-1".to_owned(), user_data: "#cloud-config\nhunter2\n".to_owned() };
        let files = files(&facts(Some(&seed)));
        let user_data = files.iter().find(|file| file.path.ends_with("user-data")).expect("user data");
        assert_eq!((user_data.mode, user_data.content.as_str()), (0o600, seed.user_data.as_str()));
        assert!(!format!("{seed:?}").contains("hunter2"));
    }

    #[test]
    fn keys_go_to_the_users_home() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1001::/home/admin:/bin/bash\nshort:x\n";
        let keys = ["ssh-ed25519 AAAA a\n".to_owned(), "ssh-ed25519 BBBB b".to_owned()];
        let file = authorized_keys(passwd, "admin", &keys).expect("admin");
        assert_eq!(file.path, Path::new("home/admin/.ssh/authorized_keys"));
        assert_eq!((file.owner, file.mode), ((1000, 1001), 0o600));
        assert_eq!(file.content, "ssh-ed25519 AAAA a\nssh-ed25519 BBBB b\n");
        assert_eq!(authorized_keys(passwd, "root", &keys).expect("root").owner, (0, 0));
        for nobody in ["oot", "short", ""] {
            assert_eq!(authorized_keys(passwd, nobody, &keys), None, "{nobody}");
        }
    }

    #[test]
    fn links_are_replaced_and_never_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir_all(root.join("etc")).expect("made");
        fs::create_dir(&elsewhere).expect("made");
        fs::write(elsewhere.join("secret"), "untouched").expect("written");
        std::os::unix::fs::symlink(elsewhere.join("secret"), root.join("etc/hostname")).expect("linked");
        std::os::unix::fs::symlink(&elsewhere, root.join("var")).expect("linked");
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let file =
            |path: &str| MachineFile { owner: (uid, gid), ..MachineFile::new(path, 0o640, "new".to_owned()) };

        write(&root, &file("etc/hostname")).expect("written");
        assert_eq!(fs::read_to_string(root.join("etc/hostname")).expect("read"), "new");
        let mode = fs::symlink_metadata(root.join("etc/hostname")).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(elsewhere.join("secret")).expect("read"), "untouched");

        for bad in ["var/file", "../elsewhere/secret", "etc/../../elsewhere/file"] {
            assert!(write(&root, &file(bad)).is_err(), "{bad}");
        }
        assert_eq!(fs::read_dir(&elsewhere).expect("read").count(), 1);
    }
}
