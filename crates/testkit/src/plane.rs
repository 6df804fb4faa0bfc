//! A real management plane: etcd, kube-apiserver, and kube-controller-manager for garbage collection, namespace
//! deletion, aggregated roles and client certificates. It has no scheduler, no kubelet, and only the service accounts
//! that a test creates (their tokens are issued and checked). It runs what a manager of Cluster API needs, and nothing
//! that writes objects which the test did not create.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_tools::{Program, locate};
use serde_json::json;
use tempfile::TempDir;

use crate::kubectl::Ran;
use crate::pki::{Authority, IdentityFiles, signing_key, write};
use crate::process::{Crew, Launch, Process};
use crate::{eventually, health, install_crypto_provider, kubeconfig, kubectl, ports};

/// Generous: some seconds are usual, a loaded machine needs more.
const READY_DEADLINE: Duration = Duration::from_secs(120);

/// File of the plane's folder.
const AUDIT_LOG: &str = "audit.log";

const CONTROLLERS: [&str; 5] = [
    "garbage-collector-controller",
    "namespace-controller",
    // Without it view, edit and admin are roles without a rule.
    "clusterrole-aggregation-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-cleaner-controller",
];

/// A running plane. Dropping it stops its programs and removes their data.
pub struct RealPlane {
    // In this order: what runs in the folder ends before the folder goes.
    crew: Crew,
    folder: TempDir,
    authority: Authority,
    server: String,
    admin: PathBuf,
    client: kube::Client,
}

impl RealPlane {
    /// Starts a plane, and returns when its API server and its controllers are ready.
    pub async fn start() -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// Like [`RealPlane::start`], with the API server on another address of this computer, such as that of a bridge, so
    /// that machines can reach it. The other programs listen on loopback.
    pub async fn start_at(address: Ipv4Addr) -> Result<Self> {
        Self::start_auditing(address, None).await
    }

    /// Like [`RealPlane::start`], with an audit log ([`RealPlane::audit_log`]) of all requests of this user.
    pub async fn start_audited(user: &str) -> Result<Self> {
        Self::start_auditing(Ipv4Addr::LOCALHOST, Some(user)).await
    }

    async fn start_auditing(address: Ipv4Addr, user: Option<&str>) -> Result<Self> {
        install_crypto_provider();
        ports::retrying(|| Self::start_once(address, user)).await.context("a real plane does not start")
    }

    async fn start_once(address: Ipv4Addr, audited: Option<&str>) -> Result<Self> {
        let folder = TempDir::with_prefix("capstan-plane-").context("no temporary folder")?;
        let [etcd, peer, apiserver, controllers] = ports::free()?;
        let authority = Authority::new("plane")?;
        let files = Files::write(folder.path(), &authority, address)?;
        let server = format!("https://{address}:{apiserver}");
        let admin = folder.path().join("admin.kubeconfig");
        let identity = authority.client("admin", &["system:masters"])?;
        kubeconfig::write_kubeconfig(&admin, &server, &authority.certificate(), &identity)?;
        let client = kubeconfig::client(&admin).await?;

        let mut crew = Crew::default();
        let spawn = |name, launch| Process::spawn(name, &launch, folder.path());
        // Nothing in it outlives the test.
        crew.add(spawn("etcd", files.etcd(etcd, peer)?.arg("--unsafe-no-fsync"))?);
        ready(&mut crew, "etcd to listen", async || health::listens(etcd).await).await?;
        let mut launch = files.apiserver(address, apiserver, etcd)?;
        if let Some(user) = audited {
            launch = auditing(launch, folder.path(), user)?;
        }
        crew.add(spawn("kube-apiserver", launch)?);
        ready(&mut crew, "the API server to be ready", async || responds(&client, "/readyz").await).await?;
        crew.add(spawn("kube-controller-manager", files.controllers(controllers, &admin)?)?);
        // Not an API server, but it speaks HTTPS with the same certificates.
        let health = folder.path().join("controllers.kubeconfig");
        let address = format!("https://127.0.0.1:{controllers}");
        kubeconfig::write_kubeconfig(&health, &address, &authority.certificate(), &identity)?;
        let health = kubeconfig::client(&health).await?;
        ready(&mut crew, "the controllers to be healthy", async || responds(&health, "/healthz").await)
            .await?;
        Ok(Self { crew, folder, authority, server, admin, client })
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// A client for the administrator.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The folder with all files of this plane. It is removed together with the plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The audit log of a plane from [`RealPlane::start_audited`]: one JSON document per line, `audit.k8s.io/v1`.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join(AUDIT_LOG)
    }

