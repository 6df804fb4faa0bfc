//! The serialized report is equal to the status of a MachineReport.

#![cfg(test)]

mod common;

use capstan_api::agent::MachineReportStatus;
use capstan_plan::{
    Capabilities, Capability, Digest, Drift, Excerpt, Facts, Ledger, LedgerBefore, LedgerItem, LedgerKind,
    PeriodicResult, Phase, PlanId, ProbeResult, Progress, RejectedProgram, Report, ReportedCapabilities,
    ReportedProgram, Standing, StepOutput, StepProgress, StepTail,
};
use common::{key, name, plan};
use serde_json::{Value, json};

fn id() -> PlanId {
    plan().seal().unwrap().id()
}

fn full() -> Report {
    let time = "2026-11-15T01:02:03Z".parse().unwrap();
    Report {
        standing: Standing::Plan(Progress {
            step: Some(StepProgress {
                name: name("install"),
                index: 3,
                total: 5,
                exit_code: Some(1),
                started: Some(time),
                finished: Some(time),
            }),
            message: Some("no space left on device".into()),
            output: StepOutput {
                stdout: Some(Excerpt {
                    head: Some("a".into()),
                    tail: Some("z".into()),
                    omitted_bytes: Some(24),
                }),
                stderr: Some(Excerpt { head: Some("e".into()), ..Excerpt::default() }),
            },
            attempts: Some(5),
            ..Progress::new(id(), Phase::Failed)
        }),
        applied: Some(id()),
        outputs: vec![StepTail {
            step: name("config"),
            exit_code: Some(0),
            finished: Some(time),
            stdout: Some("z".into()),
            stderr: Some("e".into()),
        }],
        probes: vec![ProbeResult {
            name: name("kubelet"),
            healthy: false,
            message: Some("connection refused".into()),
            since: Some(time),
        }],
        periodic: vec![PeriodicResult {
            name: name("trim"),
            started: time,
            finished: Some(time),
            exit_code: Some(1),
            failures: 3,
            message: Some("the command exited with 1".into()),
            stdout: Some("z".into()),
            stderr: Some("e".into()),
        }],
        drift: vec![Drift {
            step: name("config"),
            found: "/etc/app is missing".into(),
            since: time,
            repaired: Some(time),
            message: Some("no room".into()),
            times: 2,
        }],
        facts: Some(Facts {
            hostname: Some("web-0".into()),
            machine_id: Some("m".into()),
            boot_id: Some("b".into()),
            os_image: Some("Debian".into()),
            kernel_version: Some("6.12".into()),
            architecture: Some("amd64".into()),
            cpus: Some(2),
            memory_bytes: Some(1 << 30),
        }),
        problem: Some("the journal cannot be written".into()),
        ledger: Some(Ledger {
            total: 3,
            items: vec![
                LedgerItem { kind: LedgerKind::Command, name: "install".into(), before: None },
                LedgerItem {
                    kind: LedgerKind::File,
                    name: "/etc/hosts".into(),
                    before: Some(LedgerBefore::File),
                },
            ],
        }),
        plan_key: Some(key().public().id()),
        agent_version: Some("0.1.0".into()),
        capabilities: Some(ReportedCapabilities::of_this_version("0.1.0", &Capabilities::all())),
        agent_program: Some(ReportedProgram {
            sha256: Digest::of(b"old"),
            on_trial: true,
            rejected: Some(RejectedProgram {
                sha256: Digest::of(b"new"),
                message: "it was started 3 times".into(),
                since: time,
            }),
            message: Some("no source has it".into()),
        }),
        last_updated: Some(time),
    }
}

/// Writes the report, has the other type read and write it, and compares every byte.
fn same(report: &Report) -> Value {
    let ours = serde_json::to_string(report).unwrap();
    let theirs: MachineReportStatus = serde_json::from_str(&ours).unwrap();
    assert_eq!(serde_json::to_string(&theirs).unwrap(), ours);
    serde_json::from_str(&ours).unwrap()
}

