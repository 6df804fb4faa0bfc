//! Simulated workload clusters: the members of each, and an API server for each.
//!
//! A cluster is identified by the port of its API server. It is created when a server starts with `cluster-init`,
//! serves while at least one server runs, and is deleted when the last server is removed from its machine.

mod config;
mod etcd;
mod objects;
mod running;
mod tls;
mod token;

pub use config::{Authorities, NodeFacts, Start};
pub use token::JoinToken;

use capstan_files::Durability;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tokio::sync::Mutex;

use crate::task::Task;
use crate::vm::state::{K3sRole, Membership, State};
use running::Running;
use token::JoinTokens;

pub use etcd::SimulatedEtcd;

const FILE: &str = "cluster.json";

/// All clusters. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    folder: Arc<PathBuf>,
    /// Where API servers listen.
    listen: IpAddr,
    all: Arc<std::sync::Mutex<BTreeMap<u16, Arc<Mutex<Cluster>>>>>,
}

/// What of a cluster outlives the process, beside its objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// Of the password of servers: what must be shown is not kept.
    token_digest: String,
    /// Names of the Nodes that are part of etcd, so that they may start alone.
    servers: BTreeSet<String>,
}

#[derive(Default)]
struct Cluster {
    record: Option<Record>,
    /// Servers whose k3s runs in this process.
    up: BTreeSet<String>,
    /// What each of them asks of those who join.
    join_tokens: BTreeMap<String, JoinTokens>,
    running: Option<Running>,
    /// Answers for etcd while the API server runs.
    etcd: Option<Task>,
}

