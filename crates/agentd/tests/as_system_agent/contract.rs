//! What rancher/system-agent does, and every program that takes its place. Each behaviour runs against this program, and
//! against rancher/system-agent itself if `CAPSTAN_SYSTEM_AGENT` is its path.

use serde_json::{Value, json};
use std::fs;

use crate::stage::{Program, Stage, eventually, file, plan, sh, sum, text_of};

/// Runs a behaviour for each program whose contract has it.
async fn since(contract: u32, behaviour: impl AsyncFn(&Stage)) {
    for program in Program::all().into_iter().filter(|program| program.contract >= contract) {
        let stage = Stage::new(program).await;
        behaviour(&stage).await;
        stage.ends().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_applied_and_reported() {
    since(3, async |stage| {
        let show = "echo $GIVEN $INHERITED $CATTLE_AGENT_ATTEMPT_NUMBER; pwd; echo $CATTLE_AGENT_EXECUTION_PWD";
        let mut first = sh("first", show);
        first["env"] = json!(["GIVEN=a"]);
        let plan = json!({
            "files": [file(&stage.at("etc/deep/file"), "content")],
            "instructions": [first, sh("second", "true")],
            "periodicInstructions": [
                {"name": "p", "command": "sh", "args": ["-c", "echo out; echo err >&2"], "saveStderrOutput": true},
            ],
        })
        .to_string();
        stage.create(&[("plan", &plan), ("appliedPlan", "of others")]).await;
        let _agent = stage.start();
        stage.is_applied(&plan).await;
        assert_eq!(stage.read("etc/deep/file"), "content");
        let keys = ["success-count", "failure-count", "failed-checksum", "failed-output", "probe-statuses", "appliedPlan"];
        assert_eq!(stage.texts(keys).await, ["1", "0", "", "", "{}", "of others"].map(str::to_owned));
        let printed = stage.printed("applied-output", "first").await;
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], "a yes 1");
        assert!(lines[1].ends_with(&format!("/{}_0", sum(&plan))) && lines[1] == lines[2], "{lines:?}");
        assert_eq!(stage.printed("applied-output", "second").await, "");
        let periodic = stage.output("applied-periodic-output").await["p"].clone();
        assert_eq!((text_of(&periodic["stdout"]), text_of(&periodic["stderr"])), ("out\n".into(), "err\n".into()));
        assert_eq!((&periodic["name"], &periodic["exitCode"], &periodic["failures"]), (&json!("p"), &json!(0), &json!(0)));
        let time = stage.text("last-apply-time").await;
        assert!(capstan_sentinel::time::parse(&time).is_some(), "{time}");
        let object = stage.object().await;
        let metadata = &object["metadata"];
        assert_eq!((&metadata["labels"]["of"], &metadata["annotations"]["rke.cattle.io/x"]), (&json!("others"), &json!("y")));
        assert_eq!(object["type"], "rke.cattle.io/machine-plan");
        let history = fs::read_dir(stage.at("applied")).unwrap().count();
        assert_eq!(history, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_up_to_the_limit() {
    since(3, async |stage| {
        let bad = plan(&json!([sh("bad", "echo evidence; exit 3"), sh("never", "true")]));
        stage.create(&[("plan", &bad), ("max-failures", "2")]).await;
        let _agent = stage.start();
        stage.has_failed(&bad).await;
        let keys = ["failure-count", "success-count", "applied-checksum"];
        assert_eq!(stage.texts(keys).await, ["1", "0", ""].map(str::to_owned));
        let saved = stage.output("failed-output").await;
        assert_eq!((text_of(&saved["bad"]), saved.get("never")), ("evidence\n".to_owned(), None));
        // The pause is over sooner if the last attempt was earlier.
        stage.set(&[("last-apply-time", "Thu Nov 19 12:00:00 UTC 2020")]).await;
        stage.becomes("failure-count", "2").await;
        stage.set(&[("last-apply-time", "Thu Nov 19 12:00:00 UTC 2020")]).await;
        // Another plan begins at once.
        let good = plan(&json!([sh("good", &format!("echo x >> {}", stage.at("good").display()))]));
        stage.set(&[("plan", &good)]).await;
        stage.is_applied(&good).await;
        let keys = ["failure-count", "success-count", "failed-checksum", "failed-output"];
        assert_eq!(stage.texts(keys).await, ["0", "1", "", ""].map(str::to_owned));
        assert_eq!(stage.read("good"), "x\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_state_a_plan_is_applied_again_after_a_restart() {
    since(3, async |stage| {
        let log = stage.at("ran");
        let plan = plan(&json!([sh("i", &format!("echo x >> {}", log.display()))]));
        stage.create(&[("plan", &plan)]).await;
        let mut agent = stage.start();
        stage.becomes("success-count", "1").await;
        agent.kill();
        let _agent = stage.start();
        stage.becomes("success-count", "2").await;
        assert_eq!(stage.read("ran"), "x\nx\n");
        // Nothing else is a reason to run it: neither a write of others nor the own report.
        stage.annotate("1").await;
        stage.set(&[("probe-period-seconds", "1"), ("applied-output", "")]).await;
        let other = format!("{plan} ");
        stage.set(&[("plan", &other)]).await;
        stage.is_applied(&other).await;
        assert_eq!(stage.read("ran"), "x\nx\nx\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_decides_alone() {
    since(15, async |stage| {
        let log = stage.at("ran").display().to_string();
        let good = plan(&json!([sh("i", &format!("echo $CATTLE_AGENT_ATTEMPT_NUMBER >> {log}"))]));
        stage.create(&[("plan", &good), ("plan-state", "succeeded")]).await;
        let mut agent = stage.start();
        stage.set(&[("plan-state", "pending"), ("failure-count", "7"), ("max-failures", "1")]).await;
        stage.becomes("plan-state", "succeeded").await;
        assert_eq!(stage.texts(["plan-revision", "applied-checksum"]).await, ["1".to_owned(), sum(&good)]);
        agent.kill();
        let _agent = stage.start();
        // Not after a restart, but each time it is asked for.
        stage.set(&[("plan-state", "pending")]).await;
        stage.becomes("plan-revision", "2").await;
        stage.becomes("plan-state", "succeeded").await;
        assert_eq!(stage.read("ran"), "1\n1\n");
        stage.set(&[("plan-state", "in-progress")]).await;
        stage.becomes("plan-state", "succeeded").await;
        assert_eq!(
            (stage.read("ran").as_str(), stage.text("plan-revision").await.as_str()),
            ("1\n1\n1\n", "2")
        );

        let bad = plan(&json!([sh("bad", "echo evidence; exit 1")]));
        stage.set(&[("plan", &bad), ("plan-state", "pending")]).await;
        stage.becomes("plan-state", "failed").await;
        assert_eq!(stage.text("plan-revision").await, "3");
        if !stage.program.is_upstream {
            // Upstream erases all of this with its next look at the Secret.
            stage.annotate("look").await;
            stage.set(&[("probe-period-seconds", "1")]).await;
            let keys = ["failed-checksum", "failure-count", "applied-checksum"];
            assert_eq!(stage.texts(keys).await, [sum(&bad), "1".to_owned(), sum(&good)]);
            assert_eq!(stage.printed("failed-output", "bad").await, "evidence\n");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_was_created_again_is_a_new_one() {
    since(15, async |stage| {
        let log = stage.at("ran").display().to_string();
        let plan = plan(&json!([sh("i", &format!("echo x >> {log}"))]));
        stage.create(&[("plan", &plan)]).await;
        let _agent = stage.start();
        stage.is_applied(&plan).await;
        stage.delete().await;
        stage.create(&[("plan", &plan), ("applied-checksum", &sum(&plan))]).await;
        stage.becomes("success-count", "1").await;
        assert_eq!(stage.read("ran"), "x\nx\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_reported_with_the_plan_and_after_it() {
    since(3, async |stage| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .await;
            }
        });
        let probe = |url: &str| json!({"timeoutSeconds": 30, "successThreshold": 2, "httpGet": {"url": url}});
        let plan = json!({"probes": {"up": probe(&url), "down": probe("http://127.0.0.1:1/")}}).to_string();
        stage.create(&[("plan", &plan), ("probe-period-seconds", "1")]).await;
        let _agent = stage.start();
        stage.is_applied(&plan).await;
        let status = async || serde_json::from_str::<Value>(&stage.text("probe-statuses").await).unwrap();
        assert!(status().await.get("up").is_some(), "the first round comes with the checksum");
        let expected = json!({"up": {"healthy": true, "successCount": 2}, "down": {"failureCount": 3}});
        eventually("final status", async || (status().await == expected).then_some(())).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn periodic_instructions_run_again_after_their_period() {
    since(3, async |stage| {
        let log = stage.at("ran").display().to_string();
        let script = format!("echo x >> {log}; echo $CATTLE_AGENT_ATTEMPT_NUMBER");
        let plan = json!({"periodicInstructions": [
            {"name": "p", "command": "sh", "args": ["-c", script], "periodSeconds": 1},
        ]})
        .to_string();
        stage.create(&[("plan", &plan), ("probe-period-seconds", "1")]).await;
        let _agent = stage.start();
        stage.is_applied(&plan).await;
        eventually("third run", async || (stage.read("ran").len() >= 6).then_some(())).await;
        assert_eq!(text_of(&stage.output("applied-periodic-output").await["p"]["stdout"]), "1\n");
    })
    .await;
}
