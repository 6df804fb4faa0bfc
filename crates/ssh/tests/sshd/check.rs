//! Findings about a host before it is claimed.

use capstan_ssh::check::Level;
use std::net::TcpListener;

use crate::server::{Server, ed25519};
use crate::yard::{Yard, pinnable};

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_found_on_the_host_itself() {
    let yard = Yard::new(Server::start());
    std::fs::create_dir_all(yard.at("/var/lib/rancher")).unwrap();
    std::fs::create_dir_all(yard.at("/var/lib/capstan-claims/old")).unwrap();
    // Somebody has the kubelet's port, unless somebody else was faster: then it is taken all the same.
    let _taken = TcpListener::bind("127.0.0.1:10250");
    let report = yard.driver().check(&yard.host()).await;
    assert!(!report.usable);
    for (subject, expected) in
        [("leftovers", "/var/lib/rancher"), ("leftovers", "/var/lib/capstan-claims/old"), ("ports", "10250")]
    {
        let hit = |finding: &&capstan_ssh::check::Finding| {
            finding.subject == subject
                && finding.level == Level::Problem
                && finding.message.contains(expected)
        };
        assert!(
            report.findings.iter().find(hit).is_some_and(|hit| hit.remedy.is_some()),
            "{expected}: {report:?}"
        );
    }
    assert!(!report.findings.iter().any(|finding| finding.subject == "clock"), "{report:?}");
    assert!(report.findings.is_sorted_by_key(|finding| finding.level));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_reached_has_that_problem_only() {
    let mut yard = Yard::new(Server::start());
    let stranger = yard.host_with(vec![pinnable(ed25519().public_key())]);
    let report = yard.driver().check(&stranger).await;
    assert_eq!((report.usable, report.findings[0].subject), (false, "host key"));
    yard.server.stop();
    let report = yard.driver().check(&yard.host()).await;
    assert_eq!((report.usable, report.findings[0].subject), (false, "reachability"));
}
