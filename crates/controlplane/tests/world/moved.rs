//! A move to another plane, as clusterctl makes it: every object anew, with another UID, its owners by their new UIDs,
//! and without status.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::World;

/// In an order in which owners come first.
const KINDS: [(&str, &str, &str, &str); 8] = [
    ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
    ("infrastructure.cluster.x-k8s.io", "v1alpha1", "HostMachineTemplate", "hostmachinetemplates"),
    ("controlplane.cluster.x-k8s.io", "v1alpha1", "CapstanControlPlane", "capstancontrolplanes"),
    ("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
    ("bootstrap.cluster.x-k8s.io", "v1alpha1", "CapstanConfig", "capstanconfigs"),
    ("infrastructure.cluster.x-k8s.io", "v1alpha1", "HostMachine", "hostmachines"),
    ("agent.capstan.dev", "v1alpha1", "MachineReport", "machinereports"),
    ("", "v1", "Secret", "secrets"),
];

impl World {
    /// Goes on at another plane. Nobody has said anything there yet, neither core nor an agent.
    pub(crate) async fn move_to(&mut self, plane: Client) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(plane.clone());
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        let mut uids = BTreeMap::new();
        for (group, version, kind, plural) in KINDS {
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let of = |client: &Client| -> Api<DynamicObject> {
                Api::namespaced_with(client.clone(), &self.namespace, &resource)
            };
            for mut object in of(&self.client).list(&ListParams::default()).await? {
                let old = object.uid().context("no UID")?;
                let name = object.name_any();
                object.metadata.uid = None;
                object.metadata.resource_version = None;
                object.metadata.managed_fields = None;
                if let Some(fields) = object.data.as_object_mut() {
                    fields.remove("status");
                }
                for owner in object.owner_references_mut() {
                    let new: Option<&String> = uids.get(&owner.uid);
                    owner.uid = new.with_context(|| format!("{kind} {name} before its owner"))?.clone();
                }
                let made = of(&plane).create(&PostParams::default(), &object).await?;
                uids.insert(old, made.uid().context("no UID")?);
            }
        }
        self.client = plane;
        Ok(())
    }

    /// What a machine says.
    pub(crate) async fn report_status(&self, name: &str, status: &serde_json::Value) -> Result<()> {
        self.patch_status::<MachineReport>(name, status).await
    }

    /// What somebody writes into the status of a CapstanConfig.
    pub(crate) async fn config_status(&self, name: &str, status: &serde_json::Value) -> Result<()> {
        self.patch_status::<CapstanConfig>(name, status).await
    }

    /// The agents have followed, and say what they have carried out; core has found the Nodes.
    pub(crate) async fn agents_follow(&mut self) -> Result<()> {
        for machine in self.machines().await? {
            let name = machine.name_any();
            let plan = self.plan(&name).await?.with_context(|| format!("{name} has no plan"))?;
            let plan_ref =
                json!({"digest": plan.id().digest().to_string(), "revision": plan.id().revision().get()});
            self.applied(&name, &plan_ref).await?;
            self.becomes_node(&name, &plan).await?;
        }
        Ok(())
    }
}
