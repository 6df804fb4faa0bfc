//! Tables of findings about hosts.

use capstan_api::infrastructure::{Host, HostClaim, HostFacts, HostQuarantine, HostSpec};
use capstan_infrastructure::Reached;
use jiff::Timestamp;

use super::{Collected, Level, judge, problems, read, report, skew};
use crate::error::SshError;
use crate::script::Answer;

fn host() -> Host {
    let spec = HostSpec {
        ssh: None,
        simulated: None,
        registration: None,
        failure_domain: None,
        unschedulable: None,
        claim: None,
        quarantine: None,
        config: None,
        windows: Vec::new(),
    };
    Host::new("rack-1", spec)
}

fn set(words: &[&str]) -> std::collections::BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn healthy() -> Collected {
    Collected {
        reached: Reached {
            facts: HostFacts {
                architecture: Some("amd64".to_owned()),
                memory_bytes: Some(8 << 30),
                ..HostFacts::default()
            },
            ..Reached::default()
        },
        is_root: true,
        user: "root".to_owned(),
        has_systemd: true,
        free: [("/var".to_owned(), 100 << 30), ("/opt".to_owned(), 100 << 30)].into(),
        listening: [22].into(),
        cgroup: Some(2),
        controllers: set(&["cpu", "memory", "pids", "io"]),
        programs: set(&["flock", "setsid", "base64", "tar", "gzip", "curl"]),
        modules: set(&["overlay", "br_netfilter"]),
        ..Collected::default()
    }
}

#[test]
fn a_healthy_host_has_no_problem() {
    let report = report(Ok(&healthy()), &host());
    assert!(
        report.usable && report.findings.iter().all(|finding| finding.level == Level::Note),
        "{report:?}"
    );
}

#[test]
fn each_fault_is_named_with_its_subject() {
    let with = |change: &dyn Fn(&mut Collected)| {
        let mut collected = healthy();
        change(&mut collected);
        collected
    };
    for (collected, level, subject, expected) in [
        (with(&|c| c.is_root = false), Level::Problem, "root", "spec.ssh.sudo"),
        (with(&|c| c.has_systemd = false), Level::Problem, "systemd", "systemd"),
        (
            with(&|c| c.reached.facts.architecture = Some("riscv64".into())),
            Level::Problem,
            "architecture",
            "riscv64",
        ),
        (with(&|c| c.reached.facts.memory_bytes = Some(256 << 20)), Level::Problem, "memory", "256 MiB"),
        (with(&|c| c.reached.facts.memory_bytes = Some(1 << 30)), Level::Warning, "memory", "1024 MiB"),
        (with(&|c| _ = c.free.insert("/var".into(), 1 << 30)), Level::Problem, "disk", "/var"),
        (with(&|c| _ = c.free.insert("/opt".into(), 512 << 20)), Level::Warning, "disk", "/opt"),
        (
            with(&|c| _ = c.free.insert("/var/lib/rancher".into(), 512 << 20)),
            Level::Problem,
            "disk",
            "free in /var/lib/rancher",
        ),
        (with(&|c| _ = c.listening.insert(6443)), Level::Problem, "ports", "6443"),
        (with(&|c| _ = c.listening.insert(10250)), Level::Problem, "ports", "10250"),
        (
            with(&|c| c.left = vec!["/var/lib/rancher".into()]),
            Level::Problem,
            "leftovers",
            "/var/lib/rancher",
        ),
        (with(&|c| c.left = vec!["/opt/capstan".into()]), Level::Warning, "leftovers", "/opt/capstan"),
        (
            with(&|c| c.claims = vec!["abc".into()]),
            Level::Problem,
            "leftovers",
            "/var/lib/capstan-claims/abc",
        ),
        (with(&|c| c.skew = -90), Level::Problem, "clock", "90 s behind"),
        (with(&|c| c.skew = 10), Level::Warning, "clock", "10 s ahead"),
        (with(&|c| c.cgroup = None), Level::Problem, "cgroups", "no control groups"),
        (with(&|c| c.cgroup = Some(1)), Level::Warning, "cgroups", "version 1"),
        (with(&|c| _ = c.controllers.remove("memory")), Level::Problem, "cgroups", "memory"),
        (with(&|c| c.swap = vec!["/dev/sda2".into()]), Level::Note, "swap", "/dev/sda2"),
        (with(&|c| _ = c.programs.remove("flock")), Level::Problem, "programs", "flock"),
        (with(&|c| _ = c.programs.remove("curl")), Level::Problem, "download", "wget"),
        (with(&|c| _ = c.modules.remove("overlay")), Level::Warning, "kernel", "overlay"),
    ] {
        let found = judge(&collected, &host());
        let hit = found.iter().find(|finding| finding.subject == subject && finding.level == level);
        let hit = hit.unwrap_or_else(|| panic!("{subject}: {found:?}"));
        assert!(hit.message.contains(expected), "{hit:?}");
    }
}

#[test]
fn what_its_machine_does_is_not_held_against_a_host() {
    let mut host = host();
    host.spec.claim =
        Some(HostClaim { id: "i".into(), machine_name: "m".into(), cluster_name: "c".into(), since: None });
    let mut collected = healthy();
    collected.listening.insert(6443);
    collected.left = vec!["/var/lib/rancher".into()];
    collected.claims = vec!["i".into()];
    assert!(report(Ok(&collected), &host).usable);
    host.spec.quarantine = Some(HostQuarantine { reason: "LeftDirty".into(), message: None, since: None });
    assert!(!report(Ok(&collected), &host).usable);
}

#[test]
fn a_problem_is_reported_with_its_remedy_and_good_results_are_not() {
    let mut collected = healthy();
    collected.free.insert("/opt".into(), 8 << 20);
    collected.skew = 10;
    let mut host = host();
    host.spec.quarantine = Some(HostQuarantine { reason: "LeftDirty".into(), message: None, since: None });
    assert_eq!(
        problems(&collected, &host),
        ["disk: 8 MiB are free in /opt; make room: at least 256 MiB, better 1024 MiB"]
    );
}

#[test]
fn a_host_that_cannot_be_asked_has_one_problem() {
    let error = SshError::Down { address: "10.0.0.1:22".into(), why: "connection refused".into() };
    let report = report(Err(&error), &host());
    assert!(!report.usable);
    assert_eq!((report.findings.len(), report.findings[0].subject), (1, "reachability"));
}

#[test]
fn malformed_output_is_read_safely() {
    let at = |second: i64| Timestamp::from_second(second).expect("a time");
    let answer = Answer::of(&[
        ("uid", "0"),
        ("now", "1000"),
        ("listening", "192B"),
        ("listening", "nonsense"),
        ("disk", "/var 2097152"),
        ("disk", "/opt"),
        ("cgroup", "1 cpu,cpuacct memory"),
    ]);
    let collected = read(&answer, at(900), at(901));
    assert_eq!(collected.skew, 99);
    assert!(collected.listening.contains(&6443) && collected.listening.len() == 1);
    assert_eq!(collected.free.get("/var"), Some(&(2 << 30)));
    assert!(collected.controllers.contains("cpu") && collected.controllers.contains("memory"));
    assert_eq!(skew(900, at(900), at(905)), 0);
    assert_eq!(skew(890, at(900), at(905)), -10);
}
