//! A plan in a Secret with `plan-state`: applied when the orchestrator says so.

use serde_json::json;

use crate::heart::Heart;
use crate::stage::{LONG_AGO, Stage, kill, plan, sh, sum};
use crate::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    a_pending_plan_is_in_progress_before_it_runs,
    a_pending_plan_runs_as_its_first_attempt,
    a_failure_is_final_until_it_is_asked_for_again,
    an_interrupted_run_is_run_again,
    other_states_are_left_alone,
    a_killed_command_has_failed_with_a_state,
];

async fn a_pending_plan_is_in_progress_before_it_runs(stage: &Stage) {
    let plan = plan(&json!([sh("i", &stage.waits("i"))]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    stage.begun("i").await;
    let keys = ["plan-state", "plan-revision", "applied-checksum"];
    assert_eq!(stage.texts(keys).await, ["in-progress", "1", ""].map(str::to_owned));
    stage.go("i");
    stage.becomes("plan-state", "succeeded").await;
    let keys = ["applied-checksum", "plan-revision", "success-count", "failure-count"];
    assert_eq!(stage.texts(keys).await, [sum(&plan), "1".to_owned(), "1".to_owned(), "0".to_owned()]);
    assert_eq!(stage.printed("applied-output", "i").await, "done\n");
}

async fn a_pending_plan_runs_as_its_first_attempt(stage: &Stage) {
    let heart = Heart::start();
    let log = stage.at("ran").display().to_string();
    let script = format!("echo $CATTLE_AGENT_ATTEMPT_NUMBER >> {log}");
    let plan = json!({"instructions": [sh("i", &script)], "probes": heart.probes()}).to_string();
    // Neither the checksum nor failures nor their limit count.
    let sum = sum(&plan);
    let data = [
        ("applied-checksum", sum.as_str()),
        ("failed-checksum", sum.as_str()),
        ("failure-count", "7"),
        ("max-failures", "1"),
        ("plan", plan.as_str()),
        ("plan-state", "pending"),
    ];
    stage.create(&data).await;
    let mut agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    // A start is no reason to apply it again.
    agent.kill();
    let _agent = stage.start();
    heart.beats().await;
    assert_eq!(stage.read("ran"), "1\n");
    stage.settles().await;
    stage.set(&[("plan-state", "pending")]).await;
    stage.becomes("plan-revision", "2").await;
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!(stage.read("ran"), "1\n1\n");
}

async fn a_failure_is_final_until_it_is_asked_for_again(stage: &Stage) {
    let heart = Heart::start();
    let log = stage.at("ran").display().to_string();
    let script = format!("echo x >> {log}; test -e {}", stage.at("flag").display());
    let plan = json!({"instructions": [sh("i", &script), sh("never", "exit 1")], "probes": heart.probes()})
        .to_string();
    stage.create(&[("plan", &plan), ("plan-state", "pending"), ("max-failures", "-1")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "failed").await;
    stage.settles().await;
    stage.set(&[("last-apply-time", LONG_AGO)]).await;
    heart.beats().await;
    assert_eq!(stage.read("ran"), "x\n", "there is no second attempt");
    stage.settles().await;
    stage.set(&[("plan-state", "pending")]).await;
    stage.becomes("plan-revision", "2").await;
    stage.becomes("plan-state", "failed").await;
    assert_eq!(stage.read("ran"), "x\nx\n");
}

async fn an_interrupted_run_is_run_again(stage: &Stage) {
    let log = stage.at("ran").display().to_string();
    let plan = plan(&json!([sh("i", &format!("echo x >> {log}"))]));
    // As an agent left it that ended before it reported.
    stage.create(&[("plan", &plan), ("plan-state", "in-progress"), ("plan-revision", "4")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!(stage.texts(["plan-revision", "applied-checksum"]).await, ["4".to_owned(), sum(&plan)]);
    assert_eq!(stage.read("ran"), "x\n");
}

async fn other_states_are_left_alone(stage: &Stage) {
    let heart = Heart::start();
    let log = stage.at("ran").display().to_string();
    let plan =
        json!({"instructions": [sh("i", &format!("echo x >> {log}"))], "probes": heart.probes()}).to_string();
    stage.create(&[("plan", &plan), ("plan-state", "succeeded")]).await;
    let _agent = stage.start();
    for state in ["failed", "cancelled", "canceled", "paused", "surprise"] {
        heart.beats().await;
        stage.settles().await;
        stage.set(&[("plan-state", state)]).await;
    }
    heart.beats().await;
    assert_eq!(stage.text("plan-state").await, "surprise");
    assert_eq!(stage.read("ran"), "");
    stage.settles().await;
    stage.set(&[("plan-state", "pending")]).await;
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!(stage.read("ran"), "x\n");
}

async fn a_killed_command_has_failed_with_a_state(stage: &Stage) {
    let plan = plan(&json!([
        sh("i", &stage.waits("i")),
        sh("never", &format!("echo > {}", stage.at("never").display()))
    ]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    kill(&stage.begun("i").await);
    stage.becomes("plan-state", "failed").await;
    assert_eq!(stage.text("plan-revision").await, "1");
    assert!(!stage.at("never").exists());
}
