//! The disk of a machine: a copy of a root file system, with its own name, address and keys.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::command::run;
use crate::error::{Error, Result};
use crate::files::{self, Facts, Seed};
use crate::subnet::Subnet;

/// The specification of a machine to create.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Name in the set, and host name.
    pub name: String,
    /// Authorized SSH public keys, in OpenSSH format.
    pub authorized_keys: Vec<String>,
    /// Users that the keys are authorized for. Users that do not exist in the root file system are skipped.
    pub users: Vec<String>,
    /// Data for cloud-init at boot. Without it, cloud-init does nothing.
    pub seed: Option<Seed>,
}

impl MachineSpec {
    /// A machine on which root accepts this SSH public key.
    pub fn new(name: impl Into<String>, authorized_key: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            authorized_keys: vec![authorized_key.into()],
            users: vec!["root".to_owned()],
            seed: None,
        }
    }
}

/// Makes the disk of a machine at `root`, and gives the public part of its SSH host key.
pub(crate) fn make(
    root: &Path,
    base: &Path,
    spec: &MachineSpec,
    address: Ipv4Addr,
    subnet: Subnet,
) -> Result<String> {
    let copy = ["--archive", "--reflink=auto", "--"].map(AsRef::as_ref);
    run("cp", &[&copy[..], &[base.as_os_str(), root.as_os_str()]].concat())?;
    let facts =
        Facts { name: &spec.name, address, subnet, machine_id: &random(16)?, seed: spec.seed.as_ref() };
    for file in files::files(&facts) {
        files::write(root, &file)?;
    }
    let passwd = root.join("etc/passwd");
    let passwd = fs::read_to_string(&passwd).map_err(Error::io("read", &passwd))?;
    for user in &spec.users {
        if let Some(file) = files::authorized_keys(&passwd, user, &spec.authorized_keys) {
            files::write(root, &file)?;
        }
    }
    host_key(root, &spec.name)
}

/// Refuses a folder that no machine could boot from.
pub(crate) fn check_base(base: &Path) -> Result<()> {
    for needed in ["usr/bin", "etc/passwd", "etc/ssh", "usr/sbin/sshd", "usr/lib/systemd/systemd"] {
        if !base.join(needed).exists() {
            return Err(Error::Root { path: base.to_owned(), why: format!("it has no /{needed}") });
        }
    }
    Ok(())
}

/// Makes the machine's host key, the only one it has, and gives the public part.
fn host_key(root: &Path, name: &str) -> Result<String> {
    let folder = root.join("etc/ssh");
    for entry in fs::read_dir(&folder).map_err(Error::io("read", &folder))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path()).map_err(Error::io("remove", entry.path()))?;
        }
    }
    let key = folder.join("ssh_host_ed25519_key");
    let words = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"];
    run("ssh-keygen", &words.iter().map(AsRef::as_ref).chain([key.as_os_str()]).collect::<Vec<_>>())?;
    let public = key.with_extension("pub");
    let text = fs::read_to_string(&public).map_err(Error::io("read", &public))?;
    // Without the comment.
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// Random bytes as hexadecimal digits.
pub(crate) fn random(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    let source = "/dev/urandom";
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(Error::io("read", source))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_root_file_system_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = check_base(folder.path()).expect_err("empty").to_string();
        assert!(error.contains("make tools"), "{error}");
    }

    #[test]
    fn no_two_are_the_same() {
        let id = random(4).expect("random");
        assert_eq!(id.len(), 8);
        assert_ne!(random(4).expect("random"), id);
    }
}
