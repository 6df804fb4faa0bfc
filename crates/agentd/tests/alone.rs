//! The program on a machine whose management plane is gone, and whose credential is gone with it.

#![cfg(test)]

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::real::Linux;
use capstan_agent::store::DiskStore;
use capstan_agent::{Advance, Engine, Journal, SystemClock};
use capstan_plan::{
    Action, Argv, Check, Epoch, File, MachineIdentity, MachinePlan, Mode, OpenGates, Retry, Revision,
    SigningKey, Step, Target, TrustedKeys,
};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn file(name: &str, path: &str) -> Step {
    let (owner, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let file = File {
        path: path.parse().expect("a path"),
        content: "x".into(),
        mode: Mode::READABLE,
        owner,
        group,
        secret: false,
    };
    Step::new(name.parse().expect("a name"), Action::File(file))
}

/// A plan that writes a file, waits for another one, and writes a third.
fn plan(machine: &MachineIdentity, awaited: &Path) -> MachinePlan {
    let expires = "2100-01-01T00:00:00Z".parse().expect("a time");
    let mut plan =
        MachinePlan::new(machine.clone(), Revision::new(1).expect("a revision"), Epoch(1), expires);
    let target =
        Target::Exec(Argv::new(["test".into(), "-e".into(), awaited.display().to_string()]).expect("words"));
    let check = Step::new("ready".parse().expect("a name"), Action::Check(Check { target }));
    let check = Step { retry: Some(Retry::every(1, 1000)), ..check };
    plan.steps = vec![file("first", "/first"), check, file("last", "/last")];
    plan
}

#[tokio::test]
async fn an_agent_that_boots_without_its_plane_goes_on_with_its_plan() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    let key = SigningKey::from_seed(&[1; 32]);
    let machine = MachineIdentity {
        name: "web-0".parse().expect("a name"),
        machine_id: "0123".parse().expect("an ID"),
    };
    let config = json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": "https://127.0.0.1:1",
        "caData": "UEVN", "namespace": "default", "machine": "web-0", "machineID": "0123", "plane": "a", "epoch": 1,
        "planPublicKey": BASE64_STANDARD.encode(key.public().as_bytes()),
    });
    fs::create_dir_all(root.join("etc/capstan")).expect("a folder");
    fs::write(root.join("etc/capstan/agent.json"), config.to_string()).expect("written");

    // As far as it came before the machine was switched off.
    let signed = plan(&machine, &root.join("go")).seal().expect("a plan").sign(&key);
    let keys: TrustedKeys = [key.public()].into_iter().collect();
    let verified = signed.verify(&keys, &machine).expect("our plan");
    let store = DiskStore::open(root.join("var/lib/capstan")).await.expect("a store");
    let journal = Journal::open(store).await.expect("a journal");
    let mut engine = Engine::new(Linux::rooted(root).expect("a machine"), journal, SystemClock);
    engine.remember(&signed.to_secret_data()).await;
    let gates = OpenGates::none(verified.id());
    while !matches!(engine.advance(&verified, &gates, &mut |_| ()).await, Ok(Advance::Wait(_))) {}
    drop(engine);
    assert!(root.join("first").exists() && !root.join("last").exists());
    // What it has done is taken away meanwhile.
    fs::remove_file(root.join("first")).expect("removed");

    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan-agent"));
    command.arg("--root").arg(root).arg("run").stderr(Stdio::null());
    let mut agent = Agent(command.spawn().expect("started"));
    eventually("the file that was taken away", || root.join("first").exists());
    fs::write(root.join("go"), "").expect("written");
    eventually("the rest of the plan", || root.join("last").exists());
    assert!(agent.0.try_wait().expect("known").is_none(), "it waits for its plane, and does not end");
}
