//! One life: a cluster, the managers it had one after the other, and what happened to it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use capstan_controller::Reconciler as _;
use capstan_controlplane::{Ambient, ControlPlane};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::plane::{Office, SimulatedPlane};
use crate::seen::Seen;
use crate::ward::Ward;
use crate::world::{Mood, Scene, Workload, World};
use capstan_testkit::crash::{CrashPoint, NEVER};

/// How many turns the trouble lasts: short lives are many, and long ones go far.
const FAULTY_TURNS: std::ops::Range<usize> = 10..40;
/// How many turns before it begins: a cluster may be whole by then, or not have begun.
const TURNS_BEFORE: std::ops::Range<usize> = 0..24;

pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) random: StdRng,
    manager: ControlPlane<Workload>,
    crash_point: CrashPoint,
    ambient: Ambient,
    clock: Arc<Mutex<Timestamp>>,
    office: Office,
    /// Machines that somebody else wants gone.
    pub(crate) unwanted: BTreeSet<String>,
    /// How far the user has come with new versions.
    pub(crate) version: usize,
    /// Workers that there are.
    pub(crate) workers: usize,
    /// What happened, turn by turn.
    pub(crate) history: Vec<String>,
    /// The health check of this life.
    pub(crate) ward: Ward,
    /// What the user has overwritten in the Secret with the token.
    pub(crate) edited: Option<ByteString>,
}

impl Life {
    pub(crate) async fn begin(plane: &SimulatedPlane, namespace: &str, seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::new(plane.client(), namespace).await;
        for secret in &plane.brought {
            world.api::<Secret>().create(&PostParams::default(), secret).await?;
        }
        let workers = random.random_range(0..=3);
        for number in 0..workers {
            world.add_worker(&format!("w{number}")).await;
        }
        world.mood = Mood::faulty(random.random());
        world.workload.be_slow(true);
        let clock = Arc::new(Mutex::new("2026-01-01T00:00:00Z".parse()?));
        let ambient = ambient(&clock, random.random());
        let crash_point = CrashPoint::new(NEVER, false);
        let office = plane.office();
        let manager = office.manager(&world, &crash_point).with_ambient(ambient.clone());
        let mut life = Self {
            world,
            random,
            manager,
            crash_point,
            ambient,
            clock,
            office,
            unwanted: BTreeSet::new(),
            version: 0,
            workers,
            history: Vec::new(),
            ward: Ward::default(),
            edited: None,
        };
        life.ward.is_open = life.percent(70);
        life.ward.may_replace = life.percent(40);
        life.ward.has_leases = life.percent(40);
        life.ward.is_external = life.percent(30);
        let replicas = if life.percent(50) { 1 } else { 3 };
        let strategy = if life.ward.may_replace { "InPlaceOrReplace" } else { "InPlace" };
        life.spec(json!({"replicas": replicas, "rollout": {"strategy": {"type": strategy}}})).await?;
        Ok(life)
    }

    /// From its beginning to where everything is as it should be.
    pub(crate) async fn live(&mut self) -> Result<()> {
        for _ in 0..self.random.random_range(TURNS_BEFORE) {
            Box::pin(self.advance(1)).await?;
        }
        for turn in 0..self.random.random_range(FAULTY_TURNS) {
            Box::pin(self.inject_faults()).await.with_context(|| format!("turn {turn} of trouble"))?;
        }
        Box::pin(self.peace()).await.context("in peace")
    }

    /// Another manager takes over, which dies at a write.
    pub(crate) fn take_over(&mut self, writes: i64) {
        self.crash_point = CrashPoint::new(writes, self.random.random_ratio(1, 2));
        // Its Node list comes at once, late, or later than it will live.
        let turns = self.random.random_range(0..4);
        self.world.workload.forget_nodes(turns);
        self.manager = self.office.manager(&self.world, &self.crash_point).with_ambient(self.ambient.clone());
    }

    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    pub(crate) fn now(&self) -> Timestamp {
        *self.clock.lock().unwrap()
    }

    pub(crate) fn wait(&self, seconds: i64) {
        *self.clock.lock().unwrap() += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn record(&mut self, what: impl Into<String>) {
        self.history.push(what.into());
    }

    /// One turn: the manager is called so many times, and then everybody else does their part. Gives what went wrong
    /// from the manager's point of view.
    pub(crate) async fn advance(&mut self, calls: usize) -> Result<Option<String>> {
        let mut scene = self.world.scene().await?;
        let mut failed = None;
        for _ in 0..calls {
            let before = Seen::of(&scene)?;
            (scene, failed) = self.call_manager(&before).await?;
        }
        self.world.now = self.now();
        self.world.workload.advance();
        self.watch_over().await?;
        self.world.tick_from(&scene).await?;
        Ok(failed)
    }

    /// The manager is called, and what it did is looked at.
    async fn call_manager(&mut self, before: &Seen) -> Result<(Scene, Option<String>)> {
        let object = self.world.control_plane().await?;
        let failed = self.manager.reconcile(Arc::new(object)).await.err();
        let scene = self.world.scene().await?;
        let after = Seen::of(&scene)?;
        let died = if self.crash_point.is_dead() { ", and the manager is dead" } else { "" };
        self.record(format!("{} etcd:{}{died}", after.summary(), self.world.workload.summary()));
        self.world.check(&scene)?;
        let mut unwanted = self.unwanted.clone();
        if self.ward.may_replace {
            // What nothing has cured may be replaced.
            let ill = before
                .staying_servers()
                .filter(|name| self.ward.is_ill(name) || self.world.lost.contains(name));
            unwanted.extend(ill);
        }
        after.follows(before, &unwanted, &self.world.workload)?;
        ensure!(
            self.edited.is_none() || !before.has_begun() || after.has_same_plans(before),
            "machines were told something made from a Secret that was edited"
        );
        self.ward.check(before, &after, &self.world.workload, self.now())?;
        if self.crash_point.is_dead() {
            self.take_over(NEVER);
        }
        Ok((scene, failed.map(|error| capstan_controller::error::chain(&error))))
    }
}

fn ambient(clock: &Arc<Mutex<Timestamp>>, seed: u64) -> Ambient {
    let clock = Arc::clone(clock);
    let random = Mutex::new(StdRng::seed_from_u64(seed));
    Ambient {
        clock: Arc::new(move || *clock.lock().unwrap()),
        suffix: Arc::new(move || format!("{:05}", random.lock().unwrap().random_range(0..100_000))),
    }
}
