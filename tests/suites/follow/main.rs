//! The real `clusterctl move`, which knows nothing of agents: to a second management plane and back. Nothing is lost,
//! hosts stay claimed, nothing is started anew, and the agents follow the new manager and refuse the old one.
//!
//! The machines are simulated; `e2e_follow` does the same with a real one.

#![cfg(test)]

mod stage;

use anyhow::{Result, ensure};
use capstan_testkit::eventually;
use serde_json::json;

use stage::{CORE, DEADLINE, NEW, OLD, Side, Yard};

#[tokio::test(flavor = "multi_thread")]
async fn agents_follow_a_cluster_to_another_plane_and_back() {
    let yard = Yard::new();
    let (first, second) = (Side::start("here").await.unwrap(), Side::start("there").await.unwrap());
    let mut manager = first.manager(yard.hosts());
    first.makes_a_cluster().await.unwrap();
    let made = first.until_up_to_date(OLD, 1).await.unwrap();
    let machines = yard.machines().unwrap();

    // While its manager runs: nothing that it sees going may take anything along.
    first.move_to(&second).await.unwrap();
    first.is_empty().await.unwrap();
    manager.ensure_running().unwrap();
    drop(manager);
    assert_eq!(yard.machines().unwrap(), machines, "the move itself has changed machines");

    // The old manager goes on. Simulated hosts can be reached by one process only, so it has others now.
    let mut left = first.manager(yard.folder("left"));
    let mut manager = second.manager(yard.hosts());
    let moved = second.until_up_to_date(OLD, 2).await.unwrap();
    made.is_the_same_elsewhere(&moved).unwrap();
    assert_eq!(yard.machines().unwrap(), machines, "machines have changed by following");

    // The new one is obeyed, in place.
    second.asks_for(NEW).await.unwrap();
    let changed = second.until_up_to_date(NEW, 2).await.unwrap();
    moved.is_the_same_with_other_plans(&changed).unwrap();
    let key = second.plan_key().await.unwrap();
    second.is_refused(&key, 1, "the plan is from manager epoch 1").await.unwrap();
    second.until_up_to_date(NEW, 2).await.unwrap();
    for manager in [&mut left, &mut manager] {
        manager.ensure_running().unwrap();
    }

    // And back, where everything began.
    second.move_to(&first).await.unwrap();
    second.is_empty().await.unwrap();
    drop((manager, left));
    let _manager = first.manager(yard.hosts());
    let back = first.until_up_to_date(NEW, 3).await.unwrap();
    changed.is_the_same_with_other_plans(&back).unwrap();
    first.deletes_the_cluster().await.unwrap();
}

/// A plane that was left with its objects in it, such as one that is brought back from a backup: its manager still
/// believes that the machines are its own, and a third plane that gets its objects would believe so, too.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_machines_back_from_behind() {
    let yard = Yard::new();
    let (first, second, third) = (
        Side::start("here").await.unwrap(),
        Side::start("there").await.unwrap(),
        Side::start("third").await.unwrap(),
    );
    let manager = first.manager(yard.hosts());
    first.makes_a_cluster().await.unwrap();
    first.until_up_to_date(OLD, 1).await.unwrap();
    drop(manager);

    // A copy of everything, as from a backup.
    first.copies_to(&third).await.unwrap();
    first.move_to(&second).await.unwrap();
    let manager = second.manager(yard.hosts());
    second.until_up_to_date(OLD, 2).await.unwrap();
    drop(manager);
    let machines = yard.machines().unwrap();

    let _manager = third.manager(yard.hosts());
    third.resumes().await.unwrap();
    eventually(DEADLINE, "the agents to refuse", async || {
        for machine in third.list("infrastructure.cluster.x-k8s.io/v1alpha1", "HostMachine").await? {
            let follows = capstan_tests::condition(&machine, "AgentFollows");
            ensure!(follows == Some("False"), "AgentFollows is {follows:?}");
            let why = serde_json::to_string(&machine.data["status"]["conditions"])?;
            ensure!(why.contains("FollowingRefused") && why.contains("epoch 2"), "{why}");
        }
        Ok(())
    })
    .await
    .unwrap();
    says_why(&third).await.unwrap();
    assert_eq!(yard.machines().unwrap(), machines, "machines have changed for somebody they do not obey");
}

async fn says_why(side: &Side) -> Result<()> {
    for config in side.list("bootstrap.cluster.x-k8s.io/v1alpha1", "CapstanConfig").await? {
        let conditions = capstan_tests::not_true(&config);
        ensure!(
            conditions.contains("WaitingForMachineToFollow") || conditions.contains("obeys another"),
            "{conditions}"
        );
    }
    let clusters = side.list(CORE, "Cluster").await?;
    ensure!(clusters.len() == 1 && clusters[0].data["spec"]["paused"] != json!(true));
    Ok(())
}

/// The key that signs plans is replaced: the machines follow without any other change, obey the new key, and nobody who has
/// the old one. And they follow to another plane with it.
#[tokio::test(flavor = "multi_thread")]
async fn machines_follow_to_another_plan_key() {
    let yard = Yard::new();
    let (first, second) = (Side::start("here").await.unwrap(), Side::start("there").await.unwrap());
    let mut manager = first.manager(yard.hosts());
    first.makes_a_cluster().await.unwrap();
    let made = first.until_up_to_date(OLD, 1).await.unwrap();
    let machines = yard.machines().unwrap();
    let old = first.plan_key().await.unwrap();

    let said = first.rotates_the_plan_key().unwrap();
    let new = first.plan_key().await.unwrap();
    assert_ne!(new.public().id(), old.public().id());
    assert!(said.contains(&new.public().id().to_string()), "{said}");
    let followed = first.until_up_to_date(OLD, 1).await.unwrap();
    assert_eq!(followed, made, "machines, claims and plans are the same");
    assert_eq!(yard.machines().unwrap(), machines, "machines have changed by trusting another key");

    first.is_refused(&old, 1, "which this machine does not trust").await.unwrap();
    first.asks_for(NEW).await.unwrap();
    let changed = first.until_up_to_date(NEW, 1).await.unwrap();
    made.is_the_same_with_other_plans(&changed).unwrap();
    manager.ensure_running().unwrap();

    first.move_to(&second).await.unwrap();
    drop(manager);
    let _manager = second.manager(yard.hosts());
    let moved = second.until_up_to_date(NEW, 2).await.unwrap();
    changed.is_the_same_elsewhere(&moved).unwrap();
}
