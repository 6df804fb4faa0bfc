//! The etcd of simulated clusters: a list of servers, each running or stopped.
//!
//! The simulation and the control plane controller exchange the state of etcd through a ConfigMap in the workload
//! cluster, because they may run in different processes on different machines. The simulation writes the members, the
//! controller writes its requests. Both sides are in this file, and share nothing but the API of the cluster.

use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_controller::remote::Remotes;
use capstan_plan::Digest;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::Mutex;

use super::Cluster;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "simulated-etcd";

/// Keys of the ConfigMap. Who the members are: the simulation's to say.
const MEMBERS: &str = "members";
/// Who is to lead, by its ID: whoever asks says it.
const LEADER: &str = "leader";
/// Who is to be removed, by its ID: whoever asks says it, and the simulation takes it away when that is done or refused.
const REMOVE: &str = "remove";
/// Why somebody was not removed.
const REFUSED: &str = "refused";

/// How long one waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Server {
    node: String,
    is_up: bool,
}

impl Server {
    /// The member on a server, named as k3s names them.
    fn member(&self) -> Member {
        let digest = Digest::of(self.node.as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&digest.as_bytes()[..8]);
        Member {
            id: u64::from_be_bytes(id),
            name: format!("{}-{}", self.node, &digest.to_string()[..8]),
            peer_urls: vec![format!("https://{}:2380", self.node)],
            client_urls: vec![format!("https://{}:2379", self.node)],
            is_learner: false,
            is_healthy: self.is_up,
        }
    }
}

/// Without a majority nobody can say anything.
fn quorum(servers: &[Server], doing: &str) -> Result<Vec<Member>> {
    let members: Vec<Member> = servers.iter().map(Server::member).collect();
    let healthy = members.iter().filter(|member| member.is_healthy).count();
    match healthy > members.len() / 2 {
        true => Ok(members),
        false => Err(Error::transient(doing, "etcdserver: no leader")),
    }
}

fn leader(members: &[Member], asked: Option<u64>) -> Option<u64> {
    let healthy = || members.iter().filter(|member| member.is_healthy).map(|member| member.id);
    healthy().find(|id| Some(*id) == asked).or_else(|| healthy().next())
}

fn api(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

// The side of the simulation.

impl Cluster {
    fn servers(&self) -> Vec<Server> {
        let servers = self.record.iter().flat_map(|record| &record.servers);
        servers.map(|node| Server { node: node.clone(), is_up: self.up.contains(node) }).collect()
    }

    /// Says in the cluster who its members are now, and, if somebody was to be removed, what came of it.
    pub(super) async fn write_etcd_members(&self, client: &Client, answer: Option<&str>) -> kube::Result<()> {
        let members = serde_json::to_string(&self.servers()).map_err(kube::Error::SerdeError)?;
        let mut data = json!({MEMBERS: members});
        if let Some(refused) = answer {
            data[REMOVE] = Value::Null;
            data[REFUSED] = json!(refused);
        }
        let patch = Patch::Merge(json!({"data": data}));
        match api(client).patch(NAME, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let mut made = ConfigMap {
                    data: Some(BTreeMap::from([(MEMBERS.to_owned(), members)])),
                    ..ConfigMap::default()
                };
                made.metadata.name = Some(NAME.to_owned());
                api(client).create(&PostParams::default(), &made).await.map(|_| ())
            }
            result => result.map(|_| ()),
        }
    }

    /// Removes a member. An error is why not.
    fn remove_member(&mut self, folder: &std::path::Path, id: &str) -> Result<()> {
        let doing = "cannot remove a member of the simulated etcd";
        quorum(&self.servers(), doing)?;
        let Some(record) = &mut self.record else { return Ok(()) };
        let mut left = record.clone();
        let is_meant =
            |node: &String| Server { node: node.clone(), is_up: true }.member().id.to_string() == id;
        left.servers.retain(|node| !is_meant(node));
        super::write(folder, &left).map_err(|error| Error::transient(doing, error))?;
        *record = left;
        Ok(())
    }
}

/// Does what is asked of the etcd of one cluster, until its API server ends.
pub(super) async fn serve(client: Client, cluster: Weak<Mutex<Cluster>>, folder: PathBuf) {
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut changes = std::pin::pin!(watcher(api(&client), config).default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        let Ok(Some(mut data)) = change.map(|object| object.data) else { continue };
        let (Some(asked), Some(cluster)) = (data.remove(REMOVE), cluster.upgrade()) else { continue };
        let mut cluster = cluster.lock().await;
        let refused = match cluster.remove_member(&folder, &asked) {
            Ok(()) => String::new(),
            Err(error) => capstan_controller::error::chain(&error),
        };
        if let Err(error) = cluster.write_etcd_members(&client, Some(&refused)).await {
            tracing::warn!(%error, "the simulated etcd cannot answer");
        }
    }
}

