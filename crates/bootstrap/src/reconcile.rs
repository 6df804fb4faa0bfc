//! Reads what there is, asks [`decide`](crate::decide) and [`enrolment`](crate::enrolment), and writes.

use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig, CapstanConfigStatus};
use capstan_api::conditions::{set, types};
use capstan_api::core::Cluster;
use capstan_artifacts::Software;
use capstan_controller::error::{Error, Result};
use capstan_controller::patch::Patcher;
use capstan_controller::plane::PlaneName;
use capstan_controller::{Caches, Next, Reconciler, pause};
use jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decide::{self, DATA_SECRET_AVAILABLE, Decision, Waiting};
use crate::enrolment::{self, Step};
use crate::here::PlanKeys;
use crate::observe::Seen;
use crate::settled::Settled;
use crate::{Plane, act};

/// How long something that waits is left alone.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A machine that enrols needs some eight writes, one after the other. More in one go means that two write against
/// each other.
const MOST_STEPS: usize = 16;
/// Then others have their turn.
const LATER: Duration = Duration::from_secs(1);

const OWNED: [&str; 4] = [types::PAUSED, types::READY, DATA_SECRET_AVAILABLE, AGENT_ENROLLED];

/// The controller of CapstanConfigs.
pub struct Bootstrap {
    pub(crate) caches: Caches,
    pub(crate) plane: Plane,
    pub(crate) software: Software,
    pub(crate) settled: Settled,
    pub(crate) plan_keys: PlanKeys,
    /// Which plane it is, whatever its address.
    pub(crate) name: PlaneName,
}

impl Bootstrap {
    /// Machines will be told to reach the management plane as `plane` says, and to fetch the agent from where
    /// `software` has it.
    pub fn new(caches: Caches, plane: Plane, software: Software) -> Self {
        let name = PlaneName::of(caches.client().clone());
        let (settled, plan_keys) = (Settled::default(), PlanKeys::default());
        Self { caches, plane, software, settled, plan_keys, name }
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
        // One write after the other, each decided anew on what is there then.
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
            if !self.may_go_on(&configs, &config, seen.cluster.as_deref()).await? {
                return Ok(Next::Changed);
            }
            let now = Timestamp::now();
            let enrolment = seen.enrolment(now);
            if seen.own.as_ref().is_some_and(|own| !own.is_settled) {
                // Whoever parts has not looked at them yet.
                let is_right = enrolment.blocked.is_none()
                    && !matches!(enrolment.step, Step::Objects(_) | Step::Part { .. });
                self.settled.seen(&config.uid().unwrap_or_default(), is_right, Instant::now());
            }
            if seen.data.is_none() && seen.own.is_some() && enrolment.step == Step::Rest {
                // What is not in memory may be there all the same, without the label. What comes next rests on it.
                seen.data = self.secrets(&namespace).get(&namespace, &config.name_any()).await?;
            }
            let data = seen.data(&config, &enrolment, now);
            match (&data, &enrolment.step) {
                (Decision::Identify, _) => act::identify(&configs, &config).await?,
                (Decision::HandOut, Step::Rest) => Box::pin(self.hand_out(&config, &seen)).await?,
                (Decision::Followed, Step::Rest) => self.followed(&seen).await?,
                (_, Step::Rest) => return self.tell(&configs, &config, &data, enrolment, now).await,
                (_, step) => Box::pin(self.take(step, &config, &seen)).await?,
            }
            match self.caches.of::<CapstanConfig>().get(&namespace, &config.name_any()).await? {
                Some(found) => config = Arc::unwrap_or_clone(found),
                None => return Ok(Next::Changed),
            }
        }
        Ok(Next::After(LATER))
    }
}

impl Bootstrap {
    async fn may_go_on(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        cluster: Option<&Cluster>,
    ) -> Result<bool> {
        pause::allows(configs, config, cluster, Timestamp::now()).await
    }

    /// Says which right is missing, and tries again later.
    async fn refused(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        error: Error,
    ) -> Result<Next> {
        let mut told = config.clone();
        for condition in decide::conditions(&Waiting::forbidden(error.to_string())) {
            set(&mut told, condition, Timestamp::now());
        }
        pause::lifted(&mut told, Timestamp::now());
        Patcher::new(configs.clone(), config).finish(&told, &OWNED).await?;
        Err(error)
    }

    /// Says how it stands.
    async fn tell(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        data: &Decision,
        enrolment: enrolment::Decision,
        now: Timestamp,
    ) -> Result<Next> {
        let mut told = config.clone();
        for condition in decide::conditions(data).into_iter().chain([enrolment.told]) {
            set(&mut told, condition, now);
        }
        let status: &mut CapstanConfigStatus = told.status.get_or_insert_default();
        status.observed_generation = config.metadata.generation;
        if matches!(data, Decision::Done(_)) {
            status.data_secret_name = Some(config.name_any());
            status.initialization.get_or_insert_default().data_secret_created = Some(true);
        }
        pause::lifted(&mut told, Timestamp::now());
        Patcher::new(configs.clone(), config).finish(&told, &OWNED).await?;
        let of_data = match data {
            // Watches wake it, but for a Secret of somebody else that is in the way.
            Decision::Wait(_) => Next::After(LONGEST_WAIT),
            Decision::Done(Some(renewal)) => {
                Next::After(Duration::try_from(renewal.duration_since(now)).unwrap_or_default().max(LATER))
            }
            _ => Next::Changed,
        };
        Ok(enrolment.again.map_or(of_data, |again| of_data.or(Next::After(again))))
    }
}

impl Seen {
    /// What is to be done about enrolment. Nothing, before the machine has an identity.
    fn enrolment(&self, now: Timestamp) -> enrolment::Decision {
        match self.of_machine() {
            Some(observed) => enrolment::decide(&observed, now),
            None => enrolment::Decision::waits(
                capstan_api::bootstrap::enrolment_reasons::WAITING_FOR_BOOTSTRAP_DATA,
                "Waiting for the bootstrap data to be made",
            ),
        }
    }

    /// What is to be done about the bootstrap data.
    fn data(&self, config: &CapstanConfig, enrolment: &enrolment::Decision, now: Timestamp) -> Decision {
        let observed = decide::Observed {
            config,
            machine: self.machine.as_deref(),
            cluster: self.cluster.as_deref(),
            here: &self.here,
            plan_key: self.plan_key.as_ref(),
            secret: self.data.as_deref(),
            is_enrolled: self.is_enrolled(),
            bound_to: self.bound_to(),
            blocked: enrolment.blocked.as_deref(),
        };
        decide::decide(&observed, now)
    }
}
