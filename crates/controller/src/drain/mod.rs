//! Drains a Node before its machine is deleted or changed: cordons it, and evicts its pods as far as their disruption budgets
//! allow, in the order that MachineDrainRules say. Tells which volumes are still attached to a Node.

mod behavior;
mod left;
mod node_pods;
mod pages;
mod refusals;
mod rules;
#[cfg(test)]
mod tests;
mod turns;
mod volumes;

use capstan_api::core::{Cluster, Machine, MachineDrainRule};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cache::Caches;
use crate::error::{Doing as _, Result, chain};
use crate::run::Next;
use behavior::Behavior;
use left::Left;
use node_pods::NodePods;
use refusals::Refusal;
use turns::{Turn, turns};

pub use refusals::Refusals;
pub use rules::DrainRules;
pub use volumes::attached_volumes;

/// The rest is for the next reconcile.
const EVICTIONS_AT_ONCE: Duration = Duration::from_secs(10);

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
    /// The MachineDrainRules that apply to the Machine.
    pub rules: &'a DrainRules,
    /// When the drain began.
    pub since: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// The MachineDrainRules that apply to a Machine, from the cache.
///
/// # Errors
/// If they have not been read yet, or a selector of any rule in the namespace is invalid.
pub async fn rules(caches: &Caches, machine: &Machine, cluster: &Cluster) -> Result<DrainRules> {
    let namespace = machine.namespace().unwrap_or_default();
    let rules = caches.of::<MachineDrainRule>().in_namespace(&namespace).await?;
    DrainRules::of_machine(rules.iter().map(Arc::as_ref), machine.labels(), cluster.labels())
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
    let left = drainer.go_on(name, drain.rules).await?;
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
    async fn go_on(&self, node: &str, rules: &DrainRules) -> Result<Left> {
        let pods = NodePods { client: &self.client, node, rules, now: self.now };
        let pods = pods.read(self.is_unreachable, Some(self.refusals)).await?;
        let behaviors: Vec<Behavior> = pods.iter().map(|(_, behavior)| *behavior).collect();
        let mut left = Left::default();
        let began = Instant::now();
        for ((pod, _), turn) in pods.iter().zip(turns(&behaviors)) {
            match turn {
                Turn::Skip => {}
                Turn::Completes => left.completing.push(name_of(pod)),
                Turn::CompletesLater => left.completing_later.push(name_of(pod)),
                Turn::Leaving => left.leaving.push(name_of(pod)),
                Turn::EvictLater => left.later.push(name_of(pod)),
                Turn::Refused => {
                    if let Some(Refusal { why, until, .. }) = self.refusals.of(&key_of(pod)) {
                        left.refused(name_of(pod), why, until);
                    }
                }
                Turn::Evict if began.elapsed() > EVICTIONS_AT_ONCE => {
                    let why = "eviction timeout of 10s reached, eviction will be retried".to_owned();
                    left.failed.entry(why).or_default().push(name_of(pod));
                }
                Turn::Evict => self.evict(pod, &mut left).await,
            }
        }
        Ok(left)
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
