//! Real machines with a management plane, as an owner of a few machines has them: the machines are reached over SSH,
//! the plane is `capstan up`, and Kubernetes is k3s.

mod balancer;
mod cluster;
mod far_network;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use capstan_api::infrastructure::{Host, HostRegistration, HostState};
use capstan_testkit::{
    CrdSet, FeatureGates, Machines, Manager, RealPlane, TestMachine, UpstreamManagers, eventually,
    install_crds, install_crypto_provider, install_upstream_crds,
};
use capstan_tools::{K3S_VERSIONS, k3s_bundle};
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use cluster::{Cluster, Kept, settings};

use crate::{Running, program};
use balancer::{Balancer, PORT};
use far_network::FarNetwork;

/// The available versions of k3s, the older one first.
pub const K3S: [&str; 2] = K3S_VERSIONS;

/// Generous: the longest wait is for a whole cluster, on a machine that may have other things to do.
const DEADLINE: Duration = Duration::from_secs(600);

/// Machines, and a plane that they can reach. Dropping the value stops all of them.
pub struct Yard {
    // In this order: who manages ends before what is managed.
    capstan: Option<Running>,
    /// How it was started.
    args: Vec<String>,
    _upstream: Option<UpstreamManagers>,
    _real: Option<RealPlane>,
    balancer: Option<Balancer>,
    client: Client,
    machines: Machines,
    /// The network of the plane, if it is another than that of the machines.
    far: Option<FarNetwork>,
    folder: TempDir,
}

impl Yard {
    /// Machines with these names, and `capstan up`. The inventory is empty.
    pub async fn embedded(names: &[&str]) -> Result<Self> {
        install_crypto_provider();
        let (machines, folder) = prepare(names).await?;
        Self::up(machines, None, folder).await
    }

    /// The same with the plane in a network of its own. The machines are behind a router that masquerades: they reach the plane, and
    /// the plane reaches none of them.
    pub async fn behind_a_router(names: &[&str]) -> Result<Self> {
        install_crypto_provider();
        let (machines, folder) = prepare(names).await?;
        let far = FarNetwork::make(machines.bridge())?;
        Self::up(machines, Some(far), folder).await
    }

    async fn up(machines: Machines, far: Option<FarNetwork>, folder: TempDir) -> Result<Self> {
        let kubeconfig = folder.path().join(KUBECONFIG);
        let address = far.as_ref().map_or(machines.gateway(), FarNetwork::address);
        let args = up(address, &folder);
        let capstan = start(&args, far.as_ref(), &folder)?;
        let client = reach(&kubeconfig).await?;
        Ok(Self {
            capstan: Some(capstan),
            args,
            _upstream: None,
            _real: None,
            balancer: None,
            client,
            machines,
            far,
            folder,
        })
    }

    /// Machines with these names, a real API server, upstream's core with everything that it needs for in-place
    /// updates, and Capstan's providers.
    pub async fn under_upstreams_core(names: &[&str]) -> Result<Self> {
        let gates = ["RuntimeSDK", "InPlaceUpdates"].map(|gate| (gate.to_owned(), true));
        let ours = "infrastructure,bootstrap,control-plane,hooks";
        Self::under_upstream(names, &[], &[Manager::Core], &gates.into_iter().collect(), ours).await
    }

    /// Machines with these names, a real API server, upstream's core and kubeadm providers, and only Capstan's
    /// infrastructure provider.
    pub async fn under_upstreams_kubeadm(names: &[&str]) -> Result<Self> {
        let crds = [CrdSet::KubeadmBootstrap, CrdSet::KubeadmControlPlane];
        let managers = [Manager::Core, Manager::KubeadmBootstrap, Manager::KubeadmControlPlane];
        Self::under_upstream(names, &crds, &managers, &FeatureGates::new(), "infrastructure").await
    }

