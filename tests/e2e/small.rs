//! A real cluster of one server and one worker, from two machines that can be reached over SSH to two machines that are
//! as they were: made, changed in place, deleted.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use capstan_tests::{K3S, Yard};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_two_is_made_changed_in_place_and_deleted() {
    let mut yard = Yard::embedded(&["first", "second"]).await.unwrap();
    yard.add_hosts(&["first"], &["second"]).await.unwrap();

    let began = Instant::now();
    let cluster = yard.cluster("small");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    eprintln!("the cluster stands after {:.1} s", began.elapsed().as_secs_f64());
    cluster.run_pods().await.unwrap();
    let before = cluster.kept().await.unwrap();

    // A configuration that restarts k3s, on both machines.
    let began = Instant::now();
    let labels = json!({"config": {"settings": {"node-label": ["e2e.capstan.dev/changed=yes"]}}});
    cluster.change_control_plane(labels).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    eprintln!("changed after {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(cluster.kept().await.unwrap(), before);

    cluster.delete().await.unwrap();
    yard.until_available(&["first", "second"]).await.unwrap();
}