// The side of whoever looks after the control plane.

/// Client of the etcd of simulated clusters, in this process or another one.
#[derive(Clone)]
pub struct SimulatedEtcd {
    remotes: Remotes,
}

impl SimulatedEtcd {
    /// Creates the client; it connects to workload clusters through `remotes`.
    pub fn new(remotes: Remotes) -> Self {
        Self { remotes }
    }

    async fn api(&self, access: &Access, doing: &str) -> Result<Api<ConfigMap>> {
        let client = self.remotes.client(&access.namespace, &access.cluster).await?;
        let client = client.ok_or_else(|| Error::transient(doing, "the cluster has no kubeconfig"))?;
        Ok(api(&client))
    }

    async fn read(&self, access: &Access, doing: &str) -> Result<BTreeMap<String, String>> {
        let api = self.api(access, doing).await?;
        Ok(api.get(NAME).await.doing(|| doing.to_owned())?.data.unwrap_or_default())
    }

    async fn write(&self, access: &Access, data: Value, doing: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"data": data}));
        let api = self.api(access, doing).await?;
        api.patch(NAME, &PatchParams::default(), &patch).await.map(|_| ()).doing(|| doing.to_owned())
    }
}

/// What the simulation says.
fn members(data: &BTreeMap<String, String>, doing: &str) -> Result<Members> {
    let json = data.get(MEMBERS).map(String::as_str).unwrap_or_default();
    let servers: Vec<Server> = serde_json::from_str(json).map_err(|error| Error::transient(doing, error))?;
    let members = quorum(&servers, doing)?;
    let asked = data.get(LEADER).and_then(|id| id.parse().ok());
    Ok(Members { leader: leader(&members, asked), members })
}

impl Etcd for SimulatedEtcd {
    fn members<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Members>> {
        Box::pin(async move {
            let doing = "cannot ask the simulated etcd";
            members(&self.read(access, doing).await?, doing)
        })
    }

    fn move_leader<'a>(
        &'a self,
        access: &'a Access,
        _: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, Result<()>> {
        let doing = "cannot have another member of the simulated etcd lead";
        Box::pin(self.write(access, json!({LEADER: to.id.to_string()}), doing))
    }

    fn remove<'a>(&'a self, access: &'a Access, gone: &'a Member) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let doing = "cannot remove a member of the simulated etcd";
            let id = gone.id.to_string();
            self.write(access, json!({REMOVE: id, REFUSED: null}), doing).await?;
            let answered = async {
                loop {
                    let data = self.read(access, doing).await?;
                    if data.get(REMOVE) != Some(&id) {
                        return Ok::<_, Error>(data.get(REFUSED).cloned().unwrap_or_default());
                    }
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            };
            match tokio::time::timeout(PATIENCE, answered).await {
                Ok(Ok(refused)) if refused.is_empty() => Ok(()),
                Ok(Ok(refused)) => Err(Error::transient(doing, refused)),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::transient(doing, "no answer")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(servers: &[(&str, bool)], leader: Option<u64>) -> BTreeMap<String, String> {
        let servers: Vec<Server> =
            servers.iter().map(|(node, is_up)| Server { node: (*node).to_owned(), is_up: *is_up }).collect();
        let mut data = BTreeMap::from([(MEMBERS.to_owned(), serde_json::to_string(&servers).expect("JSON"))]);
        data.extend(leader.map(|id| (LEADER.to_owned(), id.to_string())));
        data
    }

    #[test]
    fn a_majority_speaks_and_the_one_asked_leads_if_it_can() {
        let all = [("a", true), ("b", true), ("c", false)];
        let found = members(&data(&all, None), "").expect("a majority");
        let [a, b, c] = &found.members[..] else { panic!("{found:?}") };
        assert_eq!(found.leader, Some(a.id));
        assert!(b.is_healthy && !c.is_healthy);
        assert_eq!(members(&data(&all, Some(b.id)), "").expect("a majority").leader, Some(b.id));
        assert_eq!(members(&data(&all, Some(c.id)), "").expect("a majority").leader, Some(a.id));
        assert!(members(&data(&[("a", true), ("b", false)], None), "").is_err());
        assert!(members(&BTreeMap::new(), "").is_err());
    }
}