#[test]
fn both_types_write_the_same_bytes() {
    let written = same(&full());
    let fields: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 19, "a field of the status is never set: {fields:?}");
    assert_eq!(serde_json::from_value::<Report>(written).unwrap(), full());
    assert_eq!(same(&Report::default()), json!({}));
    for phase in [Phase::Applying, Phase::Waiting, Phase::Applied, Phase::Failed, Phase::Refused] {
        same(&Report { standing: Standing::Plan(Progress::new(id(), phase)), ..Report::default() });
    }
    let unreadable = Report { standing: Standing::Unreadable { message: "why".into() }, ..Report::default() };
    assert_eq!(same(&unreadable), json!({"phase": "Refused", "message": "why"}));
}

#[test]
fn times_are_whole_seconds() {
    let report =
        Report { last_updated: Some("2026-11-15T01:02:03.999Z".parse().unwrap()), ..Report::default() };
    assert_eq!(same(&report), json!({"lastUpdated": "2026-11-15T01:02:03Z"}));
}

#[test]
fn applied_names_the_plan_that_ran() {
    let report =
        Report { standing: Standing::Plan(Progress::new(id(), Phase::Applied)), ..Report::default() };
    let written = same(&report);
    assert_eq!(written["applied"], written["plan"]);
    assert_eq!(report.applied(), Some(id()));
    assert!(report.about(id()).is_some());

    let mut later = plan();
    later.revision = later.revision.next().unwrap();
    let later = later.seal().unwrap().id();
    assert!(report.about(later).is_none());
    let failed = Report {
        applied: Some(id()),
        standing: Standing::Plan(Progress::new(later, Phase::Failed)),
        ..report
    };
    assert_eq!(failed.applied(), Some(id()));
}

#[test]
fn capabilities_count_for_the_agent_that_reported_them() {
    let first = || Some(Capabilities::FIRST_RELEASE);
    let drift = || Some([Capability::OnDrift].into_iter().collect::<Capabilities>());
    let named = |version: &str, names: &[&str]| json!({"agentVersion": version, "names": names});
    for (case, status, expected) in [
        ("nothing is reported", json!({}), None),
        ("an agent of the first release", json!({"agentVersion": "0.1.0"}), first()),
        ("it enrols", json!({"capabilities": named("0.2.0", &["onDrift"])}), drift()),
        (
            "this version",
            json!({"agentVersion": "0.2.0", "capabilities": named("0.2.0", &["onDrift"])}),
            drift(),
        ),
        ("none", json!({"agentVersion": "0.2.0", "capabilities": {"agentVersion": "0.2.0"}}), first()),
        (
            "a later version",
            json!({"agentVersion": "0.9.0", "capabilities": named("0.9.0", &["fly", "onDrift"])}),
            drift(),
        ),
        (
            "the first release after a later version",
            json!({"agentVersion": "0.1.0", "capabilities": named("0.2.0", &["onDrift"])}),
            first(),
        ),
    ] {
        let report: Report = serde_json::from_value(status).unwrap();
        assert_eq!(report.capabilities(), expected, "{case}");
    }
}

#[test]
fn contradictions_of_a_hostile_machine_are_refused() {
    let plan = json!({"digest": id().digest().to_string(), "revision": 4});
    let other = json!({"digest": id().digest().to_string(), "revision": 5});
    for lie in [
        json!({"phase": "Applied"}),
        json!({"phase": "Applied", "plan": plan}),
        json!({"phase": "Applied", "plan": plan, "applied": other}),
        json!({"plan": plan}),
        json!({"step": {"name": "a", "index": 1, "total": 1}}),
        json!({"phase": "Applying", "plan": plan, "step": {"name": "a", "index": 2, "total": 1}}),
        json!({"phase": "Applying", "plan": plan, "step": {"name": "a", "index": 0, "total": 1}}),
        json!({"phase": "Applying", "plan": {"digest": "x", "revision": 4}}),
        json!({"phase": "Applying", "plan": {"digest": id().digest().to_string(), "revision": 0}}),
    ] {
        assert!(serde_json::from_value::<Report>(lie.clone()).is_err(), "{lie}");
    }
}

