//! A Secret with a plan, a folder for files, and a program that is configured for both.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capstan_plan::Digest;
use capstan_testkit::{eventually, spawn_from_lasting_thread, tied_to_this_process};
use capstan_tests::{Caller, Credential, Place};
use flate2::read::GzDecoder;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Program;

/// Upstream waits a minute after some errors.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);

/// Name of the Secret, of the account of the program, and of its rights.
const NAME: &str = "machine-plan";

/// A time of last application that is long ago.
pub(crate) const LONG_AGO: &str = "Thu Nov 19 12:00:00 UTC 2020";

pub(crate) struct Stage {
    program: Program,
    admin: Caller,
    namespace: String,
    folder: TempDir,
}

/// The program as a process. Dropping it kills it.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the program said:\n{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

impl Stage {
    /// A namespace and a folder for this case, and the rights that Rancher gives: this one Secret, and no patch.
    pub(crate) async fn new(place: &Place, program: Program, case: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name: String = case.replace('_', "-").chars().take(40).collect();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{}-{number}", name.trim_end_matches('-'));
        let admin = place.admin().await.unwrap();
        let stage = Self { program, admin, namespace, folder: TempDir::new().unwrap() };
        let rule = json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME],
            "verbs": ["get", "list", "watch", "update"],
        });
        let group = "rbac.authorization.k8s.io";
        let subject = json!({"kind": "ServiceAccount", "name": NAME, "namespace": stage.namespace});
        let role = json!({"apiGroup": group, "kind": "Role", "name": NAME});
        let metadata = json!({"name": NAME});
        let rbac = format!("/apis/{group}/v1/namespaces/{}", stage.namespace);
        let core = format!("/api/v1/namespaces/{}", stage.namespace);
        stage.ask("POST", "/api/v1/namespaces", json!({"metadata": {"name": stage.namespace}})).await;
        stage.ask("POST", &format!("{core}/serviceaccounts"), json!({"metadata": metadata})).await;
        stage.ask("POST", &format!("{rbac}/roles"), json!({"metadata": metadata, "rules": [rule]})).await;
        let binding = json!({"metadata": metadata, "subjects": [subject], "roleRef": role});
        stage.ask("POST", &format!("{rbac}/rolebindings"), binding).await;
        let token =
            stage.ask("POST", &format!("{core}/serviceaccounts/{NAME}/token"), json!({"spec": {}})).await;
        let token = token["status"]["token"].as_str().unwrap().to_owned();
        let connection = json!({
            "kubeConfig": place.kubeconfig(&Credential::Token(&token)), "namespace": stage.namespace, "secretName": NAME,
        });
        write(&stage.at("connection.json"), &connection.to_string());
        stage.configure(&json!({"remoteEnabled": true, "connectionInfoFile": stage.at("connection.json")}));
        stage
    }

    /// Writes the configuration: folders, and these fields.
    pub(crate) fn configure(&self, fields: &Value) {
        let mut config =
            json!({"workDirectory": self.at("work"), "appliedPlanDirectory": self.at("applied")});
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        write(&self.at("config.json"), &config.to_string());
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.admin.ask(method, path, &body).await.unwrap();
        assert!((200..300).contains(&answer.code), "{method} {path}: {answer:?}");
        answer.body
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{NAME}", self.collection())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file; empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Starts the program.
    pub(crate) fn start(&self) -> Agent {
        let log = self.at("log");
        let out = fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut command = tied_to_this_process(&self.program.path);
        command
            .arg("sentinel")
            .env("CATTLE_AGENT_CONFIG", self.at("config.json"))
            .env("INHERITED", "yes")
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        for proxy in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
            command.env_remove(proxy);
        }
        Agent { child: spawn_from_lasting_thread(command).unwrap(), log }
    }

    /// Creates the Secret, as an orchestrator does. Passes are one second apart.
    pub(crate) async fn create(&self, data: &[(&str, &str)]) {
        let metadata = json!({"name": NAME, "labels": {"of": "others"}, "annotations": {"of": "others"}});
        let data = [data, &[("probe-period-seconds", "1")]].concat();
        let secret =
            json!({"metadata": metadata, "type": "rke.cattle.io/machine-plan", "data": encoded(&data)});
        self.ask("POST", &self.collection(), secret).await;
    }

    /// Changes keys of the Secret with one write.
    pub(crate) async fn set(&self, data: &[(&str, &str)]) {
        self.ask("PATCH", &self.path(), json!({"data": encoded(data)})).await;
    }

    pub(crate) async fn remove(&self, key: &str) {
        self.ask("PATCH", &self.path(), json!({"data": {key: null}})).await;
    }

    pub(crate) async fn annotate(&self, value: &str) {
        self.ask("PATCH", &self.path(), json!({"metadata": {"annotations": {"noise": value}}})).await;
    }

    pub(crate) async fn delete(&self) {
        self.ask("DELETE", &self.path(), Value::Null).await;
    }

    pub(crate) async fn object(&self) -> Value {
        self.ask("GET", &self.path(), Value::Null).await
    }

    /// The value of a key; empty if there is none.
    pub(crate) async fn text(&self, key: &str) -> String {
        String::from_utf8(bytes(&self.object().await["data"][key])).unwrap()
    }

    pub(crate) async fn texts<const N: usize>(&self, keys: [&str; N]) -> [String; N] {
        let object = self.object().await;
        keys.map(|key| String::from_utf8(bytes(&object["data"][key])).unwrap())
    }

    /// Recorded output as JSON.
    pub(crate) async fn output(&self, key: &str) -> Value {
        unpacked(&bytes(&self.object().await["data"][key]))
    }

    /// Output of an instruction that was saved.
    pub(crate) async fn printed(&self, key: &str, name: &str) -> String {
        text_of(&self.output(key).await[name])
    }

    /// Waits until a key has this value.
    pub(crate) async fn becomes(&self, key: &str, value: &str) {
        let what = format!("{key} {value}");
        let becomes = eventually(DEADLINE, &what, async || {
            let object = self.object().await;
            let found = String::from_utf8(bytes(&object["data"][key]))?;
            ensure!(found == value, "{key} is {found:?}");
            Ok(())
        });
        becomes.await.unwrap();
    }

    pub(crate) async fn is_applied(&self, plan: &str) {
        self.becomes("applied-checksum", &sum(plan)).await;
    }

    /// Waits until the program does not write any more: upstream does not survive a write at the same time.
    pub(crate) async fn settles(&self) {
        let mut before = (String::new(), 0);
        let settled = eventually(DEADLINE, "a Secret that nothing writes", async || {
            let version = self.object().await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            before = if version == before.0 { (version, before.1 + 1) } else { (version, 0) };
            ensure!(before.1 >= 6, "version {}", before.0);
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        });
        settled.await.unwrap();
    }

    /// A script that says that it runs, and waits until it may end.
    pub(crate) fn waits(&self, name: &str) -> String {
        let (begun, go) = (self.at(&format!("{name}.begun")), self.at(&format!("{name}.go")));
        format!(
            "echo $$ >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done",
            begun.display(),
            go.display()
        )
    }

    /// Lets that script end.
    pub(crate) fn go(&self, name: &str) {
        fs::write(self.at(&format!("{name}.go")), "").unwrap();
    }

    /// Waits until that script runs, and returns its process ID.
    pub(crate) async fn begun(&self, name: &str) -> String {
        let what = format!("a running {name}");
        let begun = eventually(DEADLINE, &what, async || {
            let pids = self.read(&format!("{name}.begun"));
            pids.strip_suffix('\n').map(str::to_owned).context("it does not run")
        });
        begun.await.unwrap()
    }
}

