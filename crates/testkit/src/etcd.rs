//! A real etcd with several members. Each has its own loopback address and listens on etcd's standard ports, as on
//! separate machines.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_tools::{Program, locate};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::pki::{Authority, IdentityFiles, write};
use crate::process::{Crew, Launch, Process};
use crate::{eventually, install_crypto_provider};

const CLIENTS: u16 = 2379;
const PEERS: u16 = 2380;
/// Clusters that this process has started: each has addresses of its own.
static CLUSTERS: AtomicUsize = AtomicUsize::new(0);
const READY: Duration = Duration::from_secs(60);

/// A running etcd. Dropping it stops its members and removes their data.
pub struct EtcdCluster {
    // In this order: what runs in the folder ends before the folder goes.
    members: Vec<Crew>,
    addresses: Vec<String>,
    authority: Authority,
    _folder: TempDir,
}

impl EtcdCluster {
    /// Starts members with these names, and returns when all of them listen.
    pub async fn start(names: &[&str]) -> Result<Self> {
        install_crypto_provider();
        let folder = TempDir::with_prefix("capstan-etcd-").context("no temporary folder")?;
        let authority = Authority::new("etcd")?;
        let ca = folder.path().join("ca.crt");
        write(&ca, &authority.certificate())?;
        // All of 127.0.0.0/8 is loopback; the process id keeps clusters of different tests apart.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let first = 10 * CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let address = |number: usize| format!("127.{}.{low}.{}", 100 + high % 100, first + number);
        let addresses: Vec<String> = (1..=names.len()).map(address).collect();
        let initial: Vec<String> = names
            .iter()
            .zip(&addresses)
            .map(|(name, address)| format!("{name}=https://{address}:{PEERS}"))
            .collect();
        let mut members = Vec::new();
        for (name, address) in names.iter().zip(&addresses) {
            let home = folder.path().join(name);
            fs::create_dir(&home).context("cannot make a folder for a member")?;
            let serving = authority.server(name, &[address])?.write(&home, "member")?;
            let launch = launch(name, address, &initial.join(","), &home, &ca, &serving)?;
            let mut alone = Crew::default();
            alone.add(Process::spawn(name, &launch, &home)?);
            members.push(alone);
        }
        for address in &addresses {
            eventually(READY, "a member of etcd to listen", async || {
                TcpStream::connect((address.as_str(), CLIENTS)).await.context("it does not listen")?;
                Ok(())
            })
            .await?;
        }
        Ok(Self { members, addresses, authority, _folder: folder })
    }

    /// Addresses of its members.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Certificate and key of the CA that signs members and clients, as PEM.
    pub fn authority(&self) -> (String, String) {
        (self.authority.certificate(), self.authority.key())
    }

    /// Stops one member.
    pub fn stop(&mut self, index: usize) {
        self.members[index] = Crew::default();
    }
}

fn launch(
    name: &str,
    address: &str,
    initial: &str,
    home: &Path,
    ca: &Path,
    serving: &IdentityFiles,
) -> Result<Launch> {
    let (clients, peers) = (format!("https://{address}:{CLIENTS}"), format!("https://{address}:{PEERS}"));
    Ok(Launch::new(locate(Program::Etcd)?)
        .arg(format!("--name={name}"))
        .path_arg("--data-dir", &home.join("data"))
        .arg(format!("--listen-client-urls={clients}"))
        .arg(format!("--advertise-client-urls={clients}"))
        .arg(format!("--listen-peer-urls={peers}"))
        .arg(format!("--initial-advertise-peer-urls={peers}"))
        .arg(format!("--initial-cluster={initial}"))
        .path_arg("--trusted-ca-file", ca)
        .path_arg("--cert-file", &serving.certificate)
        .path_arg("--key-file", &serving.key)
        .arg("--client-cert-auth")
        .path_arg("--peer-trusted-ca-file", ca)
        .path_arg("--peer-cert-file", &serving.certificate)
        .path_arg("--peer-key-file", &serving.key)
        .arg("--peer-client-cert-auth")
        // Nothing in it outlives the test.
        .arg("--unsafe-no-fsync")
        .arg("--log-level=warn"))
}
