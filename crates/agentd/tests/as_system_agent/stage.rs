//! An embedded plane with a Secret, and a program that applies the plan in it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_apiserver::{ApiServer, Authority, InProcess, Options, Storage, Tls, User};
use capstan_plan::Digest;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tower_service::Service as _;

use super::connect_proxy;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "fleet";
const NAME: &str = "machine-plan";
const USER: &str = "sentinel";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/fleet";

/// A program that applies plans: this one, or rancher/system-agent itself.
pub(crate) struct Program {
    path: PathBuf,
    /// Whether it is upstream's, which has some known mistakes.
    pub(crate) is_upstream: bool,
    /// The minor version of the contract that it has.
    pub(crate) contract: u32,
}

impl Program {
    pub(crate) fn ours() -> Self {
        Self { path: env!("CARGO_BIN_EXE_capstan-agent").into(), is_upstream: false, contract: 15 }
    }

    /// All that are there. `CAPSTAN_SYSTEM_AGENT` is the path of rancher/system-agent, and
    /// `CAPSTAN_SYSTEM_AGENT_CONTRACT` its minor version, if it is not the one that `tools` builds.
    pub(crate) fn all() -> Vec<Self> {
        let upstream = std::env::var_os("CAPSTAN_SYSTEM_AGENT");
        let contract =
            std::env::var("CAPSTAN_SYSTEM_AGENT_CONTRACT").map_or(15, |minor| minor.parse().unwrap());
        let upstream = upstream.map(|path| Self { path: path.into(), is_upstream: true, contract });
        std::iter::once(Self::ours()).chain(upstream).collect()
    }
}

/// A plane, a folder, and a program that is configured for both.
pub(crate) struct Stage {
    pub(crate) program: Program,
    pub(crate) folder: TempDir,
    pub(crate) bound: SocketAddr,
    server: Arc<ApiServer>,
    admin: InProcess,
}

