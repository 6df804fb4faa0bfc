//! Writes the objects of a Cluster in the order of an upgrade: infrastructure, control plane, the Cluster itself, workers. Each is
//! applied by the field manager of topologies, and only if that changes it.

mod base;
mod control_plane;
mod deployments;
mod pools;
mod template;

use capstan_api::core::Cluster;
use capstan_controller::apply::Applier;
use capstan_controller::error::Doing as _;
use capstan_controller::events::Tone;
use capstan_controller::merge::difference;
use capstan_controller::{Error, Result, destroy};
use capstan_topology::desired::Computed;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::names::events;
use super::observe::Objects;
use crate::Core;
use template::Created;

/// Writes the objects of one Cluster.
pub(super) struct Writer<'a> {
    core: &'a Core,
    applier: &'a Applier,
    cluster: &'a Cluster,
    namespace: String,
    objects: &'a Objects,
    /// What was computed, with the names of new templates.
    pub(super) computed: Computed,
    /// Names of objects that were tried to be created.
    pub(super) tried: Vec<String>,
    /// What was done, by the reason of the event about it.
    done: BTreeMap<&'static str, Vec<String>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        core: &'a Core,
        applier: &'a Applier,
        cluster: &'a Cluster,
        objects: &'a Objects,
        computed: Computed,
    ) -> Self {
        let namespace = cluster.namespace().unwrap_or_default();
        Self {
            core,
            applier,
            cluster,
            namespace,
            objects,
            computed,
            tried: Vec::new(),
            done: BTreeMap::new(),
        }
    }

    /// Writes everything that differs, and publishes events about it. `latest` becomes the Cluster as it was written.
    pub(super) async fn write(&mut self, latest: &mut Cluster) -> Result<()> {
        let written = Box::pin(self.write_all(latest)).await;
        // There is one event for each reason: all that one look has done is in it.
        for (reason, done) in &self.done {
            self.core.publish_event(self.cluster, Tone::Normal, reason, &done.join("; ")).await;
        }
        written
    }

    async fn write_all(&mut self, latest: &mut Cluster) -> Result<()> {
        let has_created = self.infrastructure_cluster().await?;
        let control_plane = self.control_plane().await;
        let mut has_control_plane = true;
        if let Err(error) = control_plane {
            // An infrastructure cluster without a Cluster that refers to it would stay alone.
            if !has_created {
                return Err(error);
            }
            has_control_plane = self.cluster.spec.control_plane_ref.is_some();
            self.write_cluster(latest, has_control_plane).await?;
            return Err(error);
        }
        self.write_cluster(latest, has_control_plane).await?;
        self.machine_deployments().await?;
        self.machine_pools().await
    }

    async fn infrastructure_cluster(&mut self) -> Result<bool> {
        let desired = self.computed.desired.infrastructure_cluster.clone();
        self.object(self.objects.infrastructure_cluster.as_ref(), &desired, None).await
    }

    /// Labels, annotations and the two references of the Cluster.
    async fn write_cluster(&mut self, latest: &mut Cluster, has_control_plane: bool) -> Result<()> {
        let desired = &self.computed.desired.cluster;
        let cluster = self.cluster;
        let before = json!({
            "metadata": {"labels": cluster.metadata.labels.clone().unwrap_or_default(),
                "annotations": cluster.metadata.annotations.clone().unwrap_or_default()},
            "spec": {"infrastructureRef": cluster.spec.infrastructure_ref,
                "controlPlaneRef": cluster.spec.control_plane_ref},
        });
        let control_plane = match has_control_plane {
            true => desired.control_plane_ref.clone(),
            false => before["spec"]["controlPlaneRef"].clone(),
        };
        let after = json!({
            "metadata": {"labels": desired.labels, "annotations": desired.annotations},
            "spec": {"infrastructureRef": desired.infrastructure_ref, "controlPlaneRef": control_plane},
        });
        let Some(patch) = difference(&before, &after) else { return Ok(()) };
        let (api, name) = (self.core.api::<Cluster>(&self.namespace), cluster.name_any());
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        *latest = written.doing(|| format!("cannot write Cluster {}/{name}", self.namespace))?;
        self.note(events::UPDATED, format!("Updated Cluster {}", self.quoted(&name)));
        Ok(())
    }

    /// Whether the topology of the Cluster is still the one that the objects were computed from. What is in memory may be a moment
    /// old: workers that were added to the topology in that moment would be deleted with their machines.
    async fn ensure_topology_is_current(&self) -> Result<()> {
        let (api, name) = (self.core.api::<Cluster>(&self.namespace), self.cluster.name_any());
        let doing = || format!("cannot delete workers of Cluster {}/{name}", self.namespace);
        let found = api.get_metadata(&name).await.doing(doing)?.metadata;
        let is_current =
            found.uid == self.cluster.metadata.uid && found.generation == self.cluster.metadata.generation;
        if is_current { Ok(()) } else { Err(Error::Conflict { doing: doing() }) }
    }

    /// Notes what was done, for an event of the Cluster.
    fn note(&mut self, reason: &'static str, message: String) {
        self.done.entry(reason).or_default().push(message);
    }

    /// Namespace and name in quotation marks, as upstream's events have them.
    fn quoted(&self, name: &str) -> String {
        format!("\"{}/{name}\"", self.namespace)
    }

    /// Deletes templates that were created for an object that was then rejected. The next attempt creates others.
    async fn discard(&self, created: Vec<Created>, error: &Error) {
        // Without a response the object may have been written, and needs its templates.
        if !error.is_rejection() {
            return;
        }
        for Created { api, metadata } in created {
            let grounds =
                capstan_controller::Grounds::asked("the object that it was created for was rejected");
            if let Err(error) = destroy::delete(&api, &metadata, &grounds).await {
                let error = capstan_controller::error::chain(&error);
                tracing::warn!(
                    name = metadata.name,
                    error,
                    "cannot delete a template; it goes with the Cluster"
                );
            }
        }
    }

    /// The API of the kind of an object.
    async fn api_of(&self, object: &Value) -> Result<Api<DynamicObject>> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        self.core.externals.api_version(text("apiVersion"), text("kind"), &self.namespace).await
    }
}

/// What differs between an object before and after it was applied: its labels, annotations, owners or spec.
fn differs(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    let own = |meta: &ObjectMeta| {
        (
            meta.generation,
            meta.labels.clone().unwrap_or_default(),
            meta.annotations.clone().unwrap_or_default(),
            meta.owner_references.clone().unwrap_or_default(),
        )
    };
    own(before) != own(after)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `kind`, and the name of an object.
fn named(object: &Value) -> (&str, &str) {
    (text(object, "/kind"), text(object, "/metadata/name"))
}