    /// Process IDs of its programs.
    pub fn process_ids(&self) -> Vec<u32> {
        self.crew.ids()
    }

    /// Creates a client certificate for `user`, a member of `groups` (at most two), and returns its kubeconfig.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let identity = self.authority.client(user, groups)?;
        let name: String = user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .suffix(".kubeconfig")
            .tempfile_in(self.folder.path())
            .context("cannot make a kubeconfig")?;
        // Kept: it goes with the plane's folder.
        let (_, path) = file.keep().context("cannot keep a kubeconfig")?;
        kubeconfig::write_kubeconfig(&path, &self.server, &self.authority.certificate(), &identity)?;
        Ok(path)
    }

    /// A client for the kubeconfig at `path`.
    pub async fn client_for(&self, path: &Path) -> Result<kube::Client> {
        kubeconfig::client(path).await
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Ran> {
        kubectl::run(&self.admin, self.folder.path(), args, None).await
    }

    /// Runs kubectl as the administrator with `input` on its standard input.
    pub async fn kubectl_stdin(&self, args: &[&str], input: &str) -> Result<Ran> {
        kubectl::run(&self.admin, self.folder.path(), args, Some(input)).await
    }

    /// Runs kubectl as the user of another kubeconfig.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str]) -> Result<Ran> {
        kubectl::run(kubeconfig, self.folder.path(), args, None).await
    }

    /// Applies manifests, YAML or JSON, with `kubectl` and server-side apply.
    pub async fn apply_yaml(&self, manifests: &str) -> Result<String> {
        self.kubectl_stdin(&["apply", "--server-side", "-f", "-"], manifests).await?.success()
    }
}

/// Tells an API server to note the requests of one user. A watch is noted when it begins, and when it ends.
fn auditing(launch: Launch, folder: &Path, user: &str) -> Result<Launch> {
    let policy = folder.join("audit-policy.json");
    let rules = json!([{ "level": "Metadata", "users": [user] }, { "level": "None" }]);
    let text = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules,
    });
    write(&policy, &text.to_string())?;
    Ok(launch
        .path_arg("--audit-policy-file", &policy)
        .path_arg("--audit-log-path", &folder.join(AUDIT_LOG))
        // In megabytes. A file that is replaced would lose what has not been read.
        .arg("--audit-log-maxsize=100000"))
}

/// Waits for `look`, but no longer than all of `crew` run.
async fn ready(crew: &mut Crew, what: &str, mut look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let waited = eventually(READY_DEADLINE, what, async || {
        // A program that has ended ends the wait, too.
        if let Err(dead) = crew.ensure_running() {
            return Ok(Err(dead));
        }
        look().await.map(Ok)
    })
    .await;
    waited.with_context(|| format!("the ends of the logs:\n{}", crew.tails()))?
}

async fn responds(client: &kube::Client, path: &str) -> Result<()> {
    let request = http::Request::get(path).body(Vec::new())?;
    client.request_text(request).await?;
    Ok(())
}

/// The certificates and keys that the programs are told of.
pub(crate) struct Files {
    folder: PathBuf,
    ca: PathBuf,
    /// Signs the client certificates that are asked for.
    ca_key: PathBuf,
    token_key: PathBuf,
    token_public_key: PathBuf,
    serving: IdentityFiles,
    etcd_client: IdentityFiles,
}

