//! Reads everything that is to be decided on. Writes nothing.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{ConditionStatus, get, types};
use capstan_api::core::{Cluster, Machine};
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::plane::hand_over;
use capstan_controller::secrets::Purpose;
use capstan_controller::{Cache, identity, owners};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

use crate::enrolment::objects::{self, Kind, REPORT, SECRET};
use crate::enrolment::{self, check, csr_name};
use crate::here::{Here, PlanKey};
use crate::names::{Names, REQUEST_LABEL};
use crate::reconcile::Bootstrap;

/// The Secret with the bootstrap data, without what is in it: that is written, never read.
pub(crate) type Data = PartialObjectMeta<Secret>;

/// What there is for one CapstanConfig.
pub(crate) struct Seen {
    pub(crate) machine: Option<Arc<Machine>>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The plane all this is on.
    pub(crate) here: Here,
    pub(crate) plan_key: Option<PlanKey>,
    /// The Secret with the bootstrap data, or what has its name.
    pub(crate) data: Option<Arc<Data>>,
    /// What there is for the machine, once it has an identity.
    pub(crate) own: Option<Own>,
}

/// The objects of one machine.
pub(crate) struct Own {
    pub(crate) names: Names,
    owner: Value,
    found: Vec<Option<Value>>,
    /// Whether the machine's rights were not read, but taken to be what they were a moment ago.
    pub(crate) is_settled: bool,
    enrolment: Option<Value>,
    pub(crate) report: Option<MachineReport>,
    csr: Option<Arc<CertificateSigningRequest>>,
}

impl Seen {
    /// Whether the machine has a credential of its own.
    pub(crate) fn is_enrolled(&self) -> bool {
        let report = self.own.as_ref().and_then(|own| own.report.as_ref());
        report.is_some_and(|report| enrolment::is_enrolled(report, &self.here))
    }

    /// UID of the Secret that the machine's token hangs on.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        self.own.as_ref()?.enrolment.as_ref()?.pointer("/metadata/uid")?.as_str()
    }

    /// What enrolment is decided on.
    pub(crate) fn of_machine(&self) -> Option<enrolment::Observed<'_>> {
        let own = self.own.as_ref()?;
        let ready = self.machine.as_deref().and_then(|machine| get(machine, types::INFRASTRUCTURE_READY));
        let started: Option<Timestamp> = ready
            .filter(|ready| ready.status == ConditionStatus::True)
            .map(|ready| ready.last_transition_time.0);
        Some(enrolment::Observed {
            names: &own.names,
            here: &self.here,
            follows: self.data.as_ref().is_some_and(|data| data.labels().contains_key(hand_over::LABEL)),
            owner: &own.owner,
            found: &own.found,
            enrolment: own.enrolment.as_ref(),
            report: own.report.as_ref(),
            csr: own.csr.as_deref(),
            started,
            is_started_with: self.data.is_some(),
        })
    }
}

impl Bootstrap {
    pub(crate) async fn observe(&self, config: &CapstanConfig) -> Result<Seen> {
        let namespace = config.namespace().unwrap_or_default();
        let here = Here::new(self.name.get().await?, &self.plane.server, &self.plane.ca);
        let machine: Option<Arc<Machine>> =
            match owners::of_kind(&config.metadata, "Machine", "cluster.x-k8s.io") {
                Some(owner) => self.caches.of::<Machine>().get(&namespace, &owner.name).await?,
                None => None,
            };
        let Some(found) = machine else {
            return Ok(Seen { machine, cluster: None, here, plan_key: None, data: None, own: None });
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
        Ok(Seen { machine: Some(found), cluster, here, plan_key, data, own })
    }

    /// Requests for certificates that were made here.
    fn requests(&self) -> Cache<CertificateSigningRequest> {
        self.caches.of_labelled(REQUEST_LABEL)
    }

    /// What is known of the Secrets of clusters in a namespace.
    pub(crate) fn secrets(&self, namespace: &str) -> Cache<Data> {
        self.caches.beside_clusters(namespace)
    }

    /// What the machines of a cluster know their manager by. Read again when its Secret has changed.
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

    async fn own(&self, config: &CapstanConfig, names: Names) -> Result<Own> {
        let owner = owners::controller(config).ok_or_else(|| Error::Conflict {
            doing: "cannot make objects for a CapstanConfig that is not stored".to_owned(),
        })?;
        let owner = serde_json::to_value(owner)
            .map_err(|error| Error::transient("cannot write a reference to an owner", error))?;
        let wanted = objects::wanted(&names, &owner);
        let is_settled = self.settled.holds(&config.uid().unwrap_or_default(), Instant::now());
        let found =
            try_join_all(wanted.iter().map(async |object| match is_settled && object.kind != REPORT {
                true => Ok(Some(object.object.clone())),
                false if object.kind == REPORT => self.report(&names, &object.name).await,
                false => self.find(&names, object.kind, &object.name).await,
            }));
        let (found, enrolment) = futures::try_join!(found, self.enrolment(&names))?;
        let report = wanted
            .iter()
            .zip(&found)
            .find(|(wanted, _)| wanted.kind == REPORT)
            .and_then(|(_, found)| found.clone())
            .map(serde_json::from_value::<MachineReport>)
            .transpose()
            .map_err(|error| Error::transient("cannot read a MachineReport", error))?
            // One of a former life says nothing about this machine.
            .filter(|report| report.spec.machine_id == names.machine_id);
        let asked = report
            .as_ref()
            .and_then(|report| report.status.as_ref()?.certificate_request.as_deref())
            .and_then(|text| check(text, &names.user()).ok());
        let csr = match asked {
            Some(request) => {
                let name = csr_name(&names, &request);
                self.requests().peek_named(&name).await?
            }
            None => None,
        };
        Ok(Own { names, owner, found, is_settled, enrolment, report, csr })
    }

    /// Any object of the machine's namespace, as it is on the wire.
    pub(crate) fn untyped(&self, namespace: &str, kind: Kind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        Api::namespaced_with(self.client().clone(), namespace, &resource)
    }

    async fn find(&self, names: &Names, kind: Kind, name: &str) -> Result<Option<Value>> {
        let doing = || format!("cannot read {} {}/{name}", kind.kind, names.namespace);
        let found = self.untyped(&names.namespace, kind).get_opt(name).await.doing(doing)?;
        found.map(serde_json::to_value).transpose().map_err(|error| Error::transient(doing(), error))
    }

    async fn report(&self, names: &Names, name: &str) -> Result<Option<Value>> {
        let found = self.caches.of::<MachineReport>().get(&names.namespace, name).await?;
        found.map(|report| value(report.as_ref())).transpose()
    }

    /// The Secret that the token hangs on: nothing is in it.
    async fn enrolment(&self, names: &Names) -> Result<Option<Value>> {
        let found = self.secrets(&names.namespace).peek(&names.namespace, &names.enrolment()).await?;
        let Some(found) = found else { return Ok(None) };
        let (version, kind) = (SECRET.version, SECRET.kind);
        Ok(Some(json!({"apiVersion": version, "kind": kind, "metadata": value(&found.metadata)?})))
    }
}

fn value(object: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| Error::transient("cannot write an object down", error))
}
