//! Reads the inputs of the decisions. Does not write.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{ConditionStatus, get, types};
use capstan_api::core::{Cluster, Machine};
use capstan_api::wait::Wait;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::plane::hand_over;
use capstan_controller::secrets::Purpose;
use capstan_controller::{Cache, identity, owners};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::PartialObjectMeta;
use std::sync::Arc;

use super::{Bootstrap, decide};
use crate::enrolment::{self, Own};
use crate::names::Names;
use crate::this_plane::{PlanKey, ThisPlane};

/// The metadata of the bootstrap Secret. Its content is written and never read.
pub(crate) type Data = PartialObjectMeta<Secret>;

/// The objects around one CapstanConfig.
pub(crate) struct Seen {
    pub(crate) machine: Option<Arc<Machine>>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The management plane of this process.
    pub(crate) this_plane: ThisPlane,
    pub(crate) plan_key: Option<PlanKey>,
    /// The bootstrap Secret, or another object with its name.
    pub(crate) data: Option<Arc<Data>>,
    /// The objects of the machine, once it has an identity.
    pub(crate) own: Option<Own>,
}

impl Seen {
    /// Whether the machine has its own credential.
    pub(crate) fn is_enrolled(&self) -> bool {
        let report = self.own.as_ref().and_then(|own| own.report.as_ref());
        report.is_some_and(|report| enrolment::is_enrolled(report, &self.this_plane))
    }

    /// UID of the ServiceAccount of the machine's enrolment token.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        self.own.as_ref()?.enrolment.as_ref()?.pointer("/metadata/uid")?.as_str()
    }

    /// The inputs of the decision about the bootstrap data. `blocked` is the wait that blocks it, if any.
    pub(super) fn of_data<'a>(
        &'a self,
        config: &'a CapstanConfig,
        blocked: Option<&'a Wait>,
    ) -> decide::Observed<'a> {
        decide::Observed {
            config,
            machine: self.machine.as_deref(),
            cluster: self.cluster.as_deref(),
            this_plane: &self.this_plane,
            plan_key: self.plan_key.as_ref(),
            secret: self.data.as_deref(),
            is_enrolled: self.is_enrolled(),
            bound_to: self.bound_to(),
            blocked,
        }
    }

    /// The inputs of the decision about enrolment; `None` before the machine has an identity.
    pub(super) fn of_machine(&self) -> Option<enrolment::Observed<'_>> {
        let own = self.own.as_ref()?;
        let ready = self.machine.as_deref().and_then(|machine| get(machine, types::INFRASTRUCTURE_READY));
        let started: Option<Timestamp> = ready
            .filter(|ready| ready.status == ConditionStatus::True)
            .map(|ready| ready.last_transition_time.0);
        Some(enrolment::Observed {
            names: &own.names,
            this_plane: &self.this_plane,
            follows: self.data.as_ref().is_some_and(|data| data.labels().contains_key(hand_over::LABEL)),
            owner: &own.owner,
            interval: own.interval,
            found: &own.found,
            enrolment: own.enrolment.as_ref(),
            report: own.report.as_ref(),
            started,
            is_started_with: self.data.is_some(),
        })
    }
}

impl Bootstrap {
    pub(crate) async fn observe(&self, config: &CapstanConfig) -> Result<Seen> {
        let namespace = config.namespace().unwrap_or_default();
        let this_plane = ThisPlane::new(self.name.get().await?, &self.plane.server, &self.plane.ca);
        let machine: Option<Arc<Machine>> =
            match owners::of_kind(&config.metadata, "Machine", "cluster.x-k8s.io") {
                Some(owner) => self.caches.of::<Machine>().get(&namespace, &owner.name).await?,
                None => None,
            };
        let Some(found) = machine else {
            return Ok(Seen { machine, cluster: None, this_plane, plan_key: None, data: None, own: None });
        };
        let cluster = found.spec.cluster_name.clone();
        let names = identity::of(config).map(|id| Names {
            namespace: namespace.clone(),
            cluster: cluster.clone(),
            config: config.name_any(),
            machine: found.name_any(),
            machine_id: id.to_owned(),
        });
        let secrets = self.secrets(&namespace);
        let config_name = config.name_any();
        let clusters = self.caches.of::<Cluster>();
        let own = async {
            match names {
                Some(names) => self.own(config, names).await.map(Some),
                None => Ok(None),
            }
        };
        let (cluster, plan_key, data, own) = futures::try_join!(
            clusters.get(&namespace, &cluster),
            self.plan_key(&namespace, &cluster),
            secrets.peek(&namespace, &config_name),
            own,
        )?;
        Ok(Seen { machine: Some(found), cluster, this_plane, plan_key, data, own })
    }

    /// The cached metadata of Secrets of clusters in a namespace.
    pub(crate) fn secrets(&self, namespace: &str) -> Cache<Data> {
        self.caches.beside_clusters(namespace)
    }

    /// The key with which the machines of a cluster verify plans. Read again when its Secret has changed.
    async fn plan_key(&self, namespace: &str, cluster: &str) -> Result<Option<PlanKey>> {
        let name = Purpose::PlanKey.secret_name(cluster);
        let Some(seen) = self.secrets(namespace).peek(namespace, &name).await? else { return Ok(None) };
        if let Some(known) = self.plan_keys.get(seen.as_ref()) {
            return Ok(known);
        }
        let found = self.api::<Secret>(namespace).get_opt(&name).await;
        let found = found.doing(|| format!("cannot read Secret {namespace}/{name}"))?;
        Ok(found.and_then(|secret| self.plan_keys.read(&secret)))
    }
}
