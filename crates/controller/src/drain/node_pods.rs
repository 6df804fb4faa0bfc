//! The pods of a Node, and what a drain does with each.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use std::collections::{BTreeMap, HashMap};

use super::behavior::{Behavior, Circumstances, behavior, daemon_set};
use super::pages;
use super::refusals::Refusals;
use super::rules::DrainRules;
use super::{key_of, name_of};
use crate::error::{Doing as _, Error, Result};

/// Reads the pods of a Node.
pub(super) struct NodePods<'a> {
    pub(super) client: &'a Client,
    pub(super) node: &'a str,
    pub(super) rules: &'a DrainRules,
    pub(super) now: Timestamp,
}

impl NodePods<'_> {
    /// The pods, sorted by namespace and name.
    pub(super) async fn read(
        &self,
        is_unreachable: bool,
        refusals: Option<&Refusals>,
    ) -> Result<Vec<(Pod, Behavior)>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let mut pods =
            pages::all(&api, params).await.doing(|| format!("cannot list pods of Node {}", self.node))?;
        pods.sort_by_key(name_of);
        let mut daemon_sets = HashMap::new();
        let mut namespaces = HashMap::new();
        let mut read = Vec::with_capacity(pods.len());
        for pod in pods {
            let circumstances = Circumstances {
                is_unreachable,
                has_daemon_set: self.has_daemon_set(&pod, &mut daemon_sets).await?,
                refused_until: refusals
                    .and_then(|refusals| refusals.of(&key_of(&pod)))
                    .map(|refusal| refusal.until),
                treatment: self.rules.treatment(&pod, self.namespace_labels(&pod, &mut namespaces).await?),
                now: self.now,
            };
            let behavior = behavior(&pod, circumstances);
            read.push((pod, behavior));
        }
        Ok(read)
    }

    /// The labels of the namespace of a pod. Not read if no rule asks for them.
    async fn namespace_labels<'k>(
        &self,
        pod: &Pod,
        known: &'k mut HashMap<String, BTreeMap<String, String>>,
    ) -> Result<&'k BTreeMap<String, String>> {
        let name = pod.namespace().unwrap_or_default();
        if !known.contains_key(&name) {
            let labels = match self.rules.need_namespaces() {
                true => self.read_namespace_labels(&name).await?,
                false => BTreeMap::new(),
            };
            known.insert(name.clone(), labels);
        }
        Ok(&known[&name])
    }

    async fn read_namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let doing = || format!("cannot read Namespace {name}");
        let found = Api::<Namespace>::all(self.client.clone()).get_metadata_opt(name).await.doing(doing)?;
        // Without its labels it is unknown how the pod is treated. Its pods go soon.
        let found =
            found.ok_or_else(|| Error::transient(doing(), "a pod is in it, and it does not exist"))?;
        Ok(found.metadata.labels.unwrap_or_default())
    }

    /// Whether the DaemonSet of the pod exists. Pods of a deleted DaemonSet can be evicted.
    async fn has_daemon_set(&self, pod: &Pod, known: &mut HashMap<(String, String), bool>) -> Result<bool> {
        let Some(name) = daemon_set(pod) else { return Ok(false) };
        let key = (pod.namespace().unwrap_or_default(), name.to_owned());
        if let Some(known) = known.get(&key) {
            return Ok(*known);
        }
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &key.0);
        let found = api.get_opt(name).await.doing(|| format!("cannot read DaemonSet {}/{name}", key.0))?;
        known.insert(key, found.is_some());
        Ok(found.is_some())
    }
}
