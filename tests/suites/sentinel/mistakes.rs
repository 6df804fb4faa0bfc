//! What rancher/system-agent gets wrong, and what the contract says instead. In the order of [`MISTAKES`](crate::MISTAKES).

use anyhow::ensure;
use capstan_testkit::eventually;
use serde_json::json;
use std::fs;

use crate::heart::Heart;
use crate::local;
use crate::stage::{DEADLINE, LONG_AGO, Stage, plan, sh, sum, text_of, write};
use crate::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    standard_error_is_saved,
    long_lines_do_not_block,
    a_service_does_not_delay_the_plan,
    a_conflict_does_not_end_the_agent,
    a_failure_stays_reported,
    a_plan_that_was_not_run_is_not_acknowledged,
    a_blanked_report_is_written_again,
    an_orphaned_command_is_not_run_twice,
    a_failing_periodic_instruction_starves_no_other,
    a_failed_local_plan_is_tried_again,
];

async fn standard_error_is_saved(stage: &Stage) {
    let plan = plan(&json!([sh("i", "echo out; echo err >&2")]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    assert_eq!(stage.printed("applied-output", "i").await, "out\nerr\n");
}

async fn long_lines_do_not_block(stage: &Stage) {
    let plan = plan(&json!([sh("i", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end")]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let printed = stage.printed("applied-output", "i").await;
    assert!(printed.starts_with("xxx") && printed.ends_with("x\nend\n"), "{} bytes", printed.len());
}

async fn a_service_does_not_delay_the_plan(stage: &Stage) {
    let go = stage.at("go").display().to_string();
    let script = format!("(while [ ! -e {go} ]; do sleep 0.05; done) & echo started");
    let plan = plan(&json!([sh("i", &script)]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    assert_eq!(stage.printed("applied-output", "i").await, "started\n");
    fs::write(go, "").unwrap();
}

async fn a_conflict_does_not_end_the_agent(stage: &Stage) {
    let old = plan(&json!([sh("old", &stage.waits("old"))]));
    let new = plan(&json!([sh("new", "echo new")]));
    stage.create(&[("plan", &old), ("appliedPlan", "a")]).await;
    let mut agent = stage.start();
    stage.begun("old").await;
    for value in ["1", "2", "3"] {
        stage.annotate(value).await;
    }
    stage.set(&[("plan", &new), ("appliedPlan", "b")]).await;
    stage.go("old");
    stage.is_applied(&new).await;
    assert_eq!(stage.texts(["success-count", "appliedPlan"]).await, ["1".to_owned(), "b".to_owned()]);
    assert_eq!(stage.object().await["metadata"]["annotations"]["noise"], "3");
    assert!(!agent.has_ended());
}

async fn a_failure_stays_reported(stage: &Stage) {
    let heart = Heart::start();
    let plan =
        json!({"instructions": [sh("i", "echo evidence; exit 1")], "probes": heart.probes()}).to_string();
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "failed").await;
    heart.beats().await;
    let keys = ["failed-checksum", "failure-count", "applied-checksum", "plan-state"];
    assert_eq!(stage.texts(keys).await, [sum(&plan), "1".to_owned(), String::new(), "failed".to_owned()]);
    assert_eq!(stage.printed("failed-output", "i").await, "evidence\n");
}

async fn a_plan_that_was_not_run_is_not_acknowledged(stage: &Stage) {
    let heart = Heart::start();
    let with =
        |script: &str| json!({"instructions": [sh("i", script)], "probes": heart.probes()}).to_string();
    let (first, second) = (with("true"), with("exit 1"));
    stage.create(&[("plan", &first), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    // A writer that does not know about states.
    stage.set(&[("plan", &second)]).await;
    heart.beats().await;
    assert_eq!(stage.texts(["applied-checksum", "plan-state"]).await, [sum(&first), "succeeded".to_owned()]);
}

async fn a_blanked_report_is_written_again(stage: &Stage) {
    let heart = Heart::start();
    let plan = json!({"instructions": [sh("i", "echo x")], "probes": heart.probes()}).to_string();
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    stage.set(&[("applied-checksum", ""), ("applied-output", "")]).await;
    stage.is_applied(&plan).await;
    assert_eq!(stage.printed("applied-output", "i").await, "x\n");
    assert_eq!(stage.texts(["plan-revision", "success-count"]).await, ["1".to_owned(), "1".to_owned()]);
}

async fn an_orphaned_command_is_not_run_twice(stage: &Stage) {
    let after = format!("echo x >> {}", stage.at("after").display());
    let plan = plan(&json!([sh("first", &stage.waits("first")), sh("after", &after)]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let mut agent = stage.start();
    stage.begun("first").await;
    agent.kill();
    let _agent = stage.start();
    stage.go("first");
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!(stage.read("first.begun").lines().count(), 1, "it was started twice");
    assert_eq!((stage.read("after").as_str(), stage.text("plan-revision").await.as_str()), ("x\n", "1"));
    assert_eq!(stage.printed("applied-output", "first").await, "done\n");
}

async fn a_failing_periodic_instruction_starves_no_other(stage: &Stage) {
    let periodic = |name: &str, script: &str| json!({"name": name, "command": "sh", "args": ["-c", script]});
    let plan = json!({"periodicInstructions": [periodic("bad", "exit 3"), periodic("good", "echo fine")]})
        .to_string();
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let output = stage.output("applied-periodic-output").await;
    assert_eq!((&output["bad"]["exitCode"], &output["bad"]["failures"]), (&json!(3), &json!(1)));
    assert_eq!(text_of(&output["good"]["stdout"]), "fine\n");
}

async fn a_failed_local_plan_is_tried_again(stage: &Stage) {
    let plans = local::folder(stage);
    let plan = plan(&json!([sh("i", &format!("test -e {}", stage.at("flag").display()))]));
    write(&plans.join("a.plan"), &plan);
    let mut agent = stage.start();
    let failed = eventually(DEADLINE, "a position with a failure", async || {
        let position = local::position(stage, "a");
        ensure!(position["failedChecksum"] == sum(&plan), "{position}");
        Ok(position)
    });
    let mut position = failed.await.unwrap();
    assert_eq!(position.get("appliedChecksum"), None);
    // Its pause is over.
    agent.kill();
    position["lastApplyTime"] = json!(LONG_AGO);
    write(&plans.join("a.pos"), &position.to_string());
    write(&stage.at("flag"), "");
    let _agent = stage.start();
    local::is_applied(stage, "a", &plan).await;
}