/// Writes a private file.
pub(crate) fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
}

/// The bytes of a value in base64; none for null.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    serde_json::from_value::<ByteString>(value.clone()).map(|bytes| bytes.0).unwrap_or_default()
}

pub(crate) fn text_of(value: &Value) -> String {
    String::from_utf8(bytes(value)).unwrap()
}

/// JSON that was compressed; null for nothing.
pub(crate) fn unpacked(packed: &[u8]) -> Value {
    let mut json = String::new();
    if !packed.is_empty() {
        GzDecoder::new(packed).read_to_string(&mut json).unwrap();
    }
    serde_json::from_str(&json).unwrap_or_default()
}

/// The checksum of a plan.
pub(crate) fn sum(plan: &str) -> String {
    Digest::of(plan.as_bytes()).to_string()
}

pub(crate) fn base64(content: &str) -> Value {
    json!(ByteString(content.as_bytes().to_vec()))
}

fn encoded(data: &[(&str, &str)]) -> Value {
    data.iter().map(|(key, value)| ((*key).to_owned(), base64(value))).collect()
}

/// An instruction with saved output.
pub(crate) fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "command": "sh", "args": ["-c", script], "saveOutput": true})
}

/// A plan with these instructions.
pub(crate) fn plan(instructions: &Value) -> String {
    json!({"instructions": instructions}).to_string()
}
