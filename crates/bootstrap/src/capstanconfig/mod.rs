//! CapstanConfig: a machine's identity, the Secret it starts with, and its enrolment.
//!
//! Reads: the CapstanConfig, its Machine, its Cluster, the plan key of that, and what [`enrolment`](crate::enrolment)
//! reads. Writes: identity and status of the CapstanConfig, the Secret with the bootstrap data, and what enrolment and
//! [`contact`](crate::contact) write.
//!
//! Phases: one write after the other, each decided on what is there then. Pause; what is to be done about enrolment and
//! about the data; one step of either; and status, once there is nothing left to do.

mod act;
mod decide;
mod observe;
mod status;
pub(crate) mod triggers;

pub(crate) use observe::Seen;

use capstan_api::bootstrap::{
    AGENT_CONNECTED, AGENT_HEALTHY, AGENT_UPGRADED, CapstanConfig, MACHINE_AS_PLANNED, PROBES_HEALTHY,
};
use capstan_api::conditions::set;
use capstan_api::core::Machine;
use capstan_artifacts::Software;
use capstan_controller::error::{Error, Result};
use capstan_controller::events::{Events, Tone};
use capstan_controller::patch::Patcher;
use capstan_controller::plane::PlaneName;
use capstan_controller::{Caches, Next, Reconciler, pause};
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::sync::Arc;
use std::time::Instant;

use crate::PlaneAddress;
use crate::contact::{self, Heard};
use crate::enrolment::{self, EnrolmentStep};
use crate::this_plane::PlanKeys;
use crate::verified_objects::VerifiedObjects;
use decide::Decision;
use status::OWNED;

/// A machine that enrols needs some four writes, one after the other. More in one go means that two write against
/// each other.
const MOST_STEPS: usize = 16;

/// The controller of CapstanConfigs.
pub struct Bootstrap {
    pub(crate) caches: Caches,
    pub(crate) plane: PlaneAddress,
    pub(crate) software: Software,
    pub(crate) verified_objects: VerifiedObjects,
    pub(crate) plan_keys: PlanKeys,
    /// Which plane it is, whatever its address.
    pub(crate) name: PlaneName,
    /// The heartbeats of machines.
    heard: Arc<Heard>,
}

impl Bootstrap {
    /// A controller whose machines reach the management plane at `plane`, and download the agent from the sources in
    /// `software`.
    pub fn new(caches: Caches, plane: PlaneAddress, software: Software) -> Self {
        let name = PlaneName::of(caches.client().clone());
        let (verified_objects, plan_keys) = (VerifiedObjects::default(), PlanKeys::default());
        Self { caches, plane, software, verified_objects, plan_keys, name, heard: Arc::default() }
    }

    /// With heartbeats that something else takes note of.
    pub(crate) fn hearing(self, heard: Arc<Heard>) -> Self {
        Self { heard, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        self.caches.client()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client().clone(), namespace)
    }
}

impl Reconciler for Bootstrap {
    type Object = CapstanConfig;