    async fn under_upstream(
        names: &[&str],
        crds: &[CrdSet],
        managers: &[Manager],
        gates: &FeatureGates,
        ours: &str,
    ) -> Result<Self> {
        install_crypto_provider();
        let (machines, folder) = prepare(names).await?;
        let plane = RealPlane::start_at(machines.gateway()).await?;
        install_crds(&plane.client(), &capstan_api::crd::all()).await?;
        install_upstream_crds(&plane.client(), crds).await?;
        let upstream = UpstreamManagers::start_on(plane.kubeconfig(), managers, gates).await?;
        std::fs::copy(plane.kubeconfig(), folder.path().join(KUBECONFIG)).context("no kubeconfig")?;
        let args = manager(machines.gateway(), &folder, ours);
        let capstan = start(&args, None, &folder)?;
        let client = plane.client();
        Ok(Self {
            capstan: Some(capstan),
            args,
            _upstream: Some(upstream),
            _real: Some(plane),
            balancer: None,
            client,
            machines,
            far: None,
            folder,
        })
    }

    /// A client of the management plane, as administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBECONFIG)
    }

    /// A folder that is removed together with the yard.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The machines.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }

    /// The machine of a Host; both have the same name.
    pub fn machine(&self, name: &str) -> Result<&TestMachine> {
        self.machines.get(name)
    }

    /// Handle to a cluster with this name, which need not exist.
    pub fn cluster(&self, name: &str) -> Cluster<'_> {
        Cluster::new(self, name)
    }

    /// An API for objects in the namespace of the test.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), "default")
    }

    /// Runs `capstan` against this plane, and returns its output and exit code.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        Command::new(program::build()?)
            .args(args)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .output()
            .context("cannot run capstan")
    }

    /// Runs `capstan` against this plane, and returns its standard output. It must succeed.
    pub fn capstan(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "capstan {} failed: {stderr}", args.join(" "));
        String::from_utf8(output.stdout).context("capstan printed something that is not text")
    }

    /// Adds machines to the inventory, as a user would: hosts for control plane machines, and hosts for workers.
    /// Several control plane hosts get a load balancer.
    pub async fn add_hosts(&mut self, servers: &[&str], workers: &[&str]) -> Result<()> {
        if servers.len() > 1 {
            self.balance(servers).await?;
        }
        for (role, names) in [("server", servers), ("worker", workers)] {
            for name in names {
                self.add_host(name, role)?;
            }
        }
        self.until_available(&[servers, workers].concat()).await
    }

    /// Adds machines to the inventory that register themselves: each runs the line that `capstan host token` prints, and is approved.
    pub async fn register_hosts(&self, names: &[&str], role: &str) -> Result<()> {
        let (uses, label) = (names.len().to_string(), format!("role={role}"));
        let words = ["host", "token", role, "--uses", &uses, "--label", &label, "--output", "json"];
        let token: Value = serde_json::from_str(&self.capstan(&words)?).context("not JSON")?;
        let line = token["command"].as_str().context("no command")?;
        for name in names {
            let machine = self.machine(name)?;
            machine.put(self.agent(), "/usr/local/bin/capstan-agent", 0o755).await?;
            machine.run(line).await?;
            let registration = self.registration_of(name).await?;
            self.capstan(&["host", "approve", &registration, "--name", name])?;
        }
        self.until_available(names).await
    }

    /// The registration of a machine, once it has been checked.
    async fn registration_of(&self, name: &str) -> Result<String> {
        eventually(DEADLINE, &format!("{name} to register"), async || {
            let all = self.api::<HostRegistration>().list(&ListParams::default()).await?;
            let is_one = |registration: &&HostRegistration| {
                let facts = registration.spec.facts.as_ref();
                facts.and_then(|facts| facts.hostname.as_deref()) == Some(name)
            };
            let found = all.items.iter().find(is_one).context("it has not registered")?;
            ensure!(capstan_api::conditions::get(found, "Approved").is_some(), "it was not checked");
            Ok(found.name_any())
        })
        .await
    }

    /// Puts a load balancer in front of these control plane hosts, where machines and plane reach it.
    pub async fn balance(&mut self, servers: &[&str]) -> Result<()> {
        let addresses = servers.iter().map(|name| Ok((self.machine(name)?.address(), API_SERVER).into()));
        let addresses = addresses.collect::<Result<Vec<_>>>()?;
        self.balancer = Some(Balancer::start(self.near(), addresses).await?);
        Ok(())
    }

    /// The address of this computer that machines and plane reach.
    fn near(&self) -> Ipv4Addr {
        self.far.as_ref().map_or(self.machines.gateway(), FarNetwork::router)
    }

    /// Whether the plane's network has a way to the SSH server of a machine.
    pub fn plane_reaches(&self, name: &str) -> Result<bool> {
        let far = self.far.as_ref().context("the plane has no network of its own")?;
        far.reaches((self.machine(name)?.address(), SSH).into())
    }

    fn add_host(&self, name: &str, role: &str) -> Result<()> {
        let machine = self.machine(name)?;
        let (address, key) = (machine.address().to_string(), self.machines.private_key());
        let (key, role) = (key.to_str().context("a path that is text")?, format!("role={role}"));
        let known = ["--address", &address, "--identity-file", key, "--host-key", machine.host_key()];
        self.capstan(&[&["host", "add", name, "--label", &role], &known[..]].concat())?;
        Ok(())
    }

    /// Where the API of a cluster is reached: through the load balancer, or at the only machine that may be a server.
    async fn endpoint(&self) -> Result<Value> {
        if self.balancer.is_some() {
            return Ok(json!({"host": self.near().to_string(), "port": PORT}));
        }
        let servers = self.api::<Host>().list(&ListParams::default().labels("role=server")).await?.items;
        let server = servers.first().context("no host may be a server")?;
        Ok(json!({"host": self.machine(&server.name_any())?.address().to_string(), "port": API_SERVER}))
    }

    /// Waits until these hosts are available and clean.
    pub async fn until_available(&self, names: &[&str]) -> Result<()> {
        eventually(DEADLINE, "the hosts to be available", async || {
            for name in names {
                let host = self.api::<Host>().get(name).await?;
                let status = host.status.clone().unwrap_or_default();
                ensure!(
                    status.state == Some(HostState::Available) && host.spec.claim.is_none(),
                    "{name} is {:?}: {:?} {:?}",
                    status.state,
                    host.spec.quarantine,
                    status.conditions
                );
            }
            Ok(())
        })
        .await?;
        for name in names {
            is_clean(self.machine(name)?).await?;
        }
        Ok(())
    }

    /// Stops `capstan`, so that the test can delete objects that it would create again.
    pub fn stop(&mut self) {
        self.capstan = None;
    }

    /// Kills `capstan` at any point of its work, and starts it again.
    pub async fn kill_and_restart(&mut self) -> Result<()> {
        if let Some(capstan) = self.capstan.take() {
            capstan.kill()?;
        }
        self.capstan = Some(start(&self.args, self.far.as_ref(), &self.folder)?);
        reach(&self.kubeconfig()).await?;
        Ok(())
    }

    /// The program that machines get as their agent when they are bootstrapped.
    pub fn agent(&self) -> &Path {
        Path::new(&self.args[self.agent_argument()])
    }

    /// Starts `capstan` again with another program as the agent of this version.
    pub async fn offer_agent(&mut self, program: &Path) -> Result<()> {
        let place = self.agent_argument();
        self.args[place] = program.to_string_lossy().into_owned();
        self.kill_and_restart().await
    }

    fn agent_argument(&self) -> usize {
        let flag = self.args.iter().position(|arg| arg == AGENT_FLAG);
        flag.expect("every plane is started with an agent") + 1
    }

    /// Diagnostic output for a failed test.
    pub async fn diagnostics(&self) -> String {
        let mut output = String::new();
        let machines: Api<capstan_api::core::Machine> = self.api();
        for machine in machines.list(&ListParams::default()).await.into_iter().flatten() {
            let why = self.run(&["why", &format!("machine/{}", machine.name_any())]);
            let why = why.map(|why| String::from_utf8_lossy(&why.stdout).into_owned());
            output.push_str(&why.unwrap_or_default());
        }
        for machine in self.machines.all() {
            let look = "journalctl -u capstan-agent -u k3s -u k3s-agent --no-pager -o cat | tail -40";
            let said = machine.run(look).await.unwrap_or_else(|error| format!("{error:#}"));
            output.push_str(&format!("\n== {}\n{said}", machine.name()));
        }
        output
    }
}

