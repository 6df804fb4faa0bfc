//! The API server that all lives share, in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::Caches;
use capstan_controller::external::Externals;
use capstan_controlplane::{ControlPlane, Tools};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tower::Layer as _;

use crate::life::Life;
use crate::world::{Mood, Workload, World, tools};
use capstan_testkit::crash::CrashPoint;

pub(crate) struct SimulatedPlane {
    server: Arc<ApiServer>,
    /// Keys and certificates that one cluster made, for all others: they take long to make.
    pub(crate) brought: Vec<Secret>,
}

impl SimulatedPlane {
    pub(crate) async fn open() -> Result<Self> {
        // No two objects are of the same age, so that it is never chance which is older.
        let seconds = AtomicI64::new(1_600_000_000);
        let clock = move || Timestamp::from_second(seconds.fetch_add(1, Ordering::SeqCst)).unwrap();
        let options = Options { clock: Arc::new(clock), ..Options::new(Storage::Memory) };
        let server = ApiServer::open(options).await?;
        let mut plane = Self { server, brought: Vec::new() };
        capstan_testkit::install_crds(&plane.client(), &capstan_api::crd::all()).await?;
        plane.brought = Box::pin(plane.keys()).await?;
        Ok(plane)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.service(User::admin()), "default")
    }

    /// A first cluster makes the keys of all others.
    async fn keys(&self) -> Result<Vec<Secret>> {
        let mut life = Box::pin(Life::begin(self, "keys", 0)).await?;
        life.world.mood = Mood::default();
        for _ in 0..5 {
            Box::pin(life.advance(1)).await?;
        }
        let mut keys = Vec::new();
        for name in ["c-ca", "c-etcd", "c-proxy", "c-sa"] {
            let mut secret = life.world.api::<Secret>().get(name).await?;
            secret.metadata = kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
            keys.push(secret);
        }
        Ok(keys)
    }

    /// What managers are made from.
    pub(crate) fn office(&self) -> Office {
        Office(Arc::clone(&self.server))
    }
}

/// Makes managers.
pub(crate) struct Office(Arc<ApiServer>);

impl Office {
    /// A manager that dies when its pulse says so.
    pub(crate) fn manager(&self, world: &World, crash_point: &CrashPoint) -> ControlPlane<Workload> {
        let client = Client::new(crash_point.layer(self.0.service(User::admin())), "default");
        let workload = world.workload.seen_by(crash_point);
        let tools: Tools = tools(&workload);
        ControlPlane::new(Caches::live(client.clone()), Externals::new(client), workload, tools)
    }
}
