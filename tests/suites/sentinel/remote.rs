//! A plan in a Secret without `plan-state`: applied by its checksum.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::ensure;
use capstan_testkit::eventually;
use regex::Regex;
use serde_json::{Value, json};

use crate::heart::Heart;
use crate::stage::{DEADLINE, LONG_AGO, Stage, base64, kill, plan, sh, sum, text_of};
use crate::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    files_are_written_and_deleted,
    instructions_run_in_order_with_their_surroundings,
    output_is_saved_under_names,
    periodic_instructions_run_with_the_plan_and_after_their_period,
    probes_are_counted_up_to_their_thresholds,
    the_report_keeps_what_others_have_written,
    failures_are_counted_and_another_plan_begins_at_once,
    a_failed_plan_waits_for_its_cooldown_and_its_threshold,
    a_plan_is_applied_once_and_again_after_a_start,
    a_blanked_checksum_is_another_reason_to_apply,
    a_secret_with_another_uid_is_a_new_one,
    a_lost_plan_and_one_that_is_none_change_nothing,
    a_killed_command_has_failed,
    a_command_that_does_not_exist_has_failed,
];

/// A file that stays with the user of the program.
fn file(mut fields: Value, path: &std::path::Path) -> Value {
    fields["path"] = json!(path);
    for id in ["uid", "gid"] {
        fields[id] = json!(-1);
    }
    fields
}

async fn files_are_written_and_deleted(stage: &Stage) {
    let mode = |name: &str| fs::metadata(stage.at(name)).unwrap().permissions().mode() & 0o777;
    fs::write(stage.at("old"), "old").unwrap();
    fs::create_dir_all(stage.at("tree/below")).unwrap();
    let plan = json!({
        "files": [
            file(json!({"content": base64("content")}), &stage.at("deep/er/file")),
            file(json!({"content": base64("second"), "permissions": "0644", "dynamic": true, "minor": true}), &stage.at("second")),
            file(json!({"directory": true}), &stage.at("folder")),
            file(json!({"directory": true, "permissions": "0700"}), &stage.at("private")),
            file(json!({"action": "delete"}), &stage.at("old")),
            file(json!({"action": "delete", "directory": true}), &stage.at("tree")),
            file(json!({"action": "delete"}), &stage.at("missing")),
        ],
        "instructions": [sh("i", &format!("cat {}", stage.at("deep/er/file").display()))],
        "surprise": {"unknown": ["fields", "are ignored"]},
    })
    .to_string();
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    assert_eq!(
        stage.printed("applied-output", "i").await.trim_end(),
        "content",
        "files come before instructions"
    );
    assert_eq!(
        ["deep/er/file", "second", "folder", "private", "deep"].map(mode),
        [0o600, 0o644, 0o755, 0o700, 0o755]
    );
    assert!(["old", "tree", "missing"].iter().all(|name| !stage.at(name).exists()));
}

async fn instructions_run_in_order_with_their_surroundings(stage: &Stage) {
    let show = "echo $GIVEN; echo $INHERITED; echo $CATTLE_AGENT_ATTEMPT_NUMBER; pwd; echo $CATTLE_AGENT_EXECUTION_PWD; \
                case $PATH in *:$PWD) echo suffix;; esac; echo > left";
    let mut first = sh("first", show);
    first["env"] = json!(["GIVEN=a=b"]);
    let order = stage.at("order").display().to_string();
    let say = |word: &str| sh(word, &format!("echo {word} >> {order}"));
    let plan = plan(&json!([first, say("one"), say("two"), {"command": "sh", "args": ["-c", "exit 0"]}]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let printed = stage.printed("applied-output", "first").await;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..3], ["a=b", "yes", "1"]);
    assert!(
        lines[3].ends_with(&format!("/{}_0", sum(&plan))) && lines[3] == lines[4] && lines[5] == "suffix",
        "{lines:?}"
    );
    assert_eq!(stage.read("order"), "one\ntwo\n");
    assert_eq!(fs::read_dir(stage.at("applied")).unwrap().count(), 1, "the plan is in the history");
}

async fn output_is_saved_under_names(stage: &Stage) {
    let mut quiet = sh("quiet", "echo quiet");
    quiet["saveOutput"] = json!(false);
    let plan =
        plan(&json!([sh("a", "echo one; echo two"), quiet, sh("silent", "true"), sh("a", "echo last")]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let output = stage.output("applied-output").await;
    let names: Vec<&String> = output.as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "silent"]);
    assert_eq!((text_of(&output["a"]), text_of(&output["silent"])), ("last\n".to_owned(), String::new()));
}