impl Files {
    pub(crate) fn write(folder: &Path, authority: &Authority, address: Ipv4Addr) -> Result<Self> {
        let folder = folder.join("pki");
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let files = Self {
            ca: folder.join("ca.crt"),
            ca_key: folder.join("ca.key"),
            token_key: folder.join("tokens.key"),
            token_public_key: folder.join("tokens.pub"),
            serving: authority.server("plane", &[&address.to_string()])?.write(&folder, "serving")?,
            etcd_client: authority.client("kube-apiserver", &[])?.write(&folder, "etcd-client")?,
            folder,
        };
        write(&files.ca, &authority.certificate())?;
        write(&files.ca_key, &authority.key())?;
        let (private, public) = signing_key()?;
        write(&files.token_key, &private)?;
        write(&files.token_public_key, &public)?;
        Ok(files)
    }

    pub(crate) fn etcd(&self, port: u16, peer: u16) -> Result<Launch> {
        let url = format!("https://127.0.0.1:{port}");
        let peer = format!("https://127.0.0.1:{peer}");
        let mut data = OsString::from("--data-dir=");
        data.push(self.folder.with_file_name("etcd"));
        Ok(Launch::new(locate(Program::Etcd)?)
            .arg(data)
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .path_arg("--trusted-ca-file", &self.ca)
            .path_arg("--cert-file", &self.serving.certificate)
            .path_arg("--key-file", &self.serving.key)
            .arg("--client-cert-auth")
            .path_arg("--peer-trusted-ca-file", &self.ca)
            .path_arg("--peer-cert-file", &self.serving.certificate)
            .path_arg("--peer-key-file", &self.serving.key)
            .arg("--peer-client-cert-auth")
            .arg("--log-level=warn"))
    }

    pub(crate) fn apiserver(&self, address: Ipv4Addr, port: u16, etcd: u16) -> Result<Launch> {
        Ok(Launch::new(locate(Program::KubeApiserver)?)
            .arg(format!("--etcd-servers=https://127.0.0.1:{etcd}"))
            .path_arg("--etcd-cafile", &self.ca)
            .path_arg("--etcd-certfile", &self.etcd_client.certificate)
            .path_arg("--etcd-keyfile", &self.etcd_client.key)
            .arg(format!("--bind-address={address}"))
            .arg(format!("--advertise-address={address}"))
            .arg("--endpoint-reconciler-type=none")
            .arg(format!("--secure-port={port}"))
            .path_arg("--tls-cert-file", &self.serving.certificate)
            .path_arg("--tls-private-key-file", &self.serving.key)
            .path_arg("--client-ca-file", &self.ca)
            .arg("--authorization-mode=RBAC")
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .path_arg("--service-account-key-file", &self.token_public_key)
            .path_arg("--service-account-signing-key-file", &self.token_key)
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            // It wants the service account that a controller would make in each namespace.
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg("--profiling=false")
            .arg("--v=1"))
    }

    fn controllers(&self, port: u16, kubeconfig: &Path) -> Result<Launch> {
        Ok(Launch::new(locate(Program::KubeControllerManager)?)
            .path_arg("--kubeconfig", kubeconfig)
            .arg(format!("--controllers={}", CONTROLLERS.join(",")))
            .path_arg("--cluster-signing-kube-apiserver-client-cert-file", &self.ca)
            .path_arg("--cluster-signing-kube-apiserver-client-key-file", &self.ca_key)
            .arg("--leader-elect=false")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .path_arg("--tls-cert-file", &self.serving.certificate)
            .path_arg("--tls-private-key-file", &self.serving.key)
            .arg("--authentication-skip-lookup=true")
            // The defaults would make the deletion of a namespace wait for its turn.
            .arg("--kube-api-qps=200")
            .arg("--kube-api-burst=400")
            .arg("--profiling=false")
            .arg("--v=1"))
    }
}
