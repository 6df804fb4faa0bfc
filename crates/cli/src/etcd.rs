//! Which etcd is asked: that of a simulated cluster, or a real one.

use capstan_controller::Result;
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_controlplane::EtcdClient;
use capstan_sim::Sim;
use futures::future::BoxFuture;

/// Simulated clusters are known by their port; everything else is real.
pub(crate) struct AnyEtcd {
    pub(crate) sim: Option<Sim>,
}

impl AnyEtcd {
    fn of(&self, access: &Access) -> &dyn Etcd {
        match &self.sim {
            Some(sim) if sim.clusters().has(access.api_port) => sim.clusters(),
            _ => &EtcdClient,
        }
    }
}

impl Etcd for AnyEtcd {
    fn members<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Members>> {
        self.of(access).members(access)
    }

    fn move_leader<'a>(
        &'a self,
        access: &'a Access,
        from: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, Result<()>> {
        self.of(access).move_leader(access, from, to)
    }

    fn remove<'a>(&'a self, access: &'a Access, member: &'a Member) -> BoxFuture<'a, Result<()>> {
        self.of(access).remove(access, member)
    }
}
