//! The agent as a machine has it: the real binary on a folder that stands for `/`, against the embedded plane and
//! against a real API server. The machine is trusted with nothing, and proves it.

#![cfg(test)]

mod hostile;
#[allow(dead_code, reason = "other suites and benchmarks use more of it")]
mod stage;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use capstan_plan::{
    Action, Argv, Artifact, Check, Command, Digest, EnvVar, File, Gate, Mode, Repeat, Source, Step, Target,
};
use capstan_testkit::{RealPlane, eventually, install_crds};
use capstan_tests::{Embedded, capstan};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};
use stage::{DEADLINE, MACHINE, Stage, leases, reports};

fn step(name: &str, action: Action) -> Step {
    Step::new(name.parse().unwrap(), action)
}

fn run(name: &str, script: &str) -> Step {
    let argv = Argv::new(["sh", "-c", script]).unwrap();
    step(name, Action::Command(Command::new(argv)))
}

fn file(name: &str, path: &str, content: &str) -> Step {
    let (path, mode) = (path.parse().unwrap(), Mode::READABLE);
    step(name, Action::File(File { path, content: content.into(), mode, owner: 0, group: 0, secret: false }))
}

/// A machine on a plane that knows our kinds.
async fn stage(kubeconfig: &Path) -> Stage {
    let config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    Stage::new(kubeconfig).await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_real_plane() {
    let plane = RealPlane::start().await.unwrap();
    plane.apply_yaml(&policies()).await.unwrap();
    everything(plane.kubeconfig()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_plane() {
    let plane = Embedded::start().await.unwrap();
    everything(&plane.kubeconfig()).await;
}

/// The admission policies of the bootstrap provider, from its release.
fn policies() -> String {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().to_str().unwrap();
    capstan(&["release", "--version", "v0.1.0", "--out", repository]).unwrap();
    let manifests = folder.path().join("bootstrap-capstan/v0.1.0/bootstrap-components.yaml");
    let manifests = fs::read_to_string(manifests).unwrap();
    let is_policy = |text: &&str| text.contains("\nkind: ValidatingAdmissionPolicy");
    let policies: Vec<&str> = manifests.split("\n---\n").filter(is_policy).collect();
    assert_eq!(policies.len(), 2, "{manifests}");
    policies.join("\n---\n")
}

async fn everything(kubeconfig: &Path) {
    let stage = stage(kubeconfig).await;
    enrols(&stage).await;
    works(&stage).await;
    hostile::with_the_credential(&stage).await;
    survives(&stage).await;
    reports_its_problems(&stage).await;
    explains_and_resets(&stage).await;
}

fn mode(stage: &Stage, path: &str) -> u32 {
    fs::metadata(stage.at(path)).unwrap().permissions().mode() & 0o777
}

async fn enrols(stage: &Stage) {
    let token = stage.start_machine().await;
    hostile::with_the_token(stage, &token).await;
    // Killed before there is an answer, as often as you like: it asks with the same key and the same request.
    let request = || async {
        let report = stage.report().await;
        report["status"].get("credentialRequest").map(Value::to_string)
    };
    let mut first = stage.spawn(&["enroll", "--no-service"]);
    let asked = eventually(DEADLINE, "a request", async || request().await.context("none")).await.unwrap();
    first.kill();
    for pause in [0, 5, 20, 60, 150] {
        let mut again = stage.spawn(&["enroll", "--no-service"]);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        again.kill();
    }
    let mut last = stage.spawn(&["enroll", "--no-service"]);
    stage.answer().await.unwrap();
    last.succeeds().await;
    assert_eq!(request().await, Some(asked), "another key or another request was made on the way");
    let enrolling = stage::core(&format!("serviceaccounts/{}", stage::enrolling(MACHINE)));
    stage.ask("DELETE", &enrolling, Value::Null).await;

    for path in ["/etc/capstan/agent.key", "/etc/capstan/agent.credential", "/etc/capstan/agent.json"] {
        assert_eq!(mode(stage, path), 0o600, "{path}");
    }
    let config = stage.read("/etc/capstan/agent.json");
    assert!(!config.contains("token") && !config.contains(&token), "the token has done its work");
    // Once more, without a token: there is nothing to do.
    stage.spawn(&["enroll", "--no-service"]).succeeds().await;
}

async fn works(stage: &Stage) {
    let agent = stage.spawn(&["run"]);
    let bundle = stage.at("/srv/tool");
    fs::create_dir_all(bundle.parent().unwrap()).unwrap();
    fs::write(&bundle, "a tool").unwrap();
    let artifact = Artifact {
        sha256: Digest::of(b"a tool"),
        size: 6,
        sources: vec![Source::new("file:///srv/tool".parse().unwrap())],
        path: "/opt/tool".parse().unwrap(),
        unpack: None,
        mode: Mode::EXECUTABLE,
        owner: 0,
        group: 0,
    };
    let mut loud = run("loud", "echo $SECRET; head -c 300000 /dev/zero | tr '\\0' x; echo done >&2");
    let Action::Command(command) = &mut loud.action else { panic!("a command") };
    command.env.push(EnvVar::secret("SECRET", "hunter2"));
    let plan = stage.sealed(
        1,
        vec![
            file("config", "/etc/app/config", "a=1"),
            step("tool", Action::Artifact(artifact)),
            loud,
            step("true", Action::Check(Check { target: Target::Exec(Argv::new(["true"]).unwrap()) })),
            step("go", Action::Gate(Gate {})),
            file("late", "/etc/app/late", "x"),
        ],
    );
    let id = stage.plan(&plan, &[]).await;
    let waits = stage.says(id, "Waiting").await;
    assert_eq!(waits["step"], json!({"name": "go", "index": 5, "total": 6}));
    assert!(waits["facts"]["kernelVersion"].is_string(), "{waits:#}");
    assert_eq!(stage.read("/etc/app/config"), "a=1");
    assert_eq!(stage.read("/opt/tool"), "a tool");
    assert!(!stage.at("/etc/app/late").exists());
    stage.plan(&plan, &["go"]).await;
    let applied = stage.says(id, "Applied").await;
    assert_eq!(stage.read("/etc/app/late"), "x");
    let items = applied["ledger"]["items"].as_array().expect("what the agent has put on the machine");
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    for path in ["/etc/app/config", "/opt/tool", "/etc/app/late"] {
        assert!(texts.iter().any(|text| text.contains(path)), "{path}: {texts:?}");
    }

    // A step that fails is told with its code and both ends of what it printed, and no secret is.
    let mut failing =
        run("fails", "echo $SECRET out; head -c 300000 /dev/zero | tr '\\0' x; echo end >&2; exit 7");
    let Action::Command(command) = &mut failing.action else { panic!("a command") };
    command.env.push(EnvVar::secret("SECRET", "hunter2"));
    let id = stage.plan(&stage.sealed(2, vec![file("config", "/etc/app/config", "a=2"), failing]), &[]).await;
    let failed = stage.says(id, "Failed").await;
    assert_eq!(failed["step"]["exitCode"], 7);
    assert_eq!(failed["applied"]["revision"], 1);
    let stdout = &failed["output"]["stdout"];
    assert!(stdout["head"].as_str().unwrap().starts_with("[redacted] out\nxxx"), "{stdout}");
    assert!(stdout["omittedBytes"].as_u64().unwrap() > 200_000, "{stdout}");
    assert_eq!(failed["output"]["stderr"]["head"], "end\n");
    assert!(!failed.to_string().contains("hunter2"));
    assert!(!stage.at("/etc/app/late").exists(), "what left the plan left the machine");

    // What must not be obeyed is refused and told, and nothing is touched.
    let old = stage.sealed(1, vec![file("evil", "/evil", "x")]);
    let plan = stage.plan(&old, &[]).await;
    let refused = stage.says(plan, "Refused").await;
    assert!(refused["message"].as_str().unwrap().contains("knows revision 2"), "{refused:#}");
    let stranger = capstan_plan::SigningKey::generate().unwrap();
    let forged = stage.sealed(3, vec![file("evil", "/evil", "x")]);
    let data = forged.sign(&stranger).to_secret_data();
    let data = data.into_iter().map(|(key, value)| (key, json!(k8s_openapi::ByteString(value)))).collect();
    stage.write_plan(data).await;
    let refused = stage.says(forged.id(), "Refused").await;
    assert!(refused["message"].as_str().unwrap().contains("does not trust"), "{refused:#}");
    assert!(!stage.at("/evil").exists());

    writes_only_its_lease(stage).await;
    let memory = agent.memory();
    eprintln!("resident memory of the idle agent: {:.1} MB", memory as f64 / 1e6);
    // The one for tests has debugging aids in it; only of the one that is shipped is anything promised.
    if std::env::var_os("CAPSTAN_AGENT_BINARY").is_some() {
        assert!(memory <= 12 * 1024 * 1024, "{memory}");
    }
}

/// An idle agent writes its sign of life and nothing else.
async fn writes_only_its_lease(stage: &Stage) {
    let version = |object: Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let report = version(stage.report().await);
    let lease = || async { stage.ask("GET", &leases(&format!("/{MACHINE}-agent")), Value::Null).await };
    let renewed = lease().await["spec"]["renewTime"].clone();
    assert!(renewed.is_string());
    eventually(DEADLINE, "the next sign of life", async || {
        ensure!(lease().await["spec"]["renewTime"] != renewed);
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(version(stage.report().await), report, "{:#}", stage.report().await);
}

/// Killed in the middle of a plan, and told to stop, it goes on. The command that runs meanwhile is not run again.
async fn survives(stage: &Stage) {
    let (count, begun, go) = (stage.at("/count"), stage.at("/begun"), stage.at("/go"));
    let once = Step { repeat: Repeat::Once, ..run("once", &format!("echo once >> {}", count.display())) };
    let script = format!(
        "echo begun >> {}; while [ ! -e {} ]; do sleep 0.1; echo noise; done",
        begun.display(),
        go.display()
    );
    let plan = stage.sealed(4, vec![once, run("slow", &script), file("end", "/etc/app/end", "x")]);
    let mut agent = stage.spawn(&["run"]);
    let id = stage.plan(&plan, &[]).await;
    eventually(DEADLINE, "the slow step to begin", async || {
        ensure!(begun.exists());
        Ok(())
    })
    .await
    .unwrap();
    agent.kill();
    let explained = explain(stage).await;
    assert_eq!(explained["running"][0]["command"], "command of step slow", "{explained:#}");
    let text = String::from_utf8(stage.run(&["explain"]).await.stdout).unwrap();
    assert!(text.contains("runs         command of step slow since 2"), "{text}");

    let mut agent = stage.spawn(&["run"]);
    eventually(DEADLINE, "the next agent to be at the slow step", async || {
        let explained = explain(stage).await;
        ensure!(explained["daemon"]["said"]["step"]["name"] == "slow", "{explained:#}");
        Ok(())
    })
    .await
    .unwrap();
    let stopping = Instant::now();
    agent.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    assert_eq!(explain(stage).await["running"].as_array().map(Vec::len), Some(1));

    let _agent = stage.spawn(&["run"]);
    fs::write(&go, "").unwrap();
    let applied = stage.says(id, "Applied").await;
    assert_eq!(applied["applied"]["revision"], 4);
    assert_eq!(fs::read_to_string(&count).unwrap(), "once\n");
    assert_eq!(fs::read_to_string(&begun).unwrap(), "begun\n");
    assert_eq!(explain(stage).await["running"], json!([]));
    // Another agent on the same machine has to wait.
    let second = stage.run(&["reset", "--output", "json"]).await;
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another agent"));
}

/// Without its journal the agent can do nothing. Its report says why, and what it said before stays.
async fn reports_its_problems(stage: &Stage) {
    let journal = stage.at("/var/lib/capstan/journal");
    let whole = fs::read(&journal).unwrap();
    let before = stage.report().await["status"].clone();
    fs::write(&journal, [b"not a line\n", &whole[..]].concat()).unwrap();
    let mut agent = stage.spawn(&["run"]);
    let told = eventually(DEADLINE, "the problem to be told", async || {
        let status = stage.report().await["status"].clone();
        ensure!(status["problem"].is_string(), "{status:#}");
        Ok(status)
    })
    .await
    .unwrap();
    for field in ["plan", "phase", "applied", "ledger"] {
        assert!(!before[field].is_null() && told[field] == before[field], "{field}: {told:#}");
    }
    fs::write(&journal, whole).unwrap();
    eventually(DEADLINE, "the end of the problem to be told", async || {
        let status = stage.report().await["status"].clone();
        ensure!(status["problem"].is_null() && status["phase"] == "Applied", "{status:#}");
        Ok(())
    })
    .await
    .unwrap();
    agent.stop().await;
}

async fn explain(stage: &Stage) -> Value {
    let output = stage.run(&["explain", "-o", "json"]).await;
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn explains_and_resets(stage: &Stage) {
    let agent = stage.spawn(&["run"]);
    let explained = eventually(DEADLINE, "all to be well", async || {
        let explained = explain(stage).await;
        ensure!(explained["obstacles"] == json!([]), "{explained:#}");
        Ok(explained)
    })
    .await
    .unwrap();
    assert_eq!(explained["connection"], "ok");
    assert_eq!(explained["daemon"]["said"]["phase"], "Applied");
    assert_eq!(explained["journal"]["current"]["revision"], 4);
    let text = String::from_utf8(stage.run(&["explain"]).await.stdout).unwrap();
    assert!(text.contains("revision 4: Applied") && text.contains("waits for    nothing"), "{text}");
    drop(agent);

    // The Machine is deleted: its rights are gone, and it says so. Nobody is needed to take everything back.
    let role = stage::group("rbac.authorization.k8s.io", "v1", &format!("rolebindings/{MACHINE}-agent"));
    stage.ask("DELETE", &role, Value::Null).await;
    let explained = explain(stage).await;
    assert!(explained["obstacles"].to_string().contains("was the Machine deleted?"), "{explained:#}");
    stage.ask("DELETE", &reports(&format!("/{MACHINE}")), Value::Null).await;

    fs::create_dir_all(stage.at("/opt/capstan")).unwrap();
    fs::write(stage.at("/opt/capstan/capstan-agent"), "").unwrap();
    fs::write(stage.at("/etc/app/theirs"), "precious").unwrap();
    let reset = || async {
        let output = stage.run(&["reset", "--output", "json"]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(reset().await, json!({"clean": false, "left": ["/etc/app: /etc/app is not empty"]}));
    assert!(stage.at("/etc/capstan/agent.key").exists(), "until it is clean, it is still itself");
    fs::remove_file(stage.at("/etc/app/theirs")).unwrap();
    assert_eq!(reset().await, json!({"clean": true}));
    for gone in ["/etc/app", "/etc/capstan", "/var/lib/capstan", "/run/capstan", "/opt/capstan", "/opt/tool"]
    {
        assert!(!stage.at(gone).exists(), "{gone}");
    }
    assert_eq!(reset().await, json!({"clean": true}), "and again");
}

/// A credential is renewed when two thirds of its life are over, for the same key, and work goes on.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_renewed() {
    let plane = RealPlane::start().await.unwrap();
    let stage = stage(plane.kubeconfig()).await;
    stage.start_machine().await;
    let mut agent = stage.spawn(&["enroll", "--no-service"]);
    let request = |old: Option<Value>| {
        let stage = &stage;
        async move {
            eventually(DEADLINE, "a request", async || {
                let report = stage.report().await;
                let request = report["status"].get("credentialRequest").context("none")?.clone();
                ensure!(old.as_ref() != Some(&request), "the old one");
                Ok(request)
            })
            .await
            .unwrap()
        }
    };
    let first = request(None).await;
    stage.answer_since(SignedDuration::from_hours(1)).await.unwrap();
    agent.succeeds().await;
    let read = || stage.read("/etc/capstan/agent.credential");
    let (old, key) = (read(), stage.read("/etc/capstan/agent.key"));
    let _agent = stage.spawn(&["run"]);
    let second = request(Some(first.clone())).await;
    assert_eq!(second["publicKey"], first["publicKey"], "the key stays");
    assert_eq!(read(), old, "what lies in the report from before is no answer");
    stage.answer().await.unwrap();
    let begin = Instant::now();
    eventually(DEADLINE, "the new credential", async || {
        ensure!(read() != old, "after {:?}", begin.elapsed());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(stage.read("/etc/capstan/agent.key"), key, "the key stays");
    let id = stage.plan(&stage.sealed(1, vec![file("a", "/a", "x")]), &[]).await;
    stage.says(id, "Applied").await;
}

/// A machine whose account was deleted and made again gets another enrolment token of the same plane: it enrols again, with the
/// key it has. One whose credential works stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_enrols_again_only_if_it_must() {
    let plane = RealPlane::start().await.unwrap();
    let stage = stage(plane.kubeconfig()).await;
    stage.start_machine().await;
    let mut agent = stage.spawn(&["enroll", "--no-service"]);
    let asked = || async { stage.report().await["status"].get("credentialRequest").cloned() };
    let first = eventually(DEADLINE, "a request", async || asked().await.context("none")).await.unwrap();
    stage.answer().await.unwrap();
    agent.succeeds().await;
    let read = || stage.read("/etc/capstan/agent.credential");
    let old = read();

    // The token was not forgotten, as after a crash.
    stage.start_machine().await;
    stage.spawn(&["enroll", "--no-service"]).succeeds().await;
    assert_eq!((read(), asked().await), (old.clone(), Some(first.clone())), "it works, so it stays");

    let account = stage::account(MACHINE);
    stage.ask("DELETE", &stage::core(&format!("serviceaccounts/{account}")), Value::Null).await;
    stage.make(&stage::core("serviceaccounts"), json!({"metadata": {"name": account}})).await;
    let thief = stage.machine().await;
    eventually(DEADLINE, "the old token to be dead", async || {
        let answer = thief.ask("GET", "/api", &Value::Null).await?;
        ensure!(answer.code == 401, "{answer:?}");
        Ok(())
    })
    .await
    .unwrap();
    // As its bootstrap data does, if a person runs it again.
    stage.start_machine().await;
    let mut agent = stage.spawn(&["enroll", "--no-service"]);
    let second = eventually(DEADLINE, "another request", async || {
        asked().await.filter(|request| *request != first).context("the old one")
    });
    assert_eq!(second.await.unwrap()["publicKey"], first["publicKey"], "the key stays");
    stage.answer().await.unwrap();
    agent.succeeds().await;
    assert_ne!(read(), old);
    let plan = stage::core(&format!("secrets/{MACHINE}-plan"));
    let answer = stage.machine().await.ask("GET", &plan, &Value::Null).await.unwrap();
    assert_eq!(answer.code, 404, "it may read its plan, which does not exist: {answer:?}");
}