    fn name(&self) -> &'static str {
        "capstanconfig"
    }

    async fn reconcile(&self, config: Arc<CapstanConfig>) -> Result<Next> {
        let namespace = config.namespace().unwrap_or_default();
        let configs: Api<CapstanConfig> = self.api(&namespace);
        let mut config = Arc::unwrap_or_clone(config);
        for _ in 0..MOST_STEPS {
            if config.metadata.deletion_timestamp.is_some() {
                return Ok(Next::Changed);
            }
            let mut seen = match Box::pin(self.observe(&config)).await {
                Err(error @ Error::Forbidden { .. }) => {
                    return Box::pin(self.refused(&configs, &config, error)).await;
                }
                seen => seen?,
            };
            let now = Timestamp::now();
            if !pause::allows(&configs, &config, seen.cluster.as_deref(), now).await? {
                return Ok(Next::Changed);
            }
            let enrolment = match seen.of_machine() {
                Some(observed) => enrolment::decide(&observed, now),
                None => enrolment::Decision::too_early(),
            };
            if seen.own.as_ref().is_some_and(|own| !own.are_verified) {
                let uid = config.uid().unwrap_or_default();
                self.verified_objects.seen(&uid, enrolment.has_verified_objects(), Instant::now());
            }
            if seen.data.is_none() && seen.own.is_some() && enrolment.step == EnrolmentStep::Rest {
                // What is not in memory may be there all the same, without the label. What comes next rests on it.
                seen.data = self.secrets(&namespace).get(&namespace, &config.name_any()).await?;
            }
            let data = decide::decide(&seen.of_data(&config, enrolment.blocked.as_ref()), now);
            match (&data, &enrolment.step) {
                (Decision::Identify, _) => act::identify(&configs, &config).await?,
                (Decision::HandOut, EnrolmentStep::Rest) => Box::pin(self.hand_out(&config, &seen)).await?,
                (Decision::Followed, EnrolmentStep::Rest) => self.followed(&seen).await?,
                (_, EnrolmentStep::Rest) => {
                    let again = self.tell(&configs, &config, &data, &enrolment, now).await?;
                    self.tell_of_agent(&config, &seen, now).await?;
                    return Ok(again);
                }
                (_, step) => Box::pin(self.take(step, &seen)).await?,
            }
            match self.caches.of::<CapstanConfig>().get(&namespace, &config.name_any()).await? {
                Some(found) => config = Arc::unwrap_or_clone(found),
                None => return Ok(Next::Changed),
            }
        }
        Ok(Next::After(decide::LATER))
    }
}

impl Bootstrap {
    /// Says which right is missing, and tries again later.
    async fn refused(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        error: Error,
    ) -> Result<Next> {
        let (mut updated, now) = (config.clone(), Timestamp::now());
        status::forbidden(&mut updated, error.to_string(), now);
        pause::lifted(&mut updated, now);
        Patcher::new(configs.clone(), config).finish(&updated, &OWNED).await?;
        Err(error)
    }

    /// Says how it stands.
    async fn tell(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        data: &Decision,
        enrolment: &enrolment::Decision,
        now: Timestamp,
    ) -> Result<Next> {
        let mut updated = config.clone();
        status::tell(&mut updated, data, enrolment, now);
        pause::lifted(&mut updated, now);
        Patcher::new(configs.clone(), config).finish(&updated, &OWNED).await?;
        if let Some((reason, message)) = enrolment::news(config, &enrolment.standing) {
            let events = Events::new(self.client().clone(), "capstan-bootstrap");
            events.tell(config, Tone::Normal, reason, message, now).await;
        }
        Ok(decide::again(data, enrolment.again, now))
    }

    /// Sets the conditions of the Machine that come from its agent: contact, ability to work, its program, drift and probes, as far
    /// as they are known.
    async fn tell_of_agent(&self, config: &CapstanConfig, seen: &Seen, now: Timestamp) -> Result<()> {
        let Some(machine) = seen.machine.as_deref() else { return Ok(()) };
        let namespace = config.namespace().unwrap_or_default();
        let contact = self.heard.contact(&(namespace.clone(), config.name_any()), now);
        let report = seen.own.as_ref().and_then(|own| own.report.as_ref());
        let health = report.and_then(|report| contact::health(machine, report));
        let drift = report.and_then(|report| contact::drift(machine, report));
        let probes = report.and_then(|report| contact::probes(machine, report, contact));
        let program = report.and_then(|report| contact::program(machine, report));
        let mut updated = machine.clone();
        let conditions = contact::condition(machine, contact)
            .into_iter()
            .chain(health)
            .chain(drift)
            .chain(probes)
            .chain(program);
        for condition in conditions {
            set(&mut updated, condition, now);
        }
        let owned = [AGENT_CONNECTED, AGENT_HEALTHY, AGENT_UPGRADED, MACHINE_AS_PLANNED, PROBES_HEALTHY];
        Patcher::new(self.api::<Machine>(&namespace), machine).finish(&updated, &owned).await
    }
}
