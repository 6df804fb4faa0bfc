//! The etcd of simulated clusters: a list of servers, some of which run.

use capstan_controller::error::{Error, Result};
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_plan::Digest;
use futures::future::BoxFuture;

use super::{Cluster, Clusters};

/// The member on a server, named as k3s names them.
fn member(node: &str, is_healthy: bool) -> Member {
    let digest = Digest::of(node.as_bytes());
    let mut id = [0; 8];
    id.copy_from_slice(&digest.as_bytes()[..8]);
    Member {
        id: u64::from_be_bytes(id),
        name: format!("{node}-{}", &digest.to_string()[..8]),
        peer_urls: vec!["https://127.0.0.1:2380".to_owned()],
        client_urls: vec!["https://127.0.0.1:2379".to_owned()],
        is_learner: false,
        is_healthy,
    }
}

impl Cluster {
    fn members(&self) -> Vec<Member> {
        let servers = self.record.iter().flat_map(|record| &record.servers);
        servers.map(|node| member(node, self.up.contains(node))).collect()
    }

    /// Without a majority nobody can say anything.
    fn quorum(&self, doing: &str) -> Result<Vec<Member>> {
        let members = self.members();
        let healthy = members.iter().filter(|member| member.is_healthy).count();
        match healthy > members.len() / 2 {
            true => Ok(members),
            false => Err(Error::transient(doing, "etcdserver: no leader")),
        }
    }

    fn leader(&self, members: &[Member]) -> Option<u64> {
        let healthy = || members.iter().filter(|member| member.is_healthy).map(|member| member.id);
        healthy().find(|id| Some(*id) == self.leader).or_else(|| healthy().next())
    }
}

impl Clusters {
    /// Whether there is a simulated cluster whose API server has this port.
    pub fn has(&self, port: u16) -> bool {
        self.lock().contains_key(&port)
    }
}

impl Etcd for Clusters {
    fn members<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Members>> {
        Box::pin(async move {
            let cluster = self.cluster(access.api_port);
            let cluster = cluster.lock().await;
            let members = cluster.quorum("cannot ask the simulated etcd")?;
            Ok(Members { leader: cluster.leader(&members), members })
        })
    }

    fn move_leader<'a>(
        &'a self,
        access: &'a Access,
        _: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let cluster = self.cluster(access.api_port);
            cluster.lock().await.leader = Some(to.id);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, access: &'a Access, gone: &'a Member) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let doing = "cannot remove a member of the simulated etcd";
            let cluster = self.cluster(access.api_port);
            let mut cluster = cluster.lock().await;
            cluster.quorum(doing)?;
            let Some(record) = &mut cluster.record else { return Ok(()) };
            let mut left = record.clone();
            left.servers.retain(|node| member(node, true).id != gone.id);
            let folder = self.folder.join(access.api_port.to_string());
            super::write(&folder, &left).map_err(|error| Error::transient(doing, error))?;
            *record = left;
            Ok(())
        })
    }
}
