//! A stage for one machine: a plane, the objects of the machine as the bootstrap provider makes them, and the hands of
//! that provider and of the planner, played by the test.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_api::access::{self, MACHINE_ACCOUNTS};
use capstan_pki::machine_token::TokenQuery;
use capstan_plan::{
    Epoch, MachineIdentity, MachinePlan, OpenGates, PlanId, Revision, SealedPlan, SigningKey, Step,
};
use capstan_testkit::eventually;
use capstan_tests::{Caller, Credential, Place, agent_binary};
use k8s_openapi::ByteString;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
pub(crate) const NAMESPACE: &str = "yard";
pub(crate) const MACHINE: &str = "web-0";
pub(crate) const MACHINE_ID: &str = "life-1";
const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) fn core(path: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{path}")
}

pub(crate) fn group(group: &str, version: &str, path: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/{NAMESPACE}/{path}")
}

pub(crate) fn reports(path: &str) -> String {
    group("agent.capstan.dev", "v1alpha1", &format!("machinereports{path}"))
}

pub(crate) fn leases(path: &str) -> String {
    group("coordination.k8s.io", "v1", &format!("leases{path}"))
}

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The account of a machine that has enrolled.
pub(crate) fn account(machine: &str) -> String {
    format!("{machine}.agent{MACHINE_ACCOUNTS}")
}

/// The account of a machine that enrols.
pub(crate) fn enrolling(machine: &str) -> String {
    format!("{machine}.enrol{MACHINE_ACCOUNTS}")
}

/// A machine on a plane.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) admin: Caller,
    /// Stands for `/` on the machine.
    pub(crate) root: TempDir,
    pub(crate) key: SigningKey,
    machine: String,
    machine_id: String,
    server: String,
    ca: String,
}

