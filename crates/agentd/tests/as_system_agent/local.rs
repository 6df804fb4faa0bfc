//! Plans in a folder, the configuration file, and the border to enrolled machines.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

use crate::stage::{Agent, eventually, plan, sh, spawn, sum, text_of, write};

const PROGRAM: &str = env!("CARGO_BIN_EXE_capstan-agent");

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        fs::create_dir_all(folder.at("plans/sub")).unwrap();
        let config = format!(
            "workDirectory: {}\nlocalEnabled: true\nlocalPlanDirectory: {}\n",
            folder.at("work").display(),
            folder.at("plans").display()
        );
        write(&folder.at("config.yaml"), &config);
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn start(&self) -> Agent {
        spawn(Path::new(PROGRAM), self.0.path(), &self.at("config.yaml"))
    }

    fn position(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_default()
    }

    async fn is_applied(&self, position: &str, plan: &str) {
        eventually(position, async || {
            (self.position(position)["appliedChecksum"] == sum(plan)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn plans_of_a_folder_are_applied_in_order_and_their_positions_kept() {
    let folder = Folder::new();
    let log = folder.at("log-of-plans").display().to_string();
    let says = |word: &str| {
        plan(&json!([sh("i", &format!("echo {word} $CATTLE_AGENT_ATTEMPT_NUMBER >> {log}; echo {word}"))]))
    };
    write(&folder.at("plans/b.plan"), &says("b"));
    write(&folder.at("plans/a.plan"), &says("a"));
    write(&folder.at("plans/sub/c.plan"), &says("c"));
    write(&folder.at("plans/d.plan"), &says("d"));
    write(&folder.at("plans/d.plan.skip"), "");
    write(&folder.at("plans/.e.plan"), &says("e"));
    write(&folder.at("plans/f.txt"), &says("f"));
    write(&folder.at("plans/g.plan"), "{");
    write(&folder.at("plans/h.plan"), &says("h"));
    fs::set_permissions(folder.at("plans/h.plan"), fs::Permissions::from_mode(0o666)).unwrap();
    let mut agent = folder.start();
    folder.is_applied("plans/sub/c.pos", &says("c")).await;
    assert_eq!(folder.read("log-of-plans"), "a 0\nb 0\nc 0\n");
    let position = folder.position("plans/a.pos");
    let output: Value = {
        use base64::Engine as _;
        let packed = base64::prelude::BASE64_STANDARD.decode(position["output"].as_str().unwrap()).unwrap();
        capstan_sentinel::output::unpack(&packed)
    };
    assert_eq!(text_of(&output["i"]), "a\n");
    let mode = fs::metadata(folder.at("plans/a.pos")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another process leaves what is applied alone, and sees what has changed.
    agent.kill();
    write(&folder.at("plans/b.plan"), &says("changed"));
    let _agent = folder.start();
    folder.is_applied("plans/b.pos", &says("changed")).await;
    assert_eq!(folder.read("log-of-plans"), "a 0\nb 0\nc 0\nchanged 0\n");
}

#[tokio::test]
async fn a_failed_plan_of_a_folder_is_tried_again() {
    let folder = Folder::new();
    let flag = folder.at("flag").display().to_string();
    let plan = plan(&json!([sh("i", &format!("echo $CATTLE_AGENT_ATTEMPT_NUMBER; test -e {flag}"))]));
    write(&folder.at("plans/a.plan"), &plan);
    let mut agent = folder.start();
    eventually("failure", async || {
        (folder.position("plans/a.pos")["failedChecksum"] == sum(&plan)).then_some(())
    })
    .await;
    assert_eq!(folder.position("plans/a.pos").get("appliedChecksum"), None);
    agent.kill();
    write(&folder.at("flag"), "");
    let mut position = folder.position("plans/a.pos");
    position["lastApplyTime"] = json!("Thu Nov 19 12:00:00 UTC 2020");
    write(&folder.at("plans/a.pos"), &position.to_string());
    let _agent = folder.start();
    folder.is_applied("plans/a.pos", &plan).await;
}

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).env_remove("CATTLE_AGENT_CONFIG").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_enrolled_machine_has_no_sentinel() {
    let folder = Folder::new();
    let root = folder.0.path().to_str().unwrap();
    let config = folder.at("config.yaml");
    for sign in ["etc/capstan/agent.json", "var/lib/capstan/journal"] {
        let sign = folder.at(sign);
        fs::create_dir_all(sign.parent().unwrap()).unwrap();
        fs::write(&sign, "").unwrap();
        let output = run(&["--root", root, "sentinel", "--config", config.to_str().unwrap()]);
        assert!(!output.status.success());
        let said = said(&output);
        assert!(
            said.contains("is enrolled") && said.contains("signed plans only") && said.contains("reset"),
            "{said}"
        );
        fs::remove_file(sign).unwrap();
    }
    // There is not even a default configuration.
    let output = run(&["--root", root, "sentinel"]);
    assert!(!output.status.success() && said(&output).contains("--config"), "{}", said(&output));
}

#[tokio::test]
async fn a_machine_that_is_enrolled_meanwhile_has_no_sentinel_any_more() {
    let folder = Folder::new();
    let root = TempDir::new().unwrap();
    fs::create_dir_all(root.path().join("etc/capstan")).unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["--root", root.path().to_str().unwrap(), "sentinel"])
        .env("CATTLE_AGENT_CONFIG", folder.at("config.yaml"))
        .spawn()
        .unwrap();
    assert!(child.try_wait().unwrap().is_none());
    fs::write(root.path().join("etc/capstan/agent.json"), "{}").unwrap();
    let status = eventually("end", async || child.try_wait().unwrap()).await;
    assert!(!status.success());
}

/// The command that runs goes on; what it has begun may need its end.
#[tokio::test]
async fn a_machine_that_is_enrolled_during_a_plan_runs_no_other_instruction() {
    let folder = Folder::new();
    let root = TempDir::new().unwrap();
    let plans = root.path().join(folder.at("plans").strip_prefix("/").unwrap());
    fs::create_dir_all(root.path().join("etc/capstan")).unwrap();
    fs::create_dir_all(&plans).unwrap();
    let at = |name: &str| folder.at(name).display().to_string();
    let first = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; touch {}",
        at("begun"),
        at("go"),
        at("first")
    );
    let instructions = json!([sh("first", &first), sh("second", &format!("touch {}", at("second")))]);
    write(&plans.join("a.plan"), &plan(&instructions));
    let mut child = Command::new(PROGRAM)
        .args(["--root", root.path().to_str().unwrap(), "sentinel"])
        .env("CATTLE_AGENT_CONFIG", folder.at("config.yaml"))
        .spawn()
        .unwrap();
    eventually("first instruction", async || folder.at("begun").exists().then_some(())).await;
    fs::write(root.path().join("etc/capstan/agent.json"), "{}").unwrap();
    let status = eventually("end", async || child.try_wait().unwrap()).await;
    assert!(!status.success());
    write(&folder.at("go"), "");
    eventually("end of the command", async || folder.at("first").exists().then_some(())).await;
    assert!(!folder.at("second").exists());
}

#[test]
fn files_are_validated() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let file = |name: &str, content: &str| {
        write(Path::new(&at(name)), content);
        at(name)
    };
    let good = file("good.yaml", "localEnabled: true\nlocalPlanDirectory: /plans\n");
    let info = file("info.json", r#"{"kubeConfig": "k", "namespace": "n", "secretName": "s"}"#);
    assert!(run(&["validate-config", &good]).status.success());
    assert!(run(&["validate-connection", &info]).status.success());
    let readable = file("readable.yaml", "localEnabled: true\nlocalPlanDirectory: /plans\n");
    fs::set_permissions(&readable, fs::Permissions::from_mode(0o644)).unwrap();
    for (command, file, message) in [
        ("validate-config", at("missing.yaml"), "missing.yaml"),
        ("validate-config", file("neither.yaml", "{}"), "localEnabled"),
        ("validate-config", file("config.txt", "{}"), ".json or .yaml"),
        ("validate-config", readable, "0600"),
        ("validate-connection", file("error.json", "Internal error occurred"), "error.json"),
        ("validate-connection", file("name.json", r#"{"kubeConfig": "k", "namespace": "n"}"#), "secretName"),
    ] {
        let output = run(&[command, &file]);
        assert!(!output.status.success() && said(&output).contains(message), "{file}: {}", said(&output));
    }
}
