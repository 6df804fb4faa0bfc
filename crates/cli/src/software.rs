//! The software that a plane or a manager offers to machines: its folder, and the server for it.

use anyhow::{Context, Result};
use capstan_artifacts::server::{CONNECTIONS, Options, Server};
use capstan_artifacts::{AGENT, Folder, Software, VERSION};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::args::SoftwareArgs;

/// A folder of software, and its server if enabled. Dropping the value stops the server.
pub(crate) struct Depot {
    folder: Folder,
    server: Option<Server>,
}

impl Depot {
    /// Opens the folder and adds the agent. `host` is the name or address for machines, if it differs from that of
    /// `listen`.
    pub(crate) async fn open(
        args: &SoftwareArgs,
        data_dir: &Path,
        listen: Option<SocketAddr>,
        host: Option<&str>,
    ) -> Result<Self> {
        let folder = Folder::new(args.artifacts_dir.clone().unwrap_or_else(|| data_dir.join("artifacts")))
            .with_elsewhere(args.artifacts_index.clone());
        // What is wrong with it should be known now, not when the first machine waits.
        folder.whole_index()?;
        for binary in agents(&args.agent_binary)? {
            folder.add_agent(&binary).with_context(|| {
                format!(
                    "cannot put {} into {} (see --agent-binary)",
                    binary.display(),
                    folder.path().display()
                )
            })?;
        }
        let server = match listen {
            Some(listen) => {
                let options = Options {
                    listen,
                    url: args.artifacts_url.clone(),
                    host: host.map(str::to_owned),
                    authority: data_dir.join("artifacts-pki"),
                    connections: CONNECTIONS,
                };
                let server = Server::start(folder.clone(), &options).await;
                Some(server.context("cannot serve software (see --artifacts-listen and --artifacts-url)")?)
            }
            None => None,
        };
        Ok(Self { folder, server })
    }

    /// The available software.
    pub(crate) fn software(&self) -> Software {
        match &self.server {
            Some(server) => server.software(),
            None => Software::in_folder(self.folder.clone(), None),
        }
    }
}

/// Text for people, printed at the start.
impl fmt::Display for Depot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.path().display();
        match &self.server {
            Some(server) => write!(f, "software for machines: {} from {folder}", server.served().url)?,
            None => write!(f, "software for machines: not served (see --artifacts-listen); folder {folder}")?,
        }
        match self.software().catalog().of(AGENT, VERSION).next() {
            Some(_) => Ok(()),
            None => write!(
                f,
                "\nno {AGENT} {VERSION} to give: machines must have it already (see --agent-binary)"
            ),
        }
    }
}

/// The agents that were named, or else the one that lies beside this program.
fn agents(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let this = std::env::current_exe().context("cannot find this program")?;
    let beside = this.with_file_name(AGENT);
    Ok(if beside.is_file() { vec![beside] } else { Vec::new() })
}
