//! The requirements on this computer for running machines, and how to satisfy them.

use std::fmt;
use std::path::Path;

use crate::error::{Error, Result};

/// A requirement that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// The programs this crate runs, and the Debian package of each.
const PROGRAMS: [(&str, &str); 7] = [
    ("systemd-nspawn", "systemd-container"),
    ("ip", "iproute2"),
    ("ssh-keygen", "openssh-client"),
    ("setpriv", "util-linux"),
    ("flock", "util-linux"),
    ("cp", "coreutils"),
    ("sh", "dash"),
];

/// What the check looks at.
struct HostFacts<'a> {
    root: bool,
    has_program: &'a dyn Fn(&str) -> bool,
    exists: &'a dyn Fn(&str) -> bool,
}

/// Fails with a list of all requirements that this computer does not meet. Changes nothing.
///
/// # Errors
/// [`Error::Missing`], if a requirement is not met.
pub fn check() -> Result<()> {
    let host = HostFacts {
        root: rustix::process::geteuid().is_root(),
        has_program: &on_path,
        exists: &|path| Path::new(path).exists(),
    };
    let missing = missing(&host);
    if missing.is_empty() { Ok(()) } else { Err(Error::Missing(missing)) }
}

fn missing(host: &HostFacts<'_>) -> Vec<Missing> {
    let mut missing = Vec::new();
    if !host.root {
        missing.push(Missing {
            what: "the rights of root".to_owned(),
            remedy: "run this as root: booting a machine takes namespaces, cgroups and network links"
                .to_owned(),
        });
    }
    for (program, package) in PROGRAMS {
        if !(host.has_program)(program) {
            missing.push(Missing {
                what: format!("the program {program}"),
                remedy: format!("install the package {package} (`make packages` does)"),
            });
        }
    }
    if !(host.exists)("/proc/self/ns/pid") || !(host.exists)("/sys/fs/cgroup") {
        missing.push(Missing {
            what: "namespaces and cgroups".to_owned(),
            remedy: "mount /proc and /sys/fs/cgroup; a container without them cannot have machines"
                .to_owned(),
        });
    }
    missing
}

fn on_path(program: &str) -> bool {
    // Administrators' programs are not on everybody's PATH; root's shell finds them all the same.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_machine_lacks_nothing() {
        let host = HostFacts { root: true, has_program: &|_| true, exists: &|_| true };
        assert_eq!(missing(&host), []);
    }

    #[test]
    fn everything_that_is_missing_is_named_with_its_remedy() {
        let host = HostFacts { root: false, has_program: &|name| name == "sh", exists: &|_| false };
        let missing = missing(&host);
        assert_eq!(missing.len(), 1 + PROGRAMS.len() - 1 + 1);
        let text = Error::Missing(missing).to_string();
        for expected in ["run this as root", "systemd-container", "openssh-client", "/sys/fs/cgroup"] {
            assert!(text.contains(expected), "{text}");
        }
    }
}
