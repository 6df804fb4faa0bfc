//! Volumes that are still attached to a Node after its drain. A machine that is deleted meanwhile may take a volume with it.
//!
//! A volume is attached if the Node says so, or a VolumeAttachment does. Volumes of pods that the drain leaves on the Node stay
//! attached and are not waited for.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use std::collections::BTreeSet;

use super::behavior::Behavior;
use super::node_pods::NodePods;
use super::rules::DrainRules;
use super::{is_unreachable, pages};
use crate::error::{Doing as _, Error, Result};
use crate::text::{listed, rfc3339};

/// Names in one line of the message.
const NAMES: usize = 5;

/// The message about volumes that are attached to a Node and are waited for since this time. Nothing if there are none, or if
/// the Node cannot detach any.
///
/// # Errors
/// If the workload cluster does not respond, or an attachment does not say of which volume it is.
pub async fn attached_volumes(
    client: Client,
    name: &str,
    rules: &DrainRules,
    since: Timestamp,
    now: Timestamp,
) -> Result<Option<String>> {
    let doing = |what: &str| format!("cannot {what} of Node {name}");
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_opt(name).await.doing(|| format!("cannot read Node {name}"))?;
    // A user may have deleted it. One whose kubelet has stopped detaches nothing, and would be waited for without end.
    let Some(node) = node.filter(|node| !is_unreachable(node)) else { return Ok(None) };
    let attachments = pages::all(&Api::<VolumeAttachment>::all(client.clone()), ListParams::default()).await;
    let attachments = attachments.doing(|| doing("list VolumeAttachments"))?;
    let attached = Attached::of(&node, &attachments)?;
    if attached.is_empty() {
        return Ok(None);
    }
    let pods = NodePods { client: &client, node: name, rules, now }.read(false, None).await?;
    let stay = pods.iter().filter(|(_, behavior)| *behavior == Behavior::Skip).map(|(pod, _)| pod);
    let volumes = pages::all(&Api::<PersistentVolume>::all(client), ListParams::default()).await;
    let volumes = volumes.doing(|| doing("list PersistentVolumes"))?;
    Ok(attached.waited_for(&volumes, &claims_of(stay)).message(since))
}

/// The volumes that are attached to a Node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Attached {
    /// By the name that the kubelet has for them.
    by_node: BTreeSet<String>,
    /// By the name of their PersistentVolume.
    by_attachment: BTreeSet<String>,
}

impl Attached {
    fn of(node: &Node, attachments: &[VolumeAttachment]) -> Result<Self> {
        let of_node = node.status.iter().filter_map(|status| status.volumes_attached.as_ref()).flatten();
        let by_node = of_node.map(|volume| volume.name.clone()).collect();
        let is_here = |attachment: &&VolumeAttachment| {
            attachment.spec.node_name == node.name_any()
                && attachment.status.as_ref().is_some_and(|status| status.attached)
        };
        let by_attachment = attachments.iter().filter(is_here).map(|attachment| {
            attachment.spec.source.persistent_volume_name.clone().ok_or_else(|| {
                let field =
                    format!("VolumeAttachment {} spec.source.persistentVolumeName", attachment.name_any());
                Error::user(field, "is not set, so it is unknown which volume is attached")
            })
        });
        Ok(Self { by_node, by_attachment: by_attachment.collect::<Result<_>>()? })
    }

    fn is_empty(&self) -> bool {
        self.by_node.is_empty() && self.by_attachment.is_empty()
    }

    /// What is waited for, apart from volumes with these claims.
    fn waited_for(&self, volumes: &[PersistentVolume], but: &BTreeSet<String>) -> WaitedFor {
        let mut waited_for = WaitedFor::default();
        let (mut of_node, mut of_attachment) = (self.by_node.clone(), self.by_attachment.clone());
        for volume in volumes {
            let name = volume.name_any();
            let by_node = node_name(volume).filter(|name| self.by_node.contains(name));
            let is_attached = by_node.is_some() || self.by_attachment.contains(&name);
            if !is_attached {
                continue;
            }
            if let Some(by_node) = by_node {
                of_node.remove(&by_node);
            }
            of_attachment.remove(&name);
            match claim(volume) {
                Some(claim) if but.contains(&claim) => {}
                Some(claim) => _ = waited_for.claims.insert(claim),
                None => _ = waited_for.without_claim.insert(name),
            }
        }
        waited_for.unknown_to_node = of_node;
        waited_for.unknown_to_attachments = of_attachment;
        waited_for
    }
}

/// Volumes that must be detached.
#[derive(Debug, Default, PartialEq, Eq)]
struct WaitedFor {
    /// By their PersistentVolumeClaim, as `namespace/name`.
    claims: BTreeSet<String>,
    /// PersistentVolumes without a claim.
    without_claim: BTreeSet<String>,
    /// What the Node names and no PersistentVolume is.
    unknown_to_node: BTreeSet<String>,
    /// What VolumeAttachments name and no PersistentVolume is.
    unknown_to_attachments: BTreeSet<String>,
}

impl WaitedFor {
    /// The message of upstream.
    fn message(&self, since: Timestamp) -> Option<String> {
        let lists = [
            ("PersistentVolumeClaims", &self.claims),
            ("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", &self.without_claim),
            (
                "Node with .status.volumesAttached entries not matching a PersistentVolume",
                &self.unknown_to_node,
            ),
            (
                "VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume",
                &self.unknown_to_attachments,
            ),
        ];
        let lines: Vec<String> = lists
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| {
                let names: Vec<String> = names.iter().cloned().collect();
                format!("\n* {what}: {}", listed(&names, NAMES))
            })
            .collect();
        (!lines.is_empty()).then(|| waiting_since(since) + &lines.concat())
    }
}

