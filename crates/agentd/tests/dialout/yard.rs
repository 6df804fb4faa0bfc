//! A plane with controllers, and machines that dial out to it.

use capstan_api::conditions::{Conditioned, get};
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostRegistration};
use capstan_apiserver::{ApiServer, Options, Storage, Tls, User};
use capstan_controller::owners;
use capstan_infrastructure::host_token::{HostToken, INSTRUCTION_KEY, INSTRUCTION_KEY_TYPE, PRIVATE};
use capstan_infrastructure::{Drivers, HostKind, Infrastructure, controllers};
use capstan_plan::host_join::{JoinKey, JoinToken};
use capstan_plan::{SecretText, SigningKey};
use capstan_ssh::{RegisteredDriver, Settings};
use capstan_testkit::{eventually, install_crds};
use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::connect_proxy;

pub(crate) const DEADLINE: Duration = Duration::from_secs(90);
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const NAMESPACE: &str = "default";

/// Every kind of the plane.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// A plane and one machine, which is a folder.
pub(crate) struct Yard {
    server: Arc<ApiServer>,
    ca: String,
    address: String,
    pub(crate) bound: SocketAddr,
    key: SigningKey,
    machine: TempDir,
    _controllers: JoinSet<()>,
}

/// The agent as a process. Dropping it kills it.
pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Whether it has ended by itself, with success.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some_and(|status| status.success())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Yard {
    pub(crate) async fn start() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), connect_proxy::NAME.to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls = Tls { certificate: certificate.pem(), key: key.serialize_pem(), client_ca: None };
        let bound = server.serve(listener, &tls).unwrap();

        let machine = tempfile::tempdir().unwrap();
        for folder in ["etc", "opt", "run", "usr/local/bin", "usr/bin", "var/lib"] {
            std::fs::create_dir_all(machine.path().join(folder)).unwrap();
        }
        let client = Client::new(server.service(User::admin()), NAMESPACE);
        install_crds(&client, &capstan_api::crd::all()).await.unwrap();
        let settings = Settings {
            root: machine.path().to_str().unwrap().to_owned(),
            command: Duration::from_secs(20),
            ..Settings::default()
        };
        let driver = RegisteredDriver::with(client.clone(), settings);
        let drivers = Drivers::none().with(HostKind::Registered, Arc::new(driver));
        let infrastructure = Infrastructure::new(client, drivers);
        let never = futures::future::pending::<()>().shared();
        let mut running = JoinSet::new();
        for controller in controllers(&infrastructure, &never) {
            running.spawn(controller);
        }
        let yard = Self {
            server,
            ca: authority.pem(),
            address: format!("https://{bound}"),
            bound,
            key: SigningKey::generate().unwrap(),
            machine,
            _controllers: running,
        };
        yard.furnish().await;
        yard
    }

    /// The key for instructions, and a Cluster `c` whose infrastructure is provisioned.
    async fn furnish(&self) {
        let mut secret = Secret {
            type_: Some(INSTRUCTION_KEY_TYPE.to_owned()),
            data: Some([(PRIVATE.to_owned(), k8s_openapi::ByteString(self.key.to_pkcs8().unwrap()))].into()),
            ..Secret::default()
        };
        secret.metadata.name = Some(INSTRUCTION_KEY.to_owned());
        self.put(&secret).await;
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
        let cluster: Cluster = self
            .create(
                "c",
                json!({}),
                json!({
                    "infrastructureRef": reference(GROUP, "HostCluster"),
                    "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "CapstanControlPlane"),
                    "controlPlaneEndpoint": {"host": "api.example", "port": 6443},
                }),
            )
            .await;
        let owned = json!({"ownerReferences": [owners::plain(&cluster)]});
        self.create::<HostCluster>("c", owned, json!({})).await;
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        let patch = kube::api::Patch::Merge(status);
        self.api::<Cluster>().patch_status("c", &Default::default(), &patch).await.unwrap();
    }

    pub(crate) fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(Client::new(self.server.service(User::admin()), NAMESPACE), NAMESPACE)
    }

    async fn put<K: Kind>(&self, object: &K) -> K {
        self.api::<K>().create(&PostParams::default(), object).await.unwrap()
    }

    pub(crate) async fn create<K: Kind>(&self, name: &str, mut metadata: Value, spec: Value) -> K {
        metadata["name"] = json!(name);
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec});
        self.put(&serde_json::from_value(object).unwrap()).await
    }

    /// A join token for machines of this plane, with all its objects.
    pub(crate) async fn token(&self, name: &str, uses: u32, approve: &str) -> JoinToken {
        let now = Timestamp::now();
        self.token_until(name, uses, approve, now + SignedDuration::from_hours(1)).await
    }

    /// A join token for machines that reach the plane under another address, and are approved at once.
    pub(crate) async fn named_token(&self, name: &str, server: &str) -> JoinToken {
        JoinToken { server: server.to_owned(), ..self.token(name, 3, "always").await }
    }

    pub(crate) async fn token_until(
        &self,
        name: &str,
        uses: u32,
        approve: &str,
        expires: Timestamp,
    ) -> JoinToken {
        let token = HostToken {
            name: name.to_owned(),
            key: JoinKey::new(rand::random()),
            expires,
            uses,
            labels: [("site".to_owned(), "a".to_owned())].into(),
            failure_domain: None,
            approval: approve.parse().unwrap(),
        };
        let secret = self.put(&token.secret()).await;
        let rights = token.rights(NAMESPACE, &secret);
        let account: ServiceAccount = self.put(&rights.account).await;
        self.put::<Role>(&rights.role).await;
        self.put::<RoleBinding>(&rights.binding).await;
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(Vec::new()),
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts = self.api::<ServiceAccount>();
        let made = accounts.create_token_request(&account.name_any(), &PostParams::default(), &request).await;
        JoinToken {
            server: self.address.clone(),
            ca: self.ca.clone(),
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            key: token.key,
            bearer: SecretText::new(made.unwrap().status.unwrap().token.unwrap()),
            instruction_key: self.key.public(),
        }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.machine.path().join(path.trim_start_matches('/'))
    }

    fn agent(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan-agent"));
        command.arg("--root").arg(self.machine.path());
        // The environment leads nowhere: the agent does not use it.
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            command.env(name, "http://127.0.0.1:9");
        }
        command
    }

    /// Registers the machine with a token from standard input.
    pub(crate) fn register(&self, token: &str, more: &[&str]) -> Output {
        let mut child = self
            .agent()
            .args(["register", "--no-service"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The name of the registration of the machine, from its file.
    pub(crate) fn registration(&self) -> String {
        let file = std::fs::read(self.at("/etc/capstan-host/registration.json")).unwrap();
        serde_json::from_slice::<Value>(&file).unwrap()["name"].as_str().unwrap().to_owned()
    }

    pub(crate) fn dial(&self) -> Agent {
        Agent(self.agent().arg("dial").stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn unregister(&self) -> Output {
        self.agent().arg("unregister").output().unwrap()
    }

    /// A Machine and its HostMachine, which claims the host of the token.
    pub(crate) async fn machine(&self, name: &str, data: &str) {
        let data = json!({"value": data, "format": "cloud-config"});
        let secret = json!({"metadata": {"name": "data"}, "stringData": data});
        self.put::<Secret>(&serde_json::from_value(secret).unwrap()).await;
        let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let reference = json!({"apiGroup": GROUP, "kind": "HostMachine", "name": name});
        let spec = json!({
            "clusterName": "c", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": reference});
        let machine: Machine = self.create(name, labels.clone(), spec).await;
        let mut metadata = labels;
        metadata["ownerReferences"] = json!([owners::controller(&machine)]);
        let selector = json!({"hostSelector": {"matchLabels": {"site": "a"}}});
        self.create::<HostMachine>(name, metadata, selector).await;
    }

    /// Waits until the condition has this reason, and gives its message.
    pub(crate) async fn says<K: Kind + Conditioned>(
        &self,
        name: &str,
        condition: &str,
        reason: &str,
    ) -> String {
        eventually(DEADLINE, &format!("{condition} of {name} to say {reason}"), async || {
            let found = self.api::<K>().get(name).await?;
            match get(&found, condition).map(|said| (said.reason.clone(), said.message.clone())) {
                Some((found, message)) if found == reason => Ok(message),
                other => anyhow::bail!("{other:?}"),
            }
        })
        .await
        .unwrap()
    }

    /// The Host that has the machine of a registration.
    pub(crate) async fn host_of(&self, registration: &str) -> Host {
        eventually(DEADLINE, "the Host of the machine", async || {
            let found = self.api::<HostRegistration>().get(registration).await?;
            let host = found.spec.host.ok_or_else(|| anyhow::anyhow!("{:?}", found.status))?;
            Ok(self.api::<Host>().get(&host).await?)
        })
        .await
        .unwrap()
    }

    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        eventually(DEADLINE, what, async || {
            anyhow::ensure!(holds().await);
            Ok(())
        })
        .await
        .unwrap();
    }
}
