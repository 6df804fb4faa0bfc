//! The client against a real etcd of three members.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use capstan_controller::etcd::{Access, Etcd as _, Members};
use capstan_controlplane::EtcdClient;
use capstan_testkit::{EtcdCluster, eventually};

const DEADLINE: Duration = Duration::from_secs(60);

fn access(etcd: &EtcdCluster) -> Access {
    let (ca, ca_key) = etcd.authority();
    Access {
        namespace: "default".to_owned(),
        cluster: "c".to_owned(),
        addresses: etcd.addresses().to_vec(),
        os_images: Vec::new(),
        ca: ca.into_bytes(),
        ca_key: ca_key.into_bytes(),
    }
}

async fn until_healthy(access: &Access, healthy: usize) -> Members {
    let mut found = Members::default();
    eventually(DEADLINE, "members that are well, with a leader", async || {
        let members = EtcdClient.members(access).await.context("no answer")?;
        let well = members.members.iter().filter(|member| member.is_healthy).count();
        ensure!(well == healthy && members.leader.is_some(), "{members:?}");
        found = members;
        Ok(())
    })
    .await
    .unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_seen_led_and_removed() {
    let names = ["a-00000001", "b-00000002", "c-00000003"];
    let mut etcd = EtcdCluster::start(&names).await.unwrap();
    let access = access(&etcd);
    let members = until_healthy(&access, 3).await;
    let mut found: Vec<&str> = members.members.iter().map(|member| member.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, names);
    assert!(members.members.iter().all(|member| !member.is_learner));

    // The lead goes where it is asked to go.
    let leader = members.members.iter().find(|member| Some(member.id) == members.leader).unwrap();
    let heir = members.members.iter().find(|member| Some(member.id) != members.leader).unwrap();
    EtcdClient.move_leader(&access, leader, heir).await.unwrap();
    eventually(DEADLINE, "another leader", async || {
        let now = EtcdClient.members(&access).await?;
        ensure!(now.leader == Some(heir.id), "{now:?}");
        Ok(())
    })
    .await
    .unwrap();

    // One is removed; once more is no error.
    eventually(DEADLINE, "etcd to trust its young connections", async || {
        Ok(EtcdClient.remove(&access, leader).await?)
    })
    .await
    .unwrap();
    eventually(DEADLINE, "a removal that was done already to be taken for done", async || {
        Ok(EtcdClient.remove(&access, leader).await?)
    })
    .await
    .unwrap();
    let left = until_healthy(&access, 2).await;
    assert!(left.members.iter().all(|member| member.id != leader.id));

    // One of two is away: nobody can say anything for sure any more.
    let index = names.iter().position(|name| left.members[0].name == *name).unwrap();
    etcd.stop(index);
    eventually(DEADLINE, "no answer without a majority", async || {
        ensure!(EtcdClient.members(&access).await.is_err(), "it was answered");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_not_believed() {
    let (ours, theirs) = (EtcdCluster::start(&["a-00000001"]).await.unwrap(), rcgen_authority());
    let stranger = Access { ca: theirs.0.into_bytes(), ca_key: theirs.1.into_bytes(), ..access(&ours) };
    let error = EtcdClient.members(&stranger).await.unwrap_err();
    let message = capstan_controller::error::chain(&error);
    assert!(message.starts_with("cannot ask the etcd of Cluster default/c: no connection"), "{message}");
    assert!(!message.contains("PRIVATE"));
}

/// An authority that nobody there knows.
fn rcgen_authority() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
