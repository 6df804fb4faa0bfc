//! Authentication, and what the driver sends before it.

use capstan_infrastructure::driver::HostDriver;
use capstan_ssh::Settings;
use futures::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

use crate::server::{Server, ecdsa, ed25519, openssh};
use crate::yard::{Book, Yard, pinnable, reason, secret, settings};

#[tokio::test(flavor = "multi_thread")]
async fn the_right_key_opens_and_connections_are_used_again() {
    let yard = Yard::new(Server::start());
    let (driver, host) = (yard.driver(), yard.host());
    let reached = driver.facts(&host).await.unwrap();
    let uname = std::process::Command::new("uname").arg("-r").output().unwrap();
    assert_eq!(reached.facts.kernel_version.as_deref(), Some(String::from_utf8_lossy(&uname.stdout).trim()));
    assert_eq!(reached.addresses[0].address, "127.0.0.1", "the address that was reached comes first");
    assert!(reached.facts.cpus.is_some_and(|cpus| cpus > 0) && reached.facts.memory_bytes.is_some());
    for result in join_all((0..20).map(|_| driver.facts(&host))).await {
        result.unwrap();
    }
    assert_eq!(driver.open_connections().await, 1);
    assert_eq!(yard.server.log().matches("Accepted publickey").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hosts_are_reached_at_the_same_time() {
    let yards: Vec<Yard> = (0..6).map(|_| Yard::new(Server::start())).collect();
    // All of them by one manager, over the inventory of the first.
    let driver = yards[0].driver();
    *yards[0].book.secret.lock().unwrap() = Some(secret(&[("ssh-privatekey", &yards[0].server.client_key)]));
    let hosts: Vec<_> = yards.iter().map(Yard::host).collect();
    for yard in &yards[1..] {
        let keys = std::fs::read(yards[0].server.path("authorized_keys")).unwrap();
        std::fs::write(yard.server.path("authorized_keys"), keys).unwrap();
    }
    for result in join_all(hosts.iter().map(|host| driver.facts(host))).await {
        result.unwrap();
    }
    assert_eq!(driver.open_connections().await, hosts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_and_opened_again() {
    let yard = Yard::new(Server::start());
    let driver = yard.driver_with(Settings { idle: Duration::from_millis(200), ..settings() });
    driver.facts(&yard.host()).await.unwrap();
    capstan_testkit::eventually(Duration::from_secs(10), "the connection to be closed", async || {
        anyhow::ensure!(driver.open_connections().await == 0);
        Ok(())
    })
    .await
    .unwrap();
    driver.facts(&yard.host()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_host_key_is_shown_beside_the_right_one_and_nothing_is_sent() {
    let yard = Yard::new(Server::start());
    let other = ed25519();
    let error = yard.driver().facts(&yard.host_with(vec![pinnable(other.public_key())])).await.unwrap_err();
    assert_eq!(reason(&error), "HostKeyMismatch");
    let message = error.to_string();
    let print = |key: &russh::keys::PublicKey| key.fingerprint(russh::keys::HashAlg::Sha256).to_string();
    assert!(message.starts_with("spec.ssh.hostKeys: "), "{message}");
    assert!(
        message.contains(&print(&yard.server.host_key)) && message.contains(&print(other.public_key())),
        "{message}"
    );
    assert!(message.contains("ssh-keygen -lf") && message.contains("No credential was sent"), "{message}");
    let log = yard.server.log();
    assert!(!log.contains("Accepted") && !log.contains("Failed") && !log.contains("userauth"), "{log}");

    // Of a sort that the host does not have.
    let error = yard.driver().facts(&yard.host_with(vec![pinnable(ecdsa().public_key())])).await.unwrap_err();
    assert_eq!(reason(&error), "HostKeyMismatch");
    assert!(error.to_string().contains("ssh-ed25519"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_pinned_keys_one_is_enough() {
    let yard = Yard::new(Server::start_with("", &ecdsa()));
    let keys = vec![pinnable(ed25519().public_key()), pinnable(&yard.server.host_key)];
    yard.driver().facts(&yard.host_with(keys)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_is_pinned_before_anything_is_sent() {
    let yard = Yard::new(Server::start());
    let host = yard.host_with(vec![]);
    yard.driver().facts(&host).await.unwrap();
    assert_eq!(*yard.book.pinned.lock().unwrap(), [pinnable(&yard.server.host_key)]);

    // Somebody has changed the Host meanwhile: nobody is let in on a key that could not be pinned.
    let mut yard = Yard::new(Server::start());
    let known = yard.book.secret.lock().unwrap().clone();
    yard.book = Arc::new(Book { conflicts: true, secret: known.into(), ..Book::default() });
    let error = yard.driver().facts(&yard.host_with(vec![])).await.unwrap_err();
    assert_eq!(reason(&error), "HostKeyNotPinned");
    assert!(!yard.server.log().contains("Accepted"), "{}", yard.server.log());

    // And without being told so, no key is trusted.
    let mut host = yard.host_with(vec![]);
    host.spec.ssh.as_mut().unwrap().trust_on_first_use = None;
    assert!(yard.driver().facts(&host).await.unwrap_err().to_string().contains("trustOnFirstUse"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_named_with_their_secret() {
    let yard = Yard::new(Server::start());
    for (data, expected) in [
        (Some(secret(&[("ssh-privatekey", &openssh(&ed25519()))])), "refuses the public key"),
        (Some(secret(&[("password", "planted-hunter2")])), "refuses the password"),
        (Some(secret(&[("ssh-privatekey", "planted-hunter2")])), "is not a private key"),
        (Some(secret(&[])), "has neither the key"),
        (None, "Secret creds does not exist"),
    ] {
        *yard.book.secret.lock().unwrap() = data;
        let error = yard.driver().facts(&yard.host()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("spec.ssh.credentialsRef: ") && text.contains(expected), "{text}");
        assert!(text.contains("creds") && !text.contains("hunter2"), "{text}");
        assert!(reason(&error).starts_with("Credentials"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_down_is_distinguished_from_one_that_is_slow() {
    let mut yard = Yard::new(Server::start());
    yard.server.stop();
    let error = yard.driver().facts(&yard.host()).await.unwrap_err();
    assert_eq!(reason(&error), "Unreachable");
    assert!(error.to_string().starts_with("spec.ssh.address: 127.0.0.1:"), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    yard.server.listen();
    yard.driver().facts(&yard.host()).await.unwrap();

    // It takes the call and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut host = yard.host();
    host.spec.ssh.as_mut().unwrap().port = silent.local_addr().unwrap().port().into();
    let started = Instant::now();
    let driver = yard.driver_with(Settings { connect: Duration::from_millis(300), ..settings() });
    let error = driver.facts(&host).await.unwrap_err();
    assert!(error.to_string().contains("took more than 0.3 s while shaking hands"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));

    // It lets us in and then takes for ever.
    let yard = Yard::new(Server::start_with("ForceCommand sleep 1000", &ed25519()));
    let driver = yard.driver_with(Settings { command: Duration::from_millis(500), ..settings() });
    let error = driver.facts(&yard.host()).await.unwrap_err();
    assert!(error.to_string().contains("took more than 0.5 s while looking at the host"), "{error}");
    assert_eq!(driver.open_connections().await, 0, "what hangs is not used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_talks_nonsense_or_without_end_is_cut_short() {
    for (command, expected) in
        [("echo nonsense", "exit code 0"), ("yes", "more than a host has to say"), ("exit 3", "exit code 3")]
    {
        let yard = Yard::new(Server::start_with(&format!("ForceCommand {command}"), &ed25519()));
        let error = yard.driver().facts(&yard.host()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_broke_in_the_pool_is_replaced() {
    let yard = Yard::new(Server::start());
    let (driver, host) = (yard.driver(), yard.host());
    driver.facts(&host).await.unwrap();
    yard.server.cut();
    capstan_testkit::eventually(Duration::from_secs(10), "another connection", async || {
        driver.facts(&host).await?;
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(yard.server.log().matches("Accepted publickey").count(), 2);
    // Used through the trait, as the controllers do.
    let driver: &dyn HostDriver = &driver;
    driver.forget(&host).await.unwrap();
}
