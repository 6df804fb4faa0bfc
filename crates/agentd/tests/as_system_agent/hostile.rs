//! What rancher/system-agent does not survive: much output, conflicts, lost and blanked reports, killed processes.

use serde_json::json;
use std::fs;
use std::process::Command;

use crate::stage::{Agent, Program, Stage, eventually, plan, sh, sum};

async fn stage() -> Stage {
    Stage::new(Program::ours()).await
}

/// A script that says that it runs, and waits until it may end.
fn waits(stage: &Stage, name: &str) -> String {
    let (begun, go) = (stage.at(&format!("{name}.begun")), stage.at(&format!("{name}.go")));
    format!("echo $$ >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done", begun.display(), go.display())
}

fn go(stage: &Stage, name: &str) {
    fs::write(stage.at(&format!("{name}.go")), "").unwrap();
}

async fn begun(stage: &Stage, name: &str) -> String {
    eventually("begun command", async || {
        Some(stage.read(&format!("{name}.begun"))).filter(|pids| pids.ends_with('\n'))
    })
    .await
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap().success());
}

/// The parent of a process: the supervisor of a command.
fn parent(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned()
}

async fn still_runs(stage: &Stage, agent: &mut Agent) {
    assert!(!agent.has_ended(), "{}", stage.read("log"));
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_and_long_lines_are_bounded_and_reported() {
    let stage = stage().await;
    let plan = plan(&json!([
        sh("noise", "head -c 10000000 /dev/urandom; echo end of noise"),
        sh("line", "head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2"),
        sh("both", "echo out; echo err >&2"),
    ]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    assert!(stage.bytes("applied-output").await.len() < 300_000);
    let line = stage.printed("applied-output", "line").await;
    assert!(line.starts_with("xxxx") && line.ends_with("xxxend\n"), "{}", line.len());
    assert_eq!(stage.printed("applied-output", "both").await, "out\nerr\n");
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_and_keys_of_others_stay() {
    let stage = stage().await;
    let plan = plan(&json!([sh("slow", &waits(&stage, "slow"))]));
    stage.create(&[("plan", &plan)]).await;
    let mut agent = stage.start();
    begun(&stage, "slow").await;
    for noise in ["1", "2", "3"] {
        stage.annotate(noise).await;
    }
    stage.set(&[("appliedPlan", "of others"), ("success-count", "41")]).await;
    go(&stage, "slow");
    stage.is_applied(&plan).await;
    assert_eq!(
        stage.texts(["appliedPlan", "success-count"]).await,
        ["of others".to_owned(), "42".to_owned()]
    );
    assert_eq!(stage.object().await["metadata"]["annotations"]["noise"], "3");
    still_runs(&stage, &mut agent).await;
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_changes_while_it_runs_is_never_acknowledged_for_another() {
    let stage = stage().await;
    let old = plan(&json!([sh("old", &waits(&stage, "old"))]));
    let bad = plan(&json!([sh("new", "exit 1")]));
    stage.create(&[("plan", &old), ("plan-state", "pending")]).await;
    let mut agent = stage.start();
    begun(&stage, "old").await;
    stage.set(&[("plan", &bad), ("plan-state", "pending")]).await;
    go(&stage, "old");
    stage.becomes("plan-state", "failed").await;
    let keys = ["failed-checksum", "applied-checksum", "plan-revision"];
    assert_eq!(stage.texts(keys).await, [sum(&bad), String::new(), "2".to_owned()]);
    still_runs(&stage, &mut agent).await;
    // The same plan, asked for again while it runs: it runs twice.
    let twice = plan(&json!([sh("i", &waits(&stage, "twice"))]));
    stage.set(&[("plan", &twice), ("plan-state", "pending")]).await;
    begun(&stage, "twice").await;
    stage.set(&[("plan-state", "pending")]).await;
    go(&stage, "twice");
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!(stage.text("plan-revision").await, "4");
    assert_eq!(stage.read("twice.begun").lines().count(), 2);
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_while_its_plan_runs_is_not_created_again() {
    let stage = stage().await;
    let plan = plan(&json!([sh("i", &waits(&stage, "i"))]));
    stage.create(&[("plan", &plan)]).await;
    let mut agent = stage.start();
    begun(&stage, "i").await;
    stage.delete().await;
    go(&stage, "i");
    eventually("word of the lost report", async || {
        stage.read("log").contains("is not reported").then_some(())
    })
    .await;
    assert!(stage.text("applied-checksum").await.is_empty());
    stage.create(&[("plan", &plan)]).await;
    stage.is_applied(&plan).await;
    assert_eq!(stage.read("i.begun").lines().count(), 2);
    still_runs(&stage, &mut agent).await;
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blanked_report_is_written_again_or_asks_for_another_run() {
    let stage = stage().await;
    let log = stage.at("ran").display().to_string();
    let script = format!("echo x >> {log}; echo printed");
    let plan = plan(&json!([sh("i", &script)]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    // With a state, nothing is run that is not asked for. What was reported is put back.
    stage.remove(&["applied-checksum", "applied-output", "last-apply-time"]).await;
    stage.is_applied(&plan).await;
    assert_eq!(stage.printed("applied-output", "i").await, "printed\n");
    assert_eq!(stage.read("ran"), "x\n");
    // A plan that was never applied is not acknowledged, whatever the state says.
    let other = json!({
        "instructions": [sh("other", "true")], "periodicInstructions": [{"name": "seen", "command": "true"}],
    })
    .to_string();
    stage.set(&[("plan", &other), ("plan-state", "succeeded"), ("applied-checksum", "")]).await;
    let is_seen = async || stage.output("applied-periodic-output").await.get("seen").map(drop);
    eventually("look at the other plan", is_seen).await;
    assert_eq!(stage.text("applied-checksum").await, "");
    // Without a state, the missing checksum asks for another run.
    stage.remove(&["plan-state", "plan-revision"]).await;
    stage.set(&[("plan", &plan)]).await;
    eventually("second run", async || (stage.read("ran") == "x\nx\n").then_some(())).await;
    stage.is_applied(&plan).await;
    stage.remove(&["applied-checksum"]).await;
    eventually("third run", async || (stage.read("ran") == "x\nx\nx\n").then_some(())).await;
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_plan_is_waited_for() {
    let stage = stage().await;
    let plan = plan(&json!([sh("i", &format!("echo x >> {}", stage.at("ran").display()))]));
    stage.create(&[("plan", &plan)]).await;
    let mut agent = stage.start();
    stage.is_applied(&plan).await;
    let before = stage.texts(["applied-checksum", "success-count"]).await;
    stage.remove(&["plan"]).await;
    stage.set(&[("plan", "")]).await;
    stage.set(&[("plan", "{\"files\":")]).await;
    // Not a plan: it is said so, and nothing is lost.
    eventually("message", async || {
        stage.text("capstan-message").await.contains("not valid JSON").then_some(())
    })
    .await;
    assert_eq!(stage.texts(["applied-checksum", "success-count"]).await, before);
    stage.set(&[("plan", &plan)]).await;
    let other = format!("{plan} ");
    stage.set(&[("plan", &other)]).await;
    stage.is_applied(&other).await;
    assert_eq!((stage.read("ran").as_str(), stage.text("capstan-message").await.as_str()), ("x\nx\n", ""));
    still_runs(&stage, &mut agent).await;
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_has_failed() {
    let stage = stage().await;
    let plan = plan(&json!([sh("i", &waits(&stage, "i"))]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let _agent = stage.start();
    kill(&begun(&stage, "i").await);
    stage.becomes("plan-state", "failed").await;
    assert!(stage.text("capstan-message").await.contains("instructions[0] (i): it was ended by signal 9"));
    // Killed with its supervisor, its result is unknown, and that does not count as success.
    fs::remove_file(stage.at("i.begun")).unwrap();
    stage.set(&[("plan-state", "pending")]).await;
    let pid = begun(&stage, "i").await;
    let supervisor = parent(&pid);
    kill(&supervisor);
    stage.becomes("plan-state", "failed").await;
    assert_eq!(stage.text("plan-revision").await, "2");
    eventually("end of the command", async || {
        (!fs::exists(format!("/proc/{}", pid.trim())).unwrap()).then_some(())
    })
    .await;
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaned_command_is_waited_for_and_not_run_twice() {
    for state in [None, Some(("plan-state", "pending"))] {
        let stage = stage().await;
        let after = format!("echo x >> {}", stage.at("after").display());
        let plan = plan(&json!([sh("first", &waits(&stage, "first")), sh("after", &after)]));
        let data: Vec<(&str, &str)> = std::iter::once(("plan", plan.as_str())).chain(state).collect();
        stage.create(&data).await;
        let mut agent = stage.start();
        begun(&stage, "first").await;
        agent.kill();
        let _agent = stage.start();
        go(&stage, "first");
        stage.is_applied(&plan).await;
        assert_eq!(stage.read("first.begun").lines().count(), 1, "it was started twice");
        assert_eq!((stage.read("after").as_str(), stage.text("success-count").await.as_str()), ("x\n", "1"));
        assert_eq!(stage.printed("applied-output", "first").await, "done\n");
        stage.ends().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_of_another_plan_is_ended() {
    let stage = stage().await;
    let old = plan(&json!([sh("old", &waits(&stage, "old"))]));
    let new = plan(&json!([sh("new", "true")]));
    stage.create(&[("plan", &old)]).await;
    let mut agent = stage.start();
    let pid = begun(&stage, "old").await;
    agent.kill();
    stage.set(&[("plan", &new)]).await;
    let _agent = stage.start();
    stage.is_applied(&new).await;
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap(), "two plans run at the same time");
    stage.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_power_cut_the_run_continues_at_the_interrupted_instruction() {
    let stage = stage().await;
    let count = |name: &str| format!("echo x >> {}; echo of {name}", stage.at(name).display());
    let plan = plan(&json!([sh("a", &count("a")), sh("b", &waits(&stage, "b")), sh("c", &count("c"))]));
    stage.create(&[("plan", &plan), ("plan-state", "pending")]).await;
    let mut agent = stage.start();
    let pid = begun(&stage, "b").await;
    // All at once, as far as a test can: the agent, the supervisor, the command.
    agent.kill();
    kill(&parent(&pid));
    kill(&pid);
    go(&stage, "b");
    let _agent = stage.start();
    stage.becomes("plan-state", "succeeded").await;
    assert_eq!((stage.read("a").as_str(), stage.read("c").as_str()), ("x\n", "x\n"));
    assert_eq!(stage.read("b.begun").lines().count(), 2);
    assert_eq!(stage.printed("applied-output", "a").await, "of a\n");
    assert_eq!(stage.texts(["plan-revision", "success-count"]).await, ["1".to_owned(), "1".to_owned()]);
    stage.ends().await;
}