#[test]
fn what_would_be_too_long_for_the_schema_is_cut() {
    let long = || Some("ü".repeat(10_000));
    let mut report = full();
    let Standing::Plan(progress) = &mut report.standing else { panic!("a plan") };
    progress.message = long();
    progress.output.stdout = Some(Excerpt { head: long(), tail: long(), omitted_bytes: Some(u64::MAX) });
    progress.output.stderr = Some(Excerpt { head: Some(String::new()), ..Excerpt::default() });
    progress.attempts = Some(u32::MAX);
    let tail = Some(format!("{}z", "ü".repeat(10_000)));
    let output = StepTail { stdout: tail, stderr: Some(String::new()), ..report.outputs[0].clone() };
    report.outputs = vec![output; 40];
    report.probes = vec![ProbeResult { message: long(), ..report.probes[0].clone() }; 40];
    let result = PeriodicResult {
        failures: u32::MAX,
        message: long(),
        stdout: Some(format!("{}z", "ü".repeat(10_000))),
        stderr: Some(String::new()),
        ..report.periodic[0].clone()
    };
    report.periodic = vec![result; 40];
    let drift =
        Drift { found: "ü".repeat(10_000), message: long(), times: u32::MAX, ..report.drift[0].clone() };
    report.drift = vec![drift; 40];
    report.facts =
        Some(Facts { hostname: long(), os_image: long(), memory_bytes: Some(u64::MAX), ..Facts::default() });
    report.ledger = report.ledger.map(|ledger| {
        let item = LedgerItem { name: "ü".repeat(10_000), ..ledger.items[0].clone() };
        Ledger { total: u32::MAX, items: vec![item; 100] }
    });
    report.agent_version = long();
    let program = report.agent_program.as_mut().unwrap();
    program.message = long();
    program.rejected.as_mut().unwrap().message = "ü".repeat(10_000);
    let names = (0..100).map(|number| format!("capability{number}")).chain(["x".repeat(64)]).rev().collect();
    report.capabilities = Some(ReportedCapabilities { agent_version: "ü".repeat(100), names });
    let written = same(&report);
    let characters = |pointer: &str| written.pointer(pointer).unwrap().as_str().unwrap().chars().count();
    assert_eq!(characters("/message"), 4096);
    assert_eq!((characters("/drift/15/found"), characters("/drift/15/message")), (512, 1024));
    assert_eq!(written.pointer("/drift/16"), None);
    assert_eq!(characters("/output/stdout/head"), 4096);
    assert_eq!(characters("/output/stdout/tail"), 4096);
    assert_eq!((characters("/outputs/31/stdout"), written.pointer("/outputs/32")), (1024, None));
    assert!(written["outputs"][0]["stdout"].as_str().unwrap().ends_with("üz"));
    assert_eq!(written["outputs"][0].get("stderr"), None);
    assert_eq!(characters("/probes/0/message"), 1024);
    assert_eq!((characters("/periodic/31/message"), characters("/periodic/31/stdout")), (1024, 512));
    assert_eq!((written.pointer("/periodic/32"), written.pointer("/periodic/0/stderr")), (None, None));
    assert!(written["periodic"][0]["stdout"].as_str().unwrap().ends_with("üz"));
    assert_eq!(characters("/facts/hostname"), 253);
    assert_eq!(characters("/agentVersion"), 64);
    assert_eq!((characters("/capabilities/agentVersion"), characters("/capabilities/names/63")), (64, 12));
    assert_eq!(written.pointer("/capabilities/names/64"), None);
    assert_eq!(characters("/agentProgram/message"), 1024);
    assert_eq!(characters("/agentProgram/rejected/message"), 1024);
    assert_eq!(written["probes"].as_array().unwrap().len(), 32);
    assert_eq!(characters("/ledger/items/0/name"), 512);
    assert_eq!(written["ledger"]["items"].as_array().unwrap().len(), 64);
    assert_eq!(written["output"].get("stderr"), None);
}