impl Clusters {
    /// Loads the clusters whose state is in `folder`. Their API servers listen on the address `listen`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn open(folder: &Path, listen: IpAddr) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Some(port) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let record = match fs::read(entry.path().join(FILE)) {
                Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
                // It was being made or taken away.
                Err(_) => None,
            };
            all.insert(port, Arc::new(Mutex::new(Cluster { record, ..Cluster::default() })));
        }
        Ok(Self { folder: Arc::new(folder.to_owned()), listen, all: Arc::new(std::sync::Mutex::new(all)) })
    }

    /// Starts or restarts k3s. The error text is what k3s would print.
    ///
    /// # Errors
    /// If k3s cannot join or start its cluster.
    pub async fn start(&self, start: Start) -> Result<Membership, String> {
        let shared = self.cluster(start.port);
        let mut cluster = shared.lock().await;
        let digest = start.token.digest();
        let is_server = start.kind == K3sRole::Server;
        let is_member =
            cluster.record.as_ref().is_some_and(|record| record.servers.contains(&start.node.name));
        match &cluster.record {
            Some(record) if is_server && record.token_digest != digest => {
                return Err("token is not valid".to_owned());
            }
            None if !start.is_init => return Err(refused(start.port)),
            _ => {}
        }
        // Any of them may be the one that is asked.
        let others = cluster.join_tokens.iter().filter(|(name, _)| **name != start.node.name);
        others.map(|(_, tokens)| tokens).try_for_each(|tokens| tokens.admits(&start))?;
        if cluster.running.is_none() && !(is_server && (start.is_init || is_member)) {
            return Err(refused(start.port));
        }
        if is_server {
            let folder = self.folder.join(start.port.to_string());
            let mut record =
                cluster.record.clone().unwrap_or(Record { token_digest: digest, servers: BTreeSet::new() });
            if record.servers.insert(start.node.name.clone()) || cluster.record.is_none() {
                write(&folder, &record).map_err(|error| format!("cannot write the cluster down: {error}"))?;
                cluster.record = Some(record);
            }
            self.serve(&shared, &mut cluster, &start).await?;
        }
        let Some(running) = &cluster.running else { return Err(refused(start.port)) };
        running.register(&start.node, start.kind).await?;
        if let Some(tokens) = JoinTokens::of(&start).filter(|_| is_server) {
            cluster.up.insert(start.node.name.clone());
            cluster.join_tokens.insert(start.node.name.clone(), tokens);
            write_etcd_members(&cluster).await;
        }
        Ok(Membership { port: start.port, node: start.node.name, kind: start.kind })
    }

    /// Serves the cluster of a server again that was running when the process ended.
    ///
    /// # Errors
    /// If the API server cannot be started.
    pub async fn restore(&self, state: &State, host: &str) -> Result<(), String> {
        let start = Start::read(state, K3sRole::Server, host)?;
        let shared = self.cluster(start.port);
        let mut cluster = shared.lock().await;
        self.serve(&shared, &mut cluster, &start).await?;
        let tokens = JoinTokens::of(&start);
        cluster.join_tokens.extend(tokens.map(|tokens| (start.node.name.clone(), tokens)));
        cluster.up.insert(start.node.name);
        write_etcd_members(&cluster).await;
        Ok(())
    }

    /// Sees that the API server of a cluster runs.
    async fn serve(
        &self,
        shared: &Arc<Mutex<Cluster>>,
        cluster: &mut Cluster,
        start: &Start,
    ) -> Result<(), String> {
        if cluster.running.is_none() {
            let folder = self.folder.join(start.port.to_string());
            let running = Running::start(&folder, start, self.listen).await?;
            let answers = etcd::serve(running.client(), Arc::downgrade(shared), folder);
            cluster.etcd = Some(Task::spawn(answers));
            cluster.running = Some(running);
        }
        Ok(())
    }

    /// Stops k3s. `for_good` means that k3s was removed from the machine together with its data.
    pub async fn stop(&self, membership: &Membership, for_good: bool) {
        let shared = self.cluster(membership.port);
        let mut cluster = shared.lock().await;
        if let Some(running) = &cluster.running {
            running.leave(&membership.node, membership.kind, for_good).await;
        }
        if membership.kind == K3sRole::Agent {
            return;
        }
        cluster.up.remove(&membership.node);
        cluster.join_tokens.remove(&membership.node);
        let folder = self.folder.join(membership.port.to_string());
        if for_good && let Some(record) = &mut cluster.record {
            record.servers.remove(&membership.node);
            // What cannot be written now is read as one server too many, which harms nobody.
            let _ = write(&folder, record);
        }
        write_etcd_members(&cluster).await;
        if cluster.up.is_empty()
            && let Some(running) = cluster.running.take()
        {
            cluster.etcd = None;
            running.stop().await;
        }
        if cluster.record.as_ref().is_some_and(|record| record.servers.is_empty()) {
            cluster.record = None;
            // The record goes first: without it the rest is nothing.
            let _ = fs::remove_file(folder.join(FILE));
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Whether the API server on a port answers.
    pub async fn is_up(&self, port: u16) -> bool {
        let cluster = self.cluster(port);
        let cluster = cluster.lock().await;
        match &cluster.running {
            Some(running) => running.is_ready().await,
            None => false,
        }
    }

    /// Stops all API servers, one after the other. The state of their clusters stays on disk.
    pub async fn close(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for cluster in all {
            let mut cluster = cluster.lock().await;
            cluster.etcd = None;
            if let Some(running) = cluster.running.take() {
                running.stop().await;
            }
        }
    }

    fn cluster(&self, port: u16) -> Arc<Mutex<Cluster>> {
        Arc::clone(self.lock().entry(port).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, Arc<Mutex<Cluster>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says in the cluster who the members of its etcd are.
async fn write_etcd_members(cluster: &Cluster) {
    if let Some(running) = &cluster.running
        && let Err(error) = cluster.write_etcd_members(&running.client(), None).await
    {
        tracing::warn!(%error, "cannot write the members of the simulated etcd");
    }
}

fn refused(port: u16) -> String {
    format!("failed to get CA certs: dial tcp 127.0.0.1:{port}: connect: connection refused")
}

fn write(folder: &Path, record: &Record) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let record = serde_json::to_vec(record)?;
    capstan_files::write(&folder.join(FILE), &record, 0o600, Durability::Lasting)
        .map_err(|error| error.source)
}
