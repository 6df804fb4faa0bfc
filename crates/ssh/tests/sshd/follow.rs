//! The agent on a host is requested to follow its cluster to another management plane.

use capstan_infrastructure::{BootstrapState, FollowState, HandOver, HostDriver as _};
use std::os::unix::fs::PermissionsExt as _;

use crate::server::Server;
use crate::yard::{CLAIM, Yard, script};

/// An agent that writes down what it reads, what it was called with, and what all processes were called with meanwhile.
fn put_agent(yard: &Yard, answer: &str) {
    let (path, root) = (yard.at("/opt/capstan/capstan-agent"), yard.root());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\ncat > {root}/read\necho \"$@\" > {root}/called\ncat /proc/[0-9]*/cmdline > {root}/lines 2>/dev/null\n\
         echo 'capstan-agent: something to read' >&2\n{answer}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_reads_its_input_and_decides() {
    let yard = Yard::new(Server::start());
    let (driver, host) = (yard.driver(), yard.host());
    let hand_over = HandOver(br#"{"kind":"AgentConfig","token":"s3cr3t-t0k3n-0123456789"}"#.to_vec());
    // Nobody is told anything before there is a machine of this claim, and an agent on it.
    let error = driver.follow(&host, CLAIM, &hand_over).await.unwrap_err().to_string();
    assert!(error.contains("the machine of this claim is not on the host"), "{error}");
    assert_eq!(yard.carried_out(&driver, &script("#!/bin/sh\ntrue\n")).await, BootstrapState::Done);
    let error = driver.follow(&host, CLAIM, &hand_over).await.unwrap_err().to_string();
    assert!(error.contains("there is no agent"), "{error}");

    put_agent(&yard, "echo '{\"follows\":true}'");
    for _ in 0..2 {
        assert_eq!(driver.follow(&host, CLAIM, &hand_over).await.unwrap(), FollowState::Follows);
    }
    let read = |name: &str| std::fs::read(yard.at(name)).unwrap();
    assert_eq!(read("/read"), hand_over.0);
    assert_eq!(read("/called"), b"follow --output json\n");
    let lines = String::from_utf8_lossy(&read("/lines")).into_owned();
    assert!(!lines.contains("s3cr3t-t0k3n"), "the token is an argument of something");

    put_agent(&yard, "echo '{\"follows\":false,\"refused\":\"epoch 1, and epoch 2\"}'");
    let refused = driver.follow(&host, CLAIM, &hand_over).await.unwrap();
    assert_eq!(refused, FollowState::Refused("epoch 1, and epoch 2".to_owned()));

    // What goes wrong is told without what it was told.
    put_agent(&yard, &format!("echo 'cannot read s3cr3t-t0k3n-0123456789 in {}' >&2; exit 3", yard.root()));
    let error = driver.follow(&host, CLAIM, &hand_over).await.unwrap_err().to_string();
    assert!(error.contains("cannot read") && !error.contains("s3cr3t"), "{error}");
    put_agent(&yard, "echo nonsense");
    assert!(driver.follow(&host, CLAIM, &hand_over).await.is_err());
}
