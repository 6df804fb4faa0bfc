//! Drains a Node before its machine is deleted or changed: cordons it, and evicts its pods as far as their disruption budgets
//! allow.
//!
//! MachineDrainRules and waiting for volumes to be detached are not here yet.

mod behavior;
mod left;
mod refusals;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::{Doing as _, Result, chain};
use crate::run::Next;
use behavior::{Behavior, Circumstances, behavior, daemon_set};
use left::Left;
use refusals::Refusal;

pub use refusals::Refusals;

/// The rest is for the next reconcile.
const EVICTIONS_AT_ONCE: Duration = Duration::from_secs(10);
const PAGE: u32 = 100;

/// The state of a drain.
#[derive(Debug)]
pub enum Outcome {
    /// All pods that must be evicted are gone.
    Drained,
    /// Some pods are still there.
    Waiting {
        /// The pods, and why they are left.
        message: String,
        /// When to reconcile again.
        next: Next,
    },
}

/// The Node to drain, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Drain<'a> {
    /// Name of the Node.
    pub node: &'a str,
    /// An annotation that says who cordoned the Node, for the later uncordon. It is set together with the cordon, and
    /// only if the Node was not cordoned before.
    pub mark: Option<(&'a str, &'a str)>,
    /// When the drain began.
    pub since: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// Continues a drain. `refusals` are the evictions that were rejected before.
///
/// # Errors
/// If the workload cluster does not respond, or rejects a request.
pub async fn drain(client: Client, drain: Drain<'_>, refusals: &Refusals) -> Result<Outcome> {
    let Drain { node: name, since, now, .. } = drain;
    let doing = |what: &str| format!("cannot {what} Node {name}");
    let nodes: Api<Node> = Api::all(client.clone());
    // A user may have deleted the Node.
    let Some(node) = nodes.get_opt(name).await.doing(|| doing("read"))? else { return Ok(Outcome::Drained) };
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
        let mut cordon = json!({"spec": {"unschedulable": true}});
        if let Some((key, value)) = drain.mark {
            cordon["metadata"] = json!({"annotations": {key: value}});
        }
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&cordon)).await.doing(|| doing("cordon"))?;
    }
    let drainer = Drainer { client, is_unreachable: is_unreachable(&node), refusals, now };
    let left = drainer.go_on(name).await?;
    Ok(match left.is_empty() {
        true => Outcome::Drained,
        false => Outcome::Waiting { message: left.message(since), next: Next::After(left.next(now)) },
    })
}

/// Uncordons the Node if it has this mark.
///
/// # Errors
/// If the workload cluster does not respond, or rejects the request.
pub async fn uncordon(client: Client, node: &str, mark: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client);
    let uncordon = json!({"metadata": {"annotations": {mark: null}}, "spec": {"unschedulable": null}});
    match nodes.patch(node, &PatchParams::default(), &Patch::Merge(&uncordon)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        patched => patched.map(|_| ()).doing(|| format!("cannot uncordon Node {node}")),
    }
}

/// Whether the kubelet has stopped to report.
fn is_unreachable(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

struct Drainer<'a> {
    client: Client,
    is_unreachable: bool,
    refusals: &'a Refusals,
    now: Timestamp,
}

impl Drainer<'_> {
    async fn go_on(&self, node: &str) -> Result<Left> {
        let mut pods = self.pods(node).await?;
        pods.sort_by_key(name_of);
        let mut left = Left::default();
        let mut daemon_sets = HashMap::new();
        let began = Instant::now();
        for pod in &pods {
            let has_daemon_set = self.has_daemon_set(pod, &mut daemon_sets).await?;
            let refusal = self.refusals.of(&key_of(pod));
            let circumstances = Circumstances {
                is_unreachable: self.is_unreachable,
                has_daemon_set,
                refused_until: refusal.as_ref().map(|refusal| refusal.until),
                now: self.now,
            };
            match behavior(pod, circumstances) {
                Behavior::Skip => {}
                Behavior::WaitCompleted => left.completing.push(name_of(pod)),
                Behavior::Leaving => left.leaving.push(name_of(pod)),
                Behavior::Refused => {
                    if let Some(Refusal { why, until, .. }) = refusal {
                        left.refused(name_of(pod), why, until);
                    }
                }
                Behavior::Drain if began.elapsed() > EVICTIONS_AT_ONCE => {
                    let why = "eviction timeout of 10s reached, eviction will be retried".to_owned();
                    left.failed.entry(why).or_default().push(name_of(pod));
                }
                Behavior::Drain => self.evict(pod, &mut left).await,
            }
        }
        Ok(left)
    }

    async fn pods(&self, node: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut params = ListParams::default().fields(&format!("spec.nodeName={node}")).limit(PAGE);
        let mut pods = Vec::new();
        loop {
            let page = api.list(&params).await.doing(|| format!("cannot list pods of Node {node}"))?;
            pods.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(pods),
            }
        }
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

    async fn evict(&self, pod: &Pod, left: &mut Left) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        // No kubelet ends the pod in time: the pod object is deleted with a short grace period instead.
        let grace_period_seconds = self.is_unreachable.then_some(1);
        let delete_options = Some(DeleteParams { grace_period_seconds, ..DeleteParams::default() });
        let params = EvictParams { delete_options, ..EvictParams::default() };
        let why = match api.evict(&pod.name_any(), &params).await {
            Ok(_) => {
                self.refusals.forget(&key_of(pod));
                return left.leaving.push(name_of(pod));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(kube::Error::Api(status)) if status.code == 429 => {
                let why = with_causes(&status);
                let until = self.refusals.refused(&key_of(pod), &why, self.now);
                return left.refused(name_of(pod), why, until);
            }
            Err(kube::Error::Api(status)) if is_terminating(&status) => {
                "Cannot evict pod from terminating namespace: unable to create eviction (kube-controller-manager \
                 should set deletionTimestamp)"
                    .to_owned()
            }
            Err(error) => chain(&error),
        };
        left.failed.entry(why).or_default().push(name_of(pod));
    }
}

fn name_of(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// The UID distinguishes a pod from a later one with the same name.
fn key_of(pod: &Pod) -> String {
    pod.uid().unwrap_or_else(|| name_of(pod))
}

/// Names the disruption budget that prevents the eviction.
fn with_causes(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
    format!("{} {}", status.message, causes.join(",")).trim_end().to_owned()
}

fn is_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
}
