//! Bootstrap data on a host over SSH is executed once, even if connections are lost and managers restart.

use capstan_infrastructure::{BootstrapData, BootstrapState, HostDriver as _, ResetState};
use futures::StreamExt as _;

use crate::server::Server;
use crate::yard::{CLAIM, DEADLINE, Yard, script};

/// A script that says when it has begun, and waits to be told to go on.
fn waiting(yard: &Yard) -> BootstrapData {
    let root = yard.root();
    script(&format!(
        "#!/bin/sh\necho begun >> {root}/count\nseq 1 400\nwhile [ ! -e {root}/go ]; do sleep 0.05; done\necho over >> {root}/count\n"
    ))
}

fn count(yard: &Yard) -> String {
    std::fs::read_to_string(yard.at("/count")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_and_a_dead_manager_change_nothing() {
    let mut yard = Yard::new(Server::start());
    let data = waiting(&yard);
    let first = yard.driver();
    assert_eq!(first.bootstrap(&yard.host(), CLAIM, &data).await.unwrap(), BootstrapState::Running);
    yard.until("the script", || count(&yard).contains("begun")).await;

    // The host is gone for a while, and with it every connection.
    yard.server.stop();
    assert!(first.bootstrap(&yard.host(), CLAIM, &data).await.is_err());
    yard.server.listen();
    capstan_testkit::eventually(DEADLINE, "the host to answer again", async || {
        anyhow::ensure!(first.bootstrap(&yard.host(), CLAIM, &data).await? == BootstrapState::Running);
        Ok(())
    })
    .await
    .unwrap();

    // The manager dies; another one asks.
    drop(first);
    let second = yard.driver();
    assert_eq!(second.bootstrap(&yard.host(), CLAIM, &data).await.unwrap(), BootstrapState::Running);
    std::fs::write(yard.at("/go"), "").unwrap();
    assert_eq!(yard.carried_out(&second, &data).await, BootstrapState::Done);
    assert_eq!(count(&yard), "begun\nover\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_while_the_data_is_sent_is_as_if_it_was_not() {
    let yard = Yard::new(Server::start());
    // Big enough that it takes more than a moment.
    let padding = format!("# {}\n", "x".repeat(1000)).repeat(700);
    let data = script(&format!("#!/bin/sh\n{padding}echo once >> {}/count\n", yard.root()));
    let driver = yard.driver();
    for _ in 0..3 {
        let host = yard.host();
        let (_, ()) = tokio::join!(driver.bootstrap(&host, CLAIM, &data), async {
            tokio::task::yield_now().await;
            yard.server.cut();
        });
    }
    assert_eq!(yard.carried_out(&driver, &data).await, BootstrapState::Done);
    assert_eq!(count(&yard), "once\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_at_once_start_it_once() {
    let yard = Yard::new(Server::start());
    let data = script(&format!("echo once >> {}/count\n", yard.root()));
    let (one, two, host) = (yard.driver(), yard.driver(), yard.host());
    for _ in 0..5 {
        let (a, b) = tokio::join!(one.bootstrap(&host, CLAIM, &data), two.bootstrap(&host, CLAIM, &data));
        assert!(
            !matches!(a.unwrap(), BootstrapState::Failed(_))
                && !matches!(b.unwrap(), BootstrapState::Failed(_))
        );
    }
    assert_eq!(yard.carried_out(&two, &data).await, BootstrapState::Done);
    assert_eq!(count(&yard), "once\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_called_out() {
    let yard = Yard::new(Server::start());
    let data = waiting(&yard);
    let driver = yard.driver();
    let mut changes = driver.changes();
    assert_eq!(driver.bootstrap(&yard.host(), CLAIM, &data).await.unwrap(), BootstrapState::Running);
    yard.until("the script", || count(&yard).contains("begun")).await;
    std::fs::write(yard.at("/go"), "").unwrap();
    let changed = tokio::time::timeout(DEADLINE, changes.next()).await.unwrap();
    assert_eq!(changed, Some(("default".to_owned(), "rack-1".to_owned())));
    assert_eq!(driver.bootstrap(&yard.host(), CLAIM, &data).await.unwrap(), BootstrapState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_lines_leave_their_end_in_the_failure() {
    let yard = Yard::new(Server::start());
    let data = script("#!/bin/sh\nfor n in $(seq 1 900); do echo \"line number $n\"; done\nexit 12\n");
    let BootstrapState::Failed(failure) = yard.carried_out(&yard.driver(), &data).await else {
        panic!("a failure")
    };
    assert_eq!((failure.step.as_str(), failure.exit_code), ("script", Some(12)));
    assert_eq!(failure.last_lines.last().map(String::as_str), Some("line number 900"));
    assert_eq!(failure.last_lines.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_data_is_carried_out_and_undone() {
    let yard = Yard::new(Server::start());
    let root = yard.root();
    let kubeadm = yard.at("/usr/local/bin/kubeadm");
    std::fs::write(
        &kubeadm,
        format!(
            "#!/bin/sh\necho \"$@\" >> {root}/calls\ncase $1 in init) mkdir -p {root}/etc/kubernetes/manifests ;; reset) rm -rf {root}/etc/kubernetes/* ;; esac\n"
        ),
    )
    .unwrap();
    std::fs::set_permissions(&kubeadm, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // As upstream's kubeadm bootstrap provider writes it, but for the folder in front of the sentinel.
    let data = format!(
        "## template: jinja\n#cloud-config\n\nwrite_files:\n\
         -   path: /etc/kubernetes/pki/ca.crt\n    owner: root:root\n    permissions: '0640'\n    content: |\n      -----BEGIN CERTIFICATE-----\n      MIIC\n\n\
         -   path: /run/kubeadm/kubeadm.yaml\n    owner: root:root\n    permissions: '0640'\n    content: |\n      ---\n      name: '{{{{ ds.meta_data.local_hostname }}}}'\n\
         -   path: /run/cluster-api/placeholder\n    owner: root:root\n    permissions: '0640'\n    content: \"placeholder\"\n\
         runcmd:\n  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > {root}/run/cluster-api/bootstrap-success.complete'\n"
    );
    let data = BootstrapData { value: data.into_bytes(), format: "cloud-config".to_owned() };
    let driver = yard.driver();
    assert_eq!(yard.carried_out(&driver, &data).await, BootstrapState::Done);
    let written = std::fs::read_to_string(yard.at("/run/kubeadm/kubeadm.yaml")).unwrap();
    let hostname = driver.facts(&yard.host()).await.unwrap().facts.hostname.unwrap();
    assert_eq!(written, format!("---\nname: '{hostname}'\n"));
    assert_eq!(yard.given_back(&driver).await, ResetState::Clean);
    let calls = std::fs::read_to_string(yard.at("/calls")).unwrap();
    assert!(calls.starts_with("init ") && calls.ends_with("reset --force\n"), "{calls}");
    for gone in ["/etc/kubernetes", "/run/kubeadm", "/run/cluster-api", "/var/lib/capstan-claims"] {
        assert!(!yard.at(gone).exists(), "{gone}");
    }
}