async fn periodic_instructions_run_with_the_plan_and_after_their_period(stage: &Stage) {
    let count = |name: &str| format!("echo x >> {}; echo out; echo err >&2", stage.at(name).display());
    let periodic = |name: &str, seconds: u64, saves: bool| json!({"name": name, "command": "sh", "args": ["-c", count(name)], "periodSeconds": seconds, "saveStderrOutput": saves});
    let plan = json!({"periodicInstructions": [periodic("often", 1, true), periodic("rarely", 3600, false)]})
        .to_string();
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    assert_eq!(stage.read("rarely"), "x\n", "both run with the plan");
    let again = eventually(DEADLINE, "the third run", async || {
        let runs = stage.read("often");
        ensure!(runs.len() >= 6, "{runs:?}");
        Ok(())
    });
    again.await.unwrap();
    let output = stage.output("applied-periodic-output").await;
    let (often, rarely) = (&output["often"], &output["rarely"]);
    for (result, name, error) in [(often, "often", "err\n"), (rarely, "rarely", "")] {
        assert_eq!(
            (&result["name"], &result["exitCode"], &result["failures"]),
            (&json!(name), &json!(0), &json!(0))
        );
        assert_eq!(
            (text_of(&result["stdout"]), text_of(&result["stderr"])),
            ("out\n".to_owned(), error.to_owned())
        );
        is_time(result["lastSuccessfulRunTime"].as_str().unwrap());
    }
    assert_eq!(stage.read("rarely"), "x\n", "its period is not over");
}

