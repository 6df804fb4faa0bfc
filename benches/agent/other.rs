//! rancher/system-agent with an applied plan, configured as Rancher would.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use capstan_testkit::eventually;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::rest::{Rest, Watched, at_rest};
use crate::stage::{DEADLINE, NAMESPACE, Stage, core};

const SECRET: &str = "other-plan";

/// Dropping it kills it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn at_rest_on(stage: &Stage, kubeconfig: &Path) -> Rest {
    let binary = PathBuf::from(std::env::var_os("CAPSTAN_SYSTEM_AGENT").expect("CAPSTAN_SYSTEM_AGENT"));
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, content: Value| {
        fs::write(at(name), content.to_string()).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    let file = json!({"path": at("motd"), "content": ByteString(b"at rest".to_vec()), "permissions": "0644"});
    let plan = json!({"files": [file]}).to_string();
    let secret = json!({
        "metadata": {"name": SECRET}, "type": "rancher.io/machine-plan",
        "data": {"plan": ByteString(plan.into_bytes())},
    });
    stage.make(&core("secrets"), secret).await;
    let connection = json!({
        "kubeConfig": fs::read_to_string(kubeconfig).unwrap(), "namespace": NAMESPACE, "secretName": SECRET,
    });
    write("connection.json", connection);
    write(
        "config.json",
        json!({
            "workDirectory": at("work"), "appliedPlanDirectory": at("applied"), "remoteEnabled": true,
            "connectionInfoFile": at("connection.json"),
        }),
    );
    let log = fs::File::create(at("log")).unwrap();
    let agent = Command::new(&binary)
        .arg("sentinel")
        .env("CATTLE_AGENT_CONFIG", at("config.json"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let agent = Running(agent);
    let applied = eventually(DEADLINE, "system-agent to carry out its plan", async || {
        let secret = stage.ask("GET", &core(&format!("secrets/{SECRET}")), Value::Null).await;
        secret["data"]["applied-checksum"].as_str().context("nothing was applied")?;
        ensure!(at("motd").exists(), "the file is missing");
        Ok(())
    })
    .await;
    assert!(applied.is_ok(), "{applied:?}\n{}", fs::read_to_string(at("log")).unwrap_or_default());
    at_rest(stage, &Watched { id: agent.0.id(), binary: &binary }).await
}