impl Stage {
    /// Makes everything that a machine has before its agent starts, and another machine beside it.
    pub(crate) async fn new(kubeconfig: &Path) -> Self {
        let place = Place::of(kubeconfig).unwrap();
        let admin = place.admin().await.unwrap();
        let config: Value = serde_saphyr::from_str(&fs::read_to_string(kubeconfig).unwrap()).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        let text = |field: &str| cluster[field].as_str().unwrap().to_owned();
        let (server, ca) = (text("server"), text("certificate-authority-data"));
        let key = SigningKey::from_seed(&[5; 32]);
        let root = tempfile::tempdir().unwrap();
        let (machine, machine_id) = (MACHINE.to_owned(), MACHINE_ID.to_owned());
        let stage = Self { place, admin, root, key, machine, machine_id, server, ca };
        stage.make("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await;
        stage.objects(MACHINE, MACHINE_ID).await;
        stage.objects("web-1", "life-9").await;
        let other = json!({"metadata": {"name": "web-1-plan"}, "stringData": {"plan": "not yours"}});
        stage.make(&core("secrets"), other).await;
        stage
    }

    /// The same plane with new certificates: the administrator has another one, too.
    pub(crate) async fn meet_again(&mut self, kubeconfig: &Path) {
        self.place = Place::of(kubeconfig).unwrap();
        self.admin = self.place.admin().await.unwrap();
    }

    /// Another machine on the same plane, with its objects.
    pub(crate) async fn another(&self, machine: &str, machine_id: &str) -> Self {
        self.objects(machine, machine_id).await;
        Self {
            place: self.place.clone(),
            admin: self.admin.clone(),
            root: tempfile::tempdir().unwrap(),
            key: SigningKey::from_seed(&[5; 32]),
            machine: machine.to_owned(),
            machine_id: machine_id.to_owned(),
            server: self.server.clone(),
            ca: self.ca.clone(),
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.admin.ask(method, path, &body).await.unwrap();
        assert!((200..300).contains(&answer.code), "{method} {path}: {answer:?}");
        answer.body
    }

    pub(crate) async fn make(&self, collection: &str, object: Value) -> Value {
        self.ask("POST", collection, object).await
    }

    /// What the bootstrap provider makes for a machine.
    pub(crate) async fn objects(&self, name: &str, machine_id: &str) {
        let (plan, agent, enrol) = (format!("{name}-plan"), format!("{name}-agent"), format!("{name}-enrol"));
        let rbac = |path: &str| group(RBAC, "v1", path);
        let binding = |role: &str, account: &str| {
            let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE});
            let role_ref = json!({"apiGroup": RBAC, "kind": "Role", "name": role});
            json!({"metadata": {"name": role}, "roleRef": role_ref, "subjects": [subject]})
        };
        for account in [account(name), enrolling(name)] {
            let account = json!({"metadata": {"name": account}, "automountServiceAccountToken": false});
            self.make(&core("serviceaccounts"), account).await;
        }
        let report = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": name},
            "spec": {"machineName": name, "machineID": machine_id},
        });
        self.make(&reports(""), report).await;
        self.make(&leases(""), json!({"metadata": {"name": agent}, "spec": {}})).await;
        self.make(
            &rbac("roles"),
            json!({"metadata": {"name": enrol}, "rules": access::enrolling_machine(name)}),
        )
        .await;
        self.make(&rbac("rolebindings"), binding(&enrol, &enrolling(name))).await;
        let rules = access::machine(name, &plan, &agent);
        self.make(&rbac("roles"), json!({"metadata": {"name": agent}, "rules": rules})).await;
        self.make(&rbac("rolebindings"), binding(&agent, &account(name))).await;
    }

    /// Writes `agent.json` with a token of the account that ends with the enrolment.
    pub(crate) async fn start_machine(&self) -> String {
        let (token, _) = self.token(&enrolling(&self.machine), 3600).await;
        self.write_config(Some(&token));
        token
    }

    /// A token of an account, and until when it is valid.
    pub(crate) async fn token(&self, account: &str, seconds: i64) -> (String, String) {
        let wanted = json!({"spec": {"expirationSeconds": seconds}});
        let answer = self.make(&core(&format!("serviceaccounts/{account}/token")), wanted).await;
        let text = |field: &str| answer["status"][field].as_str().unwrap().to_owned();
        (text("token"), text("expirationTimestamp"))
    }

    pub(crate) fn write_config(&self, token: Option<&str>) {
        let mut config = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": self.server,
            "caData": self.ca, "namespace": NAMESPACE, "machine": self.machine, "machineID": self.machine_id,
            "planPublicKey": ByteString(self.key.public().as_bytes().to_vec()),
        });
        if let Some(token) = token {
            config["token"] = token.into();
        }
        let path = self.at("/etc/capstan/agent.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, config.to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Where a file of the machine is.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    /// Answers what the machine asks for, as the bootstrap provider does.
    pub(crate) async fn answer(&self) -> Result<()> {
        self.answer_since(SignedDuration::ZERO).await
    }

    /// The same, with a token that was issued so long ago, as far as the machine is told.
    pub(crate) async fn answer_since(&self, age: SignedDuration) -> Result<()> {
        let report = self.report().await;
        let request = &report["status"]["credentialRequest"];
        let text = |field: &str| request[field].as_str().context("it has not asked");
        let (token, expires) = self.token(&account(&self.machine), 600).await;
        let query = TokenQuery {
            machine_id: &self.machine_id,
            public_key: text("publicKey")?,
            nonce: text("nonce")?,
        };
        let issued = Timestamp::now().checked_sub(age)?;
        let credential = json!({
            "sealedToken": query.seal(&token)?, "account": "any", "issuedAt": issued, "expiresAt": expires,
        });
        self.ask(
            "PATCH",
            &reports(&format!("/{}", self.machine)),
            json!({"spec": {"credential": credential}}),
        )
        .await;
        Ok(())
    }

    /// The machine's own credential, in the hands of a thief.
    pub(crate) async fn machine(&self) -> Caller {
        let credential: Value = serde_json::from_str(&self.read("/etc/capstan/agent.credential")).unwrap();
        self.place.with(Credential::Token(credential["token"].as_str().unwrap())).await.unwrap()
    }

    /// Runs the agent to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        let mut agent = self.spawn(args);
        agent.ended().await
    }

    /// Starts the agent.
    pub(crate) fn spawn(&self, args: &[&str]) -> Agent {
        let child = Command::new(agent_binary().unwrap())
            .arg("--root")
            .arg(self.root.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Agent { child: Some(child) }
    }

    pub(crate) fn sealed(&self, revision: u64, steps: Vec<Step>) -> SealedPlan {
        let machine = MachineIdentity {
            name: self.machine.parse().unwrap(),
            machine_id: self.machine_id.parse().unwrap(),
        };
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        let expires = now.checked_add(SignedDuration::from_hours(1)).unwrap();
        let mut plan = MachinePlan::new(machine, Revision::new(revision).unwrap(), Epoch(1), expires);
        plan.steps = steps;
        plan.seal().unwrap()
    }

    /// Writes a plan, and which of its gates are open.
    pub(crate) async fn plan(&self, plan: &SealedPlan, open: &[&str]) -> PlanId {
        let mut data = plan.sign(&self.key).to_secret_data();
        let gates = OpenGates::new(plan.id(), open.iter().map(|gate| gate.parse().unwrap()));
        if !open.is_empty() {
            data.extend(gates.seal(&self.key).to_secret_data());
        }
        self.write_plan(data.into_iter().map(|(key, value)| (key, json!(ByteString(value)))).collect()).await;
        plan.id()
    }

    pub(crate) async fn write_plan(&self, data: Value) {
        let name = format!("{}-plan", self.machine);
        let path = core(&format!("secrets/{name}"));
        let found = self.admin.ask("GET", &path, &Value::Null).await.unwrap();
        let mut object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        if found.code == 404 {
            self.make(&core("secrets"), object).await;
        } else {
            object["metadata"]["resourceVersion"] = found.body["metadata"]["resourceVersion"].clone();
            self.ask("PUT", &path, object).await;
        }
    }

    pub(crate) async fn report(&self) -> Value {
        self.ask("GET", &reports(&format!("/{}", self.machine)), Value::Null).await
    }

    /// Waits until the report says this of that plan.
    pub(crate) async fn says(&self, plan: PlanId, phase: &str) -> Value {
        eventually(DEADLINE, &format!("{phase} of {plan}"), async || {
            let report = self.report().await;
            let status = &report["status"];
            let digest = status["plan"]["digest"].as_str().unwrap_or_default();
            let revision = status["plan"]["revision"].as_i64().unwrap_or_default();
            ensure!(plan.is_named_by(digest, revision) && status["phase"] == phase, "{status:#}");
            Ok(status.clone())
        })
        .await
        .unwrap()
    }
}

/// The agent as a process. Dropping it kills it.
pub(crate) struct Agent {
    child: Option<Child>,
}

impl Agent {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map(Child::id).unwrap_or_default()
    }

    /// How many bytes of memory it takes up.
    pub(crate) fn memory(&self) -> u64 {
        let id = self.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        kib.unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Kills it as the kernel would when memory runs out.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends it as systemd does when its service is stopped.
    pub(crate) async fn stop(&mut self) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.succeeds().await;
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Output {
        let child = self.child.take().expect("it has not ended yet");
        let waited = tokio::task::spawn_blocking(move || child.wait_with_output());
        tokio::time::timeout(DEADLINE, waited).await.expect("it ends in time").unwrap().unwrap()
    }

    pub(crate) async fn succeeds(&mut self) -> String {
        let output = self.ended().await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {err}", output.status);
        out.into_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            if let Ok(output) = child.wait_with_output()
                && std::thread::panicking()
            {
                eprintln!("the agent said:\n{}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}
