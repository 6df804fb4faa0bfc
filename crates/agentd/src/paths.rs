//! Where everything of the agent lies.

use capstan_agent::upgrade::Places;
use capstan_plan::MachinePath;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const ETC: &str = "/etc/capstan";
const STATE: &str = "/var/lib/capstan";
const RUN: &str = "/run/capstan";
const BINARY: &str = "/opt/capstan/capstan-agent";
const NEXT: &str = "/opt/capstan/capstan-agent.next";
const PREVIOUS: &str = "/opt/capstan/capstan-agent.previous";
const UPGRADE: &str = "/var/lib/capstan/upgrade";
const UNIT: &str = "/etc/systemd/system/capstan-agent.service";

/// Where everything of a machine that dials out lies.
pub(crate) const HOST_ETC: &str = "/etc/capstan-host";
pub(crate) const HOST_STATE: &str = "/var/lib/capstan-host";
pub(crate) const HOST_BINARY: &str = "/opt/capstan-host/capstan-agent";
pub(crate) const HOST_UNIT: &str = "/etc/systemd/system/capstan-host.service";

/// Where everything lies, below the folder that stands for `/`.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    root: PathBuf,
}

impl Paths {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Where a path of a configuration file lies.
    pub(crate) fn below(&self, path: &str) -> PathBuf {
        self.at(path)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the machine we run on, and not a folder that looks like one.
    pub(crate) fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Who the machine is, and whom it obeys.
    pub(crate) fn config(&self) -> PathBuf {
        self.at(&format!("{ETC}/agent.json"))
    }

    /// The machine's key. It is made here and stays here.
    pub(crate) fn key(&self) -> PathBuf {
        self.at(&format!("{ETC}/agent.key"))
    }

    /// What it first asked for a credential with.
    pub(crate) fn request(&self) -> PathBuf {
        self.at(&format!("{ETC}/agent.request"))
    }

    /// Its credential.
    pub(crate) fn credential(&self) -> PathBuf {
        self.at(&format!("{ETC}/agent.credential"))
    }

    pub(crate) fn etc(&self) -> PathBuf {
        self.at(ETC)
    }

    /// The journal, and what was on the machine before.
    pub(crate) fn state(&self) -> PathBuf {
        self.at(STATE)
    }

    /// Artifacts that were fetched.
    pub(crate) fn cache(&self) -> PathBuf {
        self.at(&format!("{STATE}/cache"))
    }

    /// What is known of commands that run.
    pub(crate) fn commands(&self) -> PathBuf {
        self.at(&format!("{STATE}/commands"))
    }

    /// What the daemon is about, for [`explain`](crate::explain).
    pub(crate) fn status(&self) -> PathBuf {
        self.at(&format!("{RUN}/status.json"))
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.at(RUN)
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.at(BINARY)
    }

    /// Other programs of the agent: one that is being checked, and the one before the last replacement.
    pub(crate) fn other_binaries(&self) -> [PathBuf; 2] {
        [self.at(NEXT), self.at(PREVIOUS)]
    }

    /// The files of a replacement of the program, with this content of the unit.
    pub(crate) fn places(&self, unit_content: String) -> Places {
        // This process runs as the user that owns its folder in /proc.
        let user = std::fs::metadata("/proc/self").map_or((0, 0), |of| (of.uid(), of.gid()));
        Places {
            program: own(BINARY),
            next: own(NEXT),
            previous: own(PREVIOUS),
            state: own(UPGRADE),
            unit: own(UNIT),
            unit_content,
            owner: user.0,
            group: user.1,
        }
    }

    pub(crate) fn unit(&self) -> PathBuf {
        self.at(UNIT)
    }

    /// The proxy for the connections of the agent.
    pub(crate) fn proxy(&self) -> PathBuf {
        self.at(&format!("{HOST_ETC}/proxy.json"))
    }

    /// What no plan may write: what is the agent's, and what is that of the machine's registration.
    pub(crate) fn protected() -> impl Iterator<Item = MachinePath> {
        let of_agent = [ETC, STATE, RUN, BINARY, NEXT, PREVIOUS, UNIT];
        let of_registration = [HOST_ETC, HOST_STATE, HOST_BINARY, HOST_UNIT];
        of_agent.into_iter().chain(of_registration).map(own)
    }
}

fn own(path: &str) -> MachinePath {
    MachinePath::new(path).expect("a path of this module, absolute and plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_below_the_root() {
        let machine = Paths::new("/".into());
        assert!(machine.is_machine());
        assert_eq!(machine.config(), Path::new("/etc/capstan/agent.json"));
        assert_eq!(machine.binary(), Path::new("/opt/capstan/capstan-agent"));
        let elsewhere = Paths::new("/tmp/x".into());
        assert!(!elsewhere.is_machine());
        assert_eq!(elsewhere.cache(), Path::new("/tmp/x/var/lib/capstan/cache"));
        let protected: Vec<_> = Paths::protected().map(|path| path.to_string()).collect();
        for path in
            ["/etc/capstan", "/etc/capstan-host", "/opt/capstan-host/capstan-agent", "/var/lib/capstan-host"]
        {
            assert!(protected.iter().any(|own| own == path), "{path}");
        }
        assert_eq!(protected.len(), 11);
    }
}