/// Checks on the machine itself that nothing is left, apart from what makes a registered machine dial out.
pub async fn is_clean(machine: &TestMachine) -> Result<()> {
    let look = "for path in /opt/capstan /etc/capstan /var/lib/capstan /etc/rancher /var/lib/rancher/k3s/server \
                /var/lib/kubelet /var/lib/cni /run/k3s /etc/systemd/system/k3s.service \
                /etc/systemd/system/k3s-agent.service /etc/systemd/system/capstan-agent.service; do \
                  [ ! -e $path ] || find $path | head -20; done; \
                for process in $(pgrep 'k3s|containerd|capstan'); do \
                  program=$(readlink /proc/$process/exe); \
                  case $program in /opt/capstan-host/*) ;; *) echo \"$process $program\";; esac; done; \
                ip -o link | grep -E 'cni0|flannel|veth' || true; \
                iptables-save 2>/dev/null | grep -E 'KUBE|CNI|flannel' | head -5; \
                mount | grep -E '/var/lib/kubelet|/run/k3s' | head -5";
    let left = machine.run(&format!("{look}; true")).await?;
    ensure!(left.trim().is_empty(), "{} is not clean:\n{left}", machine.name());
    Ok(())
}

/// The port that API servers listen on.
const API_SERVER: u16 = 6443;
const SSH: u16 = 22;