/// Whether it is a time as Go's layout `UnixDate` has it.
fn is_time(text: &str) {
    let time = Regex::new(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \d{4}$").unwrap();
    assert!(time.is_match(text), "{text:?}");
}

async fn probes_are_counted_up_to_their_thresholds(stage: &Stage) {
    let (heart, closed) = (Heart::start(), "http://127.0.0.1:1/");
    let mut slow = heart.probe();
    slow["successThreshold"] = json!(2);
    slow["failureThreshold"] = json!(2);
    slow["initialDelaySeconds"] = json!(1);
    let plan = json!({"probes": {"slow": slow, "down": {"timeoutSeconds": 30, "httpGet": {"url": closed}}}})
        .to_string();
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let status =
        async || serde_json::from_str::<Value>(&stage.text("probe-statuses").await).unwrap_or_default();
    assert!(status().await.get("slow").is_some(), "the first results come with the checksum");
    let becomes = async |expected: Value| {
        let what = expected.to_string();
        let becomes = eventually(DEADLINE, &what, async || {
            let found = status().await;
            ensure!(found == expected, "{found}");
            Ok(())
        });
        becomes.await.unwrap();
    };
    let down = json!({"failureCount": 3});
    becomes(json!({"slow": {"healthy": true, "successCount": 2}, "down": down})).await;
    heart.set_well(false);
    becomes(json!({"slow": {"failureCount": 2}, "down": down})).await;
    heart.set_well(true);
    becomes(json!({"slow": {"healthy": true, "successCount": 2}, "down": down})).await;
}

async fn the_report_keeps_what_others_have_written(stage: &Stage) {
    let plan = plan(&json!([sh("i", "true")]));
    stage.create(&[("plan", &plan), ("appliedPlan", "of others")]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    let keys = ["appliedPlan", "success-count", "failure-count", "failed-checksum", "failed-output"];
    assert_eq!(stage.texts(keys).await, ["of others", "1", "0", "", ""].map(str::to_owned));
    is_time(&stage.text("last-apply-time").await);
    let object = stage.object().await;
    let metadata = &object["metadata"];
    assert_eq!(
        (&metadata["labels"]["of"], &metadata["annotations"]["of"]),
        (&json!("others"), &json!("others"))
    );
    assert_eq!(object["type"], "rke.cattle.io/machine-plan");
}

async fn failures_are_counted_and_another_plan_begins_at_once(stage: &Stage) {
    let bad = plan(&json!([sh("bad", "echo $CATTLE_AGENT_ATTEMPT_NUMBER; exit 3"), sh("never", "true")]));
    stage.create(&[("plan", &bad)]).await;
    let _agent = stage.start();
    stage.becomes("failure-count", "1").await;
    let keys = ["failed-checksum", "success-count", "applied-checksum"];
    assert_eq!(stage.texts(keys).await, [sum(&bad), "0".to_owned(), String::new()]);
    let output = stage.output("failed-output").await;
    assert_eq!((text_of(&output["bad"]), output.get("never")), ("1\n".to_owned(), None));
    stage.settles().await;
    stage.set(&[("last-apply-time", LONG_AGO)]).await;
    stage.becomes("failure-count", "2").await;
    assert_eq!(stage.printed("failed-output", "bad").await, "2\n");
    stage.settles().await;
    let good = plan(&json!([sh("good", "echo fine")]));
    stage.set(&[("plan", &good)]).await;
    stage.is_applied(&good).await;
    let keys = ["failure-count", "success-count", "failed-checksum", "failed-output"];
    assert_eq!(stage.texts(keys).await, ["0", "1", "", ""].map(str::to_owned));
}

async fn a_failed_plan_waits_for_its_cooldown_and_its_threshold(stage: &Stage) {
    let heart = Heart::start();
    let log = stage.at("ran").display().to_string();
    let bad =
        json!({"instructions": [sh("bad", &format!("echo x >> {log}; exit 1"))], "probes": heart.probes()});
    let bad = bad.to_string();
    stage.create(&[("plan", &bad), ("max-failures", "2"), ("failure-threshold", "1")]).await;
    let _agent = stage.start();
    stage.becomes("failure-count", "1").await;
    heart.beats().await;
    assert_eq!(
        stage.read("ran"),
        "x\n",
        "the cooldown is not over, and failure-threshold is not for the agent"
    );
    stage.settles().await;
    stage.set(&[("last-apply-time", LONG_AGO)]).await;
    stage.becomes("failure-count", "2").await;
    stage.settles().await;
    stage.set(&[("last-apply-time", LONG_AGO)]).await;
    heart.beats().await;
    assert_eq!((stage.read("ran").as_str(), stage.text("failure-count").await.as_str()), ("x\nx\n", "2"));
    // A higher limit is another chance.
    stage.settles().await;
    stage.set(&[("max-failures", "3")]).await;
    stage.becomes("failure-count", "3").await;
    assert_eq!(stage.read("ran"), "x\nx\nx\n");
}

async fn a_plan_is_applied_once_and_again_after_a_start(stage: &Stage) {
    let heart = Heart::start();
    let log = stage.at("ran").display().to_string();
    let plan =
        json!({"instructions": [sh("i", &format!("echo x >> {log}"))], "probes": heart.probes()}).to_string();
    stage.create(&[("plan", &plan)]).await;
    let mut agent = stage.start();
    stage.becomes("success-count", "1").await;
    // Neither its own report nor a write of others has another resource version that counts.
    stage.settles().await;
    stage.annotate("1").await;
    heart.beats().await;
    assert_eq!(stage.read("ran"), "x\n");
    agent.kill();
    let _agent = stage.start();
    stage.becomes("success-count", "2").await;
    heart.beats().await;
    assert_eq!(stage.read("ran"), "x\nx\n");
}

async fn a_blanked_checksum_is_another_reason_to_apply(stage: &Stage) {
    let log = stage.at("ran").display().to_string();
    let plan = plan(&json!([sh("i", &format!("echo x >> {log}"))]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.becomes("success-count", "1").await;
    stage.settles().await;
    stage.set(&[("applied-checksum", "")]).await;
    stage.becomes("success-count", "2").await;
    stage.is_applied(&plan).await;
    assert_eq!(stage.read("ran"), "x\nx\n");
}

async fn a_secret_with_another_uid_is_a_new_one(stage: &Stage) {
    let log = stage.at("ran").display().to_string();
    let plan = plan(&json!([sh("i", &format!("echo x >> {log}"))]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    stage.is_applied(&plan).await;
    stage.settles().await;
    stage.delete().await;
    // As a restored backup: the checksum says that it was applied.
    stage.create(&[("plan", &plan), ("applied-checksum", &sum(&plan))]).await;
    stage.becomes("success-count", "1").await;
    assert_eq!(stage.read("ran"), "x\nx\n");
}

async fn a_lost_plan_and_one_that_is_none_change_nothing(stage: &Stage) {
    let log = stage.at("ran").display().to_string();
    let plan = plan(&json!([sh("i", &format!("echo x >> {log}"))]));
    stage.create(&[("plan", &plan)]).await;
    let mut agent = stage.start();
    stage.is_applied(&plan).await;
    stage.settles().await;
    stage.remove("plan").await;
    stage.settles().await;
    stage.set(&[("plan", "{\"instructions\":")]).await;
    stage.settles().await;
    assert_eq!(stage.texts(["applied-checksum", "success-count"]).await, [sum(&plan), "1".to_owned()]);
    let other = format!("{plan} ");
    stage.set(&[("plan", &other)]).await;
    stage.is_applied(&other).await;
    assert_eq!(stage.read("ran"), "x\nx\n", "the checksum is that of the bytes");
    assert!(!agent.has_ended());
}

async fn a_killed_command_has_failed(stage: &Stage) {
    let plan = plan(&json!([sh("i", &stage.waits("i"))]));
    stage.create(&[("plan", &plan)]).await;
    let _agent = stage.start();
    kill(&stage.begun("i").await);
    stage.becomes("failure-count", "1").await;
    assert_eq!(stage.texts(["failed-checksum", "applied-checksum"]).await, [sum(&plan), String::new()]);
}

async fn a_command_that_does_not_exist_has_failed(stage: &Stage) {
    let missing = plan(&json!([{"name": "i", "command": "/does/not/exist"}]));
    stage.create(&[("plan", &missing)]).await;
    let _agent = stage.start();
    stage.becomes("failed-checksum", &sum(&missing)).await;
    stage.settles().await;
    // Without a command it is `run.sh` in the execution folder, which is empty.
    let none = plan(&json!([{"name": "i"}]));
    stage.set(&[("plan", &none)]).await;
    stage.becomes("failed-checksum", &sum(&none)).await;
}
