//! Failure domains follow what happens to hosts.

use anyhow::ensure;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Cluster;
use capstan_api::infrastructure::{CLAIMABLE_HOSTS, Host, HostCluster, HostMachine, HostMachineTemplate};
use capstan_controller::owners;
use capstan_testkit::eventually;
use kube::api::DeleteParams;
use serde_json::json;
use std::time::Duration;

use super::yard::Yard;

/// Sooner than any timer of the controller: what wakes it must be a watch.
const SOON: Duration = Duration::from_secs(8);

/// Waits until the domains are these: name, whether for the control plane, claimable hosts.
async fn are(yard: &Yard, expected: &[(&str, bool, &str)]) {
    eventually(SOON, &format!("failure domains {expected:?}"), async || {
        let status = yard.api::<HostCluster>().get("c").await?.status.unwrap_or_default();
        let found: Vec<(String, bool, String)> = status
            .failure_domains
            .into_iter()
            .map(|mut domain| {
                let count = domain.attributes.remove(CLAIMABLE_HOSTS).unwrap_or_default();
                (domain.name, domain.control_plane == Some(true), count)
            })
            .collect();
        let found: Vec<_> =
            found.iter().map(|(name, so, count)| (name.as_str(), *so, count.as_str())).collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn control_plane(yard: &Yard, labels: serde_json::Value) {
    let template = json!({"template": {"spec": {"hostSelector": {"matchLabels": labels}}}});
    yard.create::<HostMachineTemplate>("t", json!({}), template).await;
    let cluster = yard.api::<Cluster>().get("c").await.unwrap();
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "t"});
    let spec =
        json!({"version": "v1.36.0+k3s1", "machineTemplate": {"spec": {"infrastructureRef": reference}}});
    let owned = json!({"ownerReferences": [owners::controller(&cluster)]});
    yard.create::<CapstanControlPlane>("c", owned, spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_for_the_control_plane_while_a_machine_finds_a_host_there() {
    let yard = Yard::start().await;
    yard.host("a", "east", "10.0.0.1").await;
    yard.host("b", "west", "10.0.0.2").await;
    let message = yard.says::<HostCluster>("c", "FailureDomainsKnown", "ControlPlaneHostsUnknown").await;
    assert!(message.contains("CapstanControlPlane default/c does not exist"), "{message}");
    are(&yard, &[("east", true, ""), ("west", true, "")]).await;

    // Only one of them has what the template asks for.
    control_plane(&yard, json!({"server": "yes"})).await;
    yard.says::<HostCluster>("c", "FailureDomainsKnown", "Known").await;
    are(&yard, &[("east", false, "0"), ("west", false, "0")]).await;
    for host in ["a", "b"] {
        yard.change::<Host>(host, json!({"metadata": {"labels": {"server": "yes"}}})).await;
    }
    are(&yard, &[("east", true, "1"), ("west", true, "1")]).await;

    // Its own control plane machine keeps a full domain; anything else that takes the host does not.
    yard.machine("m", "a").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    are(&yard, &[("east", true, "0"), ("west", true, "1")]).await;
    let quarantine = json!({"spec": {"quarantine": {"reason": "Broken"}}});
    yard.change::<Host>("b", quarantine).await;
    are(&yard, &[("east", true, "0"), ("west", false, "0")]).await;
    yard.change::<Host>("b", json!({"spec": {"quarantine": null}})).await;
    are(&yard, &[("east", true, "0"), ("west", true, "1")]).await;
    yard.bench.set("b", |answers| answers.error = Some("no answer".to_owned()));
    yard.ask_again("b").await;
    are(&yard, &[("east", true, "0"), ("west", false, "0")]).await;
    yard.bench.set("b", |answers| answers.error = None);
    yard.ask_again("b").await;
    are(&yard, &[("east", true, "0"), ("west", true, "1")]).await;
    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    are(&yard, &[("east", true, "1"), ("west", true, "1")]).await;

    // What is known stays when the template is gone for a while.
    yard.api::<HostMachineTemplate>().delete("t", &DeleteParams::default()).await.unwrap();
    let message = yard.says::<HostCluster>("c", "FailureDomainsKnown", "ControlPlaneHostsUnknown").await;
    assert!(message.contains("HostMachineTemplate default/t does not exist"), "{message}");
    are(&yard, &[("east", true, "1"), ("west", true, "1")]).await;
}
