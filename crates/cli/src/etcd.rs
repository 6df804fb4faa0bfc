//! Selects the etcd client: that of simulated clusters, or the real one.

use capstan_controller::Result;
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_controller::remote::Remotes;
use capstan_controlplane::EtcdClient;
use capstan_sim::{OS_IMAGE, SimulatedEtcd};
use futures::future::BoxFuture;

/// The etcd client for all clusters. A cluster is simulated if its machines report the simulated OS image.
pub(crate) struct AnyEtcd {
    simulated: SimulatedEtcd,
}

impl AnyEtcd {
    pub(crate) fn new(remotes: Remotes) -> Self {
        Self { simulated: SimulatedEtcd::new(remotes) }
    }

    fn of(&self, access: &Access) -> &dyn Etcd {
        let is_simulated = !access.os_images.is_empty() && access.os_images.iter().all(|os| os == OS_IMAGE);
        if is_simulated { &self.simulated } else { &EtcdClient }
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