/// Waits until something is so.
pub(crate) async fn eventually<T>(what: &str, mut is: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = is().await {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "there is no {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts the program with this configuration.
pub(crate) fn spawn(program: &Path, folder: &Path, config: &Path) -> Agent {
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let child = Command::new(program)
        .arg("sentinel")
        .env("CATTLE_AGENT_CONFIG", config)
        .env("INHERITED", "yes")
        // It leads nowhere: the agent itself does not use it.
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Agent { child, log: folder.join("log") }
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

/// Writes a private file.
pub(crate) fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

impl Stage {
    pub(crate) async fn new(program: Program) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let (key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let names = vec!["127.0.0.1".to_owned(), connect_proxy::NAME.to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, USER);
        let client = params.signed_by(&client_key, &authority).unwrap();
        let mut options = Options::new(Storage::Memory);
        options.client_authority =
            Some(Authority { certificate: authority.pem(), key: authority.key().serialize_pem() });
        let server = ApiServer::open(options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls = Tls {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            client_ca: Some(authority.pem()),
        };
        let bound = server.serve(listener, &tls).unwrap();
        let admin = server.service(User::admin());
        let stage = Self { program, folder: TempDir::new().unwrap(), bound, server, admin };
        stage.rights().await;
        let base64 = |pem: String| BASE64_STANDARD.encode(pem);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{bound}"), "certificate-authority-data": base64(authority.pem()),
            }}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": base64(client.pem()), "client-key-data": base64(client_key.serialize_pem()),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let connection =
            json!({"kubeConfig": kubeconfig.to_string(), "namespace": NAMESPACE, "secretName": NAME});
        write(&stage.at("connection.json"), &connection.to_string());
        let config = json!({
            "workDirectory": stage.at("work"), "appliedPlanDirectory": stage.at("applied"), "remoteEnabled": true,
            "connectionInfoFile": stage.at("connection.json"),
        });
        write(&stage.at("config.json"), &config.to_string());
        stage
    }

    /// The rights that Rancher gives: not more than this one Secret, and no patch.
    async fn rights(&self) {
        let rule = json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME],
            "verbs": ["get", "list", "watch", "update"],
        });
        let group = "rbac.authorization.k8s.io";
        let subject = json!({"apiGroup": group, "kind": "User", "name": USER});
        let role = json!({"apiGroup": group, "kind": "Role", "name": USER});
        let binding = json!({"metadata": {"name": USER}, "subjects": [subject], "roleRef": role});
        self.ask("POST", "/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await;
        self.ask("POST", &format!("{RBAC}/roles"), json!({"metadata": {"name": USER}, "rules": [rule]}))
            .await;
        self.ask("POST", &format!("{RBAC}/rolebindings"), binding).await;
    }

    async fn try_to_ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, media)
            .body(Full::new(bytes::Bytes::from(bytes)))
            .unwrap();
        let answer = self.admin.clone().call(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.try_to_ask(method, path, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Changes a configuration file.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut content = serde_json::from_str(&self.read(name)).unwrap();
        change(&mut content);
        write(&self.at(name), &content.to_string());
    }

    pub(crate) fn start(&self) -> Agent {
        spawn(&self.program.path, self.folder.path(), &self.at("config.json"))
    }

    fn collection() -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/secrets")
    }

    fn path() -> String {
        format!("{}/{NAME}", Self::collection())
    }

    /// Creates the Secret.
    pub(crate) async fn create(&self, data: &[(&str, &str)]) {
        let metadata =
            json!({"name": NAME, "labels": {"of": "others"}, "annotations": {"rke.cattle.io/x": "y"}});
        let secret =
            json!({"metadata": metadata, "type": "rke.cattle.io/machine-plan", "data": encoded(data)});
        self.ask("POST", &Self::collection(), secret).await;
    }

    /// Changes keys of the Secret.
    pub(crate) async fn set(&self, data: &[(&str, &str)]) {
        self.ask("PATCH", &Self::path(), json!({"data": encoded(data)})).await;
    }

    /// Removes keys of the Secret.
    pub(crate) async fn remove(&self, keys: &[&str]) {
        let data: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        self.ask("PATCH", &Self::path(), json!({"data": data})).await;
    }

    pub(crate) async fn annotate(&self, value: &str) {
        self.ask("PATCH", &Self::path(), json!({"metadata": {"annotations": {"noise": value}}})).await;
    }

    pub(crate) async fn delete(&self) {
        self.ask("DELETE", &Self::path(), Value::Null).await;
    }

    pub(crate) async fn object(&self) -> Value {
        self.ask("GET", &Self::path(), Value::Null).await
    }

    /// The value of a key as bytes.
    pub(crate) async fn bytes(&self, key: &str) -> Vec<u8> {
        let (_, object) = self.try_to_ask("GET", &Self::path(), Value::Null).await;
        BASE64_STANDARD.decode(object["data"][key].as_str().unwrap_or_default()).unwrap()
    }

    pub(crate) async fn text(&self, key: &str) -> String {
        String::from_utf8(self.bytes(key).await).unwrap()
    }

    pub(crate) async fn texts<const N: usize>(&self, keys: [&str; N]) -> [String; N] {
        let object = self.object().await;
        keys.map(|key| {
            let value = BASE64_STANDARD.decode(object["data"][key].as_str().unwrap_or_default()).unwrap();
            String::from_utf8(value).unwrap()
        })
    }

    /// Recorded output as JSON.
    pub(crate) async fn output(&self, key: &str) -> Value {
        capstan_sentinel::output::unpack(&self.bytes(key).await)
    }

    /// Output of an instruction that was saved.
    pub(crate) async fn printed(&self, key: &str, name: &str) -> String {
        text_of(&self.output(key).await[name])
    }

    pub(crate) async fn becomes(&self, key: &str, value: &str) {
        let what = format!("{key} {value}");
        eventually(&what, async || (self.text(key).await == value).then_some(())).await;
    }

    pub(crate) async fn is_applied(&self, plan: &str) {
        self.becomes("applied-checksum", &sum(plan)).await;
    }

    pub(crate) async fn has_failed(&self, plan: &str) {
        self.becomes("failed-checksum", &sum(plan)).await;
    }

    pub(crate) async fn ends(self) {
        self.server.shutdown().await;
    }
}

pub(crate) fn text_of(base64: &Value) -> String {
    String::from_utf8(BASE64_STANDARD.decode(base64.as_str().unwrap_or_default()).unwrap()).unwrap()
}

pub(crate) fn sum(plan: &str) -> String {
    Digest::of(plan.as_bytes()).to_string()
}

fn encoded(data: &[(&str, &str)]) -> Value {
    data.iter().map(|(key, value)| ((*key).to_owned(), json!(BASE64_STANDARD.encode(value)))).collect()
}

/// A file of the user that runs the tests.
pub(crate) fn file(path: &Path, content: &str) -> Value {
    json!({"path": path, "content": BASE64_STANDARD.encode(content), "uid": -1, "gid": -1})
}

/// An instruction with saved output.
pub(crate) fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "command": "sh", "args": ["-c", script], "saveOutput": true})
}

pub(crate) fn plan(instructions: &Value) -> String {
    json!({"instructions": instructions}).to_string()
}