const KUBECONFIG: &str = "plane.kubeconfig";
const AGENT_FLAG: &str = "--agent-binary";

async fn prepare(names: &[&str]) -> Result<(Machines, TempDir)> {
    // Both before the machines boot: they take the processors for themselves.
    program::build()?;
    agent()?;
    let folder = TempDir::with_prefix("capstan-yard-").context("no temporary folder")?;
    let artifacts = folder.path().join("artifacts");
    let artifacts = artifacts.to_str().context("a path that is text")?;
    for version in K3S {
        let bundle = k3s_bundle(version)?;
        for (name, file) in [("k3s", &bundle.program.path), ("k3s-airgap-images", &bundle.images.path)] {
            let arch = match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => bail!("there is no k3s for {other} here"),
            };
            let file = file.to_str().context("a path that is text")?;
            let what = ["--name", name, "--version", version, "--arch", arch, "--file", file];
            crate::capstan(&[&["artifacts", "add", "--artifacts-dir", artifacts], &what[..]].concat())?;
        }
    }
    Ok((Machines::start(names).await?, folder))
}

/// The agent as it is shipped, static: the machines have another C library than this one.
pub(crate) fn agent() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--bin", "xtask", "--", "agent"])
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the agent cannot be built");
    Ok(BUILT.get_or_init(|| root.join("target/agent/capstan-agent")).clone())
}

fn start(args: &[String], far: Option<&FarNetwork>, folder: &TempDir) -> Result<Running> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let log = folder.path().join("capstan.log");
    match far {
        Some(far) => Running::start_in_network(far.name(), &args, &log),
        None => Running::start(&args, &log),
    }
}

/// The ports are the usual ones: the address is one that nobody else has.
fn up(address: Ipv4Addr, folder: &TempDir) -> Vec<String> {
    let mut args = vec!["up".to_owned(), "--listen".to_owned(), format!("{address}:6440")];
    args.extend(["--kubeconfig-out".to_owned(), path(folder, KUBECONFIG)]);
    args.extend(common(address, folder));
    args
}

fn manager(address: Ipv4Addr, folder: &TempDir, controllers: &str) -> Vec<String> {
    let mut args = vec!["manager".to_owned(), "--kubeconfig".to_owned(), path(folder, KUBECONFIG)];
    args.extend(["--controllers".to_owned(), controllers.to_owned()]);
    // Upstream's core has no client certificate by default.
    args.push("--hooks-allow-unauthenticated".to_owned());
    args.extend(common(address, folder));
    args
}

fn common(address: Ipv4Addr, folder: &TempDir) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agent/capstan-agent");
    let words = [
        ("--data-dir", path(folder, "data")),
        ("--artifacts-dir", path(folder, "artifacts")),
        ("--artifacts-listen", format!("{address}:6441")),
        (AGENT_FLAG, root.to_string_lossy().into_owned()),
    ];
    words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_string_lossy().into_owned()
}

/// Waits until the plane answers with all of our kinds.
async fn reach(kubeconfig: &Path) -> Result<Client> {
    eventually(DEADLINE, "the plane to answer", async || {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let hosts: Api<Host> = Api::namespaced(client.clone(), "default");
        hosts.list(&ListParams::default()).await?;
        let clusters: Api<capstan_api::core::Cluster> = Api::namespaced(client.clone(), "default");
        clusters.list(&ListParams::default()).await?;
        Ok(client)
    })
    .await
}

/// One document of YAML.
fn document(text: &str) -> Result<Value> {
    serde_saphyr::from_str(text).context("not YAML")
}
