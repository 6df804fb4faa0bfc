//! A reset restores a host completely, or reports what is left.

use capstan_infrastructure::{BootstrapState, ResetState};

use super::world::{World, cloud_config, script};

fn left(state: ResetState) -> Vec<String> {
    match state {
        ResetState::Dirty { left } => left,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_host_on_which_nothing_was_done_is_clean() {
    let world = World::new();
    let before = world.listing();
    assert_eq!(world.reset_once().await, ResetState::Clean);
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn a_host_that_carries_another_claim_is_not_touched_and_not_clean() {
    let world = World::new();
    world.write("/var/lib/capstan-claims/other/ledger/index", "1 /etc/motd\n");
    world.write("/etc/motd", "of another machine\n");
    world.program(
        "/opt/capstan/capstan-agent",
        &format!("touch {}/called; echo '{{\"clean\":true}}'", world.root()),
    );
    let before = world.listing();
    let left = left(world.given_back().await);
    assert!(left[0].contains("/var/lib/capstan-claims/other"), "{left:?}");
    assert_eq!(world.listing(), before);
    // Nothing is started beside it either, also if it came after this plane had looked.
    assert!(matches!(world.carried_out(&script("true")).await, BootstrapState::Failed(_)));
    assert_eq!(world.listing(), before);
    let refused = world.start(&script("true")).await.expect_err("another claim is there").to_string();
    assert!(refused.contains("/var/lib/capstan-claims/other"), "{refused}");
    assert!(!world.claim().exists());
}

#[tokio::test]
async fn what_was_written_is_undone_to_the_byte() {
    let world = World::new();
    world.write("/etc/motd", "hello\n");
    world.write("/etc/real", "real\n");
    std::os::unix::fs::symlink("real", world.at("/etc/link")).unwrap();
    let before = world.listing();
    let data = cloud_config(
        "write_files:\n- {path: /etc/a/b/c, content: new}\n- {path: /etc/motd, content: other}\n\
         - {path: /etc/link, content: through}\n- {path: /etc/motd, append: true, content: more}\nruncmd: ['true']\n",
    );
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.read("/etc/real").as_deref(), Some("through"));
    assert_ne!(world.listing(), before);
    let state = world.given_back().await;
    assert_eq!(state, ResetState::Clean, "{:?}", world.listing());
    assert_eq!(world.listing(), before);
    assert_eq!(world.given_back().await, ResetState::Clean);
}

#[tokio::test]
async fn what_others_put_there_is_left_and_named() {
    let world = World::new();
    let data = cloud_config(&format!(
        "write_files:\n- {{path: /etc/a/b, content: new}}\nruncmd:\n- touch {root}/etc/a/other\n- mkdir -p {root}/var/lib/rancher/k3s/server {root}/var/lib/rancher/k3s/storage\n",
        root = world.root()
    ));
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    let left = left(world.given_back().await);
    assert_eq!(left[..2], ["/etc/a, which is not empty", "/var/lib/rancher/k3s/server"]);
    // Asked again, it says the same: nothing is forgotten before somebody has heard it.
    assert_eq!(self::left(world.given_back().await), left);
}

#[tokio::test]
async fn what_was_there_before_is_not_held_against_a_machine() {
    let world = World::new();
    world.write("/var/lib/rancher/k3s/data/old", "");
    let before = world.listing();
    assert_eq!(
        world.carried_out(&script("exit 3")).await.clone(),
        world.carried_out(&script("exit 3")).await
    );
    assert_eq!(world.given_back().await, ResetState::Clean);
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn the_agent_undoes_what_plans_did() {
    let install = |world: &World, says: &str, code: i32| {
        let root = world.root();
        script(&format!(
            "mkdir -p {root}/opt/capstan {root}/etc/capstan {root}/etc/systemd/system\n\
             printf '#!/bin/sh\\necho \"$@\" >> {root}/calls\\necho '\"'\"'{says}'\"'\"'\\nexit {code}\\n' > {root}/opt/capstan/capstan-agent\n\
             chmod 755 {root}/opt/capstan/capstan-agent\ntouch {root}/etc/systemd/system/capstan-agent.service\n"
        ))
    };
    let world = World::new();
    let data = install(&world, r#"{"clean": true}"#, 0);
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.given_back().await, ResetState::Clean);
    assert_eq!(world.read("/calls").as_deref(), Some("reset --output json\n"));
    assert!(!world.at("/opt/capstan").exists() && !world.at("/etc/capstan").exists());
    assert!(!world.at("/etc/systemd/system/capstan-agent.service").exists() && !world.claim().exists());

    let world = World::new();
    let data = install(&world, r#"{"clean": false, "left": ["unit k3s.service"]}"#, 0);
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(left(world.given_back().await)[0], "unit k3s.service");

    let world = World::new();
    let data = install(&world, "cannot", 1);
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert!(left(world.given_back().await)[0].contains("ended with exit code 1"));
}

#[tokio::test]
async fn kubeadm_is_reset_where_upstreams_data_ran() {
    let world = World::new();
    world.program(
        "/usr/local/bin/kubeadm",
        &format!(
            "echo \"$@\" >> {root}/calls\ncase $1 in\ninit) mkdir -p {root}/etc/kubernetes/manifests {root}/var/lib/etcd ;;\nreset) rm -rf {root}/etc/kubernetes/manifests ;;\nesac",
            root = world.root()
        ),
    );
    let before = world.listing();
    let data = cloud_config(&format!(
        "write_files:\n- {{path: /etc/kubernetes/pki/ca.crt, content: x}}\n- {{path: /run/kubeadm/kubeadm.yaml, content: x}}\n- {{path: /run/cluster-api/placeholder, content: x}}\n\
         runcmd:\n- 'kubeadm init --config /run/kubeadm/kubeadm.yaml && echo success > {}/run/cluster-api/bootstrap-success.complete'\n",
        world.root()
    ));
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.given_back().await, ResetState::Clean);
    assert!(world.read("/calls").unwrap().ends_with("reset --force\n"));
    std::fs::remove_file(world.at("/calls")).unwrap();
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn work_that_goes_on_is_stopped_first() {
    let world = World::new();
    let before = world.listing();
    let data = script(&format!("echo begun > {}/etc/begun; exec sleep 1000", world.root()));
    assert_eq!(world.ask(&data).await, BootstrapState::Running);
    world.until("the script", || world.at("/etc/begun").exists()).await;
    assert_eq!(world.given_back().await, ResetState::Clean);
    std::fs::remove_file(world.at("/etc/begun")).unwrap();
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn a_reset_that_died_is_begun_again() {
    let world = World::new();
    world.program(
        "/opt/capstan/capstan-agent",
        &format!("while [ ! -e {}/go ]; do sleep 0.05; done; echo '{{\"clean\":true}}'", world.root()),
    );
    assert_eq!(world.carried_out(&script("true")).await, BootstrapState::Done);
    assert_eq!(world.reset_once().await, ResetState::Running);
    world.until("the agent", || world.claim().join("reset.agent.new").exists()).await;
    world.cut_power();
    world.write("/go", "");
    assert_eq!(world.given_back().await, ResetState::Clean);
    assert!(!world.claim().exists());
    assert!(world.at("/opt/capstan").exists(), "it was there before");
}