fn waiting_since(since: Timestamp) -> String {
    format!("Waiting for Node volumes to be detached (started at {})", rfc3339(since))
}

/// The name that a kubelet has for a volume, if it is one of a CSI driver.
fn node_name(volume: &PersistentVolume) -> Option<String> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle))
}

fn claim(volume: &PersistentVolume) -> Option<String> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    (claim.kind.as_deref() == Some("PersistentVolumeClaim")).then(|| {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(&claim.namespace), part(&claim.name))
    })
}

/// The claims of pods, as `namespace/name`.
fn claims_of<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeSet<String> {
    let claims = pods.flat_map(|pod| {
        let volumes = pod.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.map(|claim| format!("{}/{}", pod.namespace().unwrap_or_default(), claim.claim_name))
    });
    claims.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use serde_json::{Value, json};
    use std::convert::Infallible;

    fn node(volumes: &[&str]) -> Node {
        let attached: Vec<Value> =
            volumes.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"volumesAttached": attached}}))
            .expect("a Node")
    }

    fn attachment(node: &str, volume: Option<&str>, attached: bool) -> VolumeAttachment {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume}},
            "status": {"attached": attached},
        }))
        .expect("a VolumeAttachment")
    }

    fn volume(name: &str, handle: Option<&str>, claim: Option<(&str, &str)>) -> PersistentVolume {
        let csi = handle.map(|handle| json!({"driver": "d", "volumeHandle": handle}));
        let claim = claim.map(|(kind, name)| json!({"kind": kind, "namespace": "default", "name": name}));
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"csi": csi, "claimRef": claim}}))
            .expect("a PersistentVolume")
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn attached_is_what_the_node_or_an_attachment_says() {
        let attachments = [
            attachment("n", Some("pv-1"), true),
            attachment("n", Some("pv-2"), false),
            attachment("m", Some("pv-3"), true),
        ];
        let attached = Attached::of(&node(&["kubernetes.io/csi/d^h"]), &attachments).expect("known");
        let expected =
            Attached { by_node: names(&["kubernetes.io/csi/d^h"]), by_attachment: names(&["pv-1"]) };
        assert_eq!(attached, expected);
        assert!(
            !attached.is_empty() && Attached::of(&node(&[]), &attachments[1..]).expect("known").is_empty()
        );
        let unknown = Attached::of(&node(&[]), &[attachment("n", None, true)]).expect_err("unknown");
        assert!(
            unknown.to_string().contains("VolumeAttachment a spec.source.persistentVolumeName"),
            "{unknown}"
        );
        Attached::of(&node(&[]), &[attachment("m", None, true)]).expect("of another Node");
    }

    #[test]
    fn what_is_attached_is_waited_for_unless_a_pod_that_stays_has_it() {
        let attached = Attached {
            by_node: names(&["kubernetes.io/csi/d^h1", "kubernetes.io/csi/d^gone"]),
            by_attachment: names(&["pv-1", "pv-2", "pv-3", "pv-4", "pv-gone"]),
        };
        let claim = |name| Some(("PersistentVolumeClaim", name));
        let volumes = [
            volume("pv-1", Some("h1"), claim("data")),
            volume("pv-2", None, claim("stays")),
            volume("pv-3", None, None),
            volume("pv-4", None, Some(("Other", "x"))),
            volume("pv-5", Some("h5"), claim("elsewhere")),
        ];
        let waited_for = attached.waited_for(&volumes, &names(&["default/stays"]));
        let expected = WaitedFor {
            claims: names(&["default/data"]),
            without_claim: names(&["pv-3", "pv-4"]),
            unknown_to_node: names(&["kubernetes.io/csi/d^gone"]),
            unknown_to_attachments: names(&["pv-gone"]),
        };
        assert_eq!(waited_for, expected);
        assert_eq!(
            waited_for.message(Timestamp::UNIX_EPOCH).expect("a message"),
            "Waiting for Node volumes to be detached (started at 1970-01-01T00:00:00Z)\n\
             * PersistentVolumeClaims: default/data\n\
             * PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: pv-3, pv-4\n\
             * Node with .status.volumesAttached entries not matching a PersistentVolume: kubernetes.io/csi/d^gone\n\
             * VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume: pv-gone"
        );
        let only_staying = Attached { by_attachment: names(&["pv-2"]), ..Attached::default() };
        let nothing = only_staying.waited_for(&volumes, &names(&["default/stays"]));
        assert_eq!(nothing.message(Timestamp::UNIX_EPOCH), None);
    }

    #[tokio::test]
    async fn attachments_that_cannot_be_listed_are_not_none() {
        let server = tower::service_fn(|request: Request<kube::client::Body>| async move {
            let (code, text): (u16, String) = match request.uri().path() {
                "/api/v1/nodes/n" => (200, json!({"metadata": {"name": "n"}}).to_string()),
                _ => (404, "404 page not found".to_owned()),
            };
            let response = Response::builder().status(code).body(Full::new(Bytes::from(text)));
            Ok::<_, Infallible>(response.expect("a response"))
        });
        let (client, rules) = (Client::new(server, "default"), DrainRules::default());
        let (since, now) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let failed = attached_volumes(client, "n", &rules, since, now).await.expect_err("unknown");
        assert!(failed.to_string().starts_with("cannot list VolumeAttachments of Node n"), "{failed}");
    }

    #[test]
    fn a_pod_has_the_claims_of_its_volumes() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "a"},
            "spec": {"containers": [], "volumes": [
                {"name": "x", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "y", "emptyDir": {}}]},
        }))
        .expect("a pod");
        assert_eq!(claims_of([&pod].into_iter()), names(&["a/c"]));
    }
}
