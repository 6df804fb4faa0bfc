//! `capstan up`: the management plane in one process: API server, durable store and controllers.

pub(crate) mod authorities;
pub(crate) mod folder;
pub(crate) mod kubeconfig;
pub(crate) mod pki;
mod renewal;

use anyhow::{Context, Result, bail, ensure};
use capstan_api::access::MACHINE_ACCOUNTS;
use capstan_apiserver::{
    AccountLimits, ApiServer, AuditPolicy, Authority, OpenError, Options, Rate, Restriction, StartError,
    Storage, Tls, User,
};
use capstan_controller::{Metrics, Scope};
use capstan_pki::issue::Identity;
use capstan_text::health::Check;
use jiff::Timestamp;
use kube::Client;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tower::Layer as _;

use crate::admission::PlaneAdmission;
use crate::args::UpArgs;
use crate::client::Place;
use crate::controller_health::ControllerHealth;
use crate::controllers::{SIM_ADDRESS, Selection, Surroundings};
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::software::Depot;
use crate::{controllers, install, stop, ui};
pub(crate) use folder::DataFolder;
use folder::Restored;
pub(crate) use pki::write_secret;
use pki::{ADMINISTRATOR_LIFE, Pki};

/// Whom our own requests are counted for: they go through no socket.
const IN_PROCESS: &str = "in-process";

/// A machine renews its Lease and changes nothing else of it: finalizers and owners decide whether objects are deleted.
const MACHINE_LEASES: Restriction = Restriction {
    account_suffix: MACHINE_ACCOUNTS,
    api_group: "coordination.k8s.io",
    resource: "leases",
    fields: &["spec"],
    bytes: 8 << 10,
};

/// An agent has two watches and writes a few times a minute. A stolen credential of a machine is worth no more.
const MACHINE_LIMITS: AccountLimits = AccountLimits {
    account_suffix: MACHINE_ACCOUNTS,
    requests: 8,
    watches: 8,
    per_second: 10.0,
    burst: 200.0,
    bytes: 4 << 20,
    cpu: Rate { per_second: 0.05, burst: 2.0 },
};

/// File of the data folder that keeps the port.
const PORT: &str = "port";

pub(crate) async fn run(args: &UpArgs) -> Result<()> {
    crate::open_files::allow_all();
    let log = args.tuning.start_log()?;
    let data_dir = data_dir(args.data_dir.as_deref())?;
    let stop = stop::on_signal()?;
    let folder = DataFolder::take(&data_dir)?;
    let selection = go_on(&folder, args)?;
    let extensions = Extensions::of(&args.hooks, &selection)?;
    let listen = where_it_was(&data_dir, args.listen);
    let services = args.webhook_service.iter().cloned().collect();
    let (host, audit) = (args.advertise_address.as_deref(), args.audit_log.clone());
    let audit_policy = args.audit_policy_file.as_deref().map(audit_policy).transpose()?;
    let health = ControllerHealth::default();
    health.expect(selection.names());
    let process = Process { services, audit, audit_policy, checks: vec![health.check()] };
    let plane = RunningPlane::start(folder, listen, host, process).await?;
    remember(&data_dir, plane.bound.port())?;
    // In the folder in any case: `capstan backup --data-dir` finds the plane by it.
    let own = folder::kubeconfig(&data_dir);
    let kubeconfig = args.kubeconfig_out.as_ref().unwrap_or(&own);
    let renewal = renewal::Renewal::start(&plane, [&own, kubeconfig])?;
    install::crds(&plane.client).await?;
    install::inventory(&plane.client).await?;
    let listen = args.software.artifacts_listen.unwrap_or_else(|| after(args.listen));
    let host = args.advertise_address.as_deref();
    let depot = Depot::open(&args.software, &data_dir, Some(listen), host).await?;
    let around = Surroundings {
        client: plane.client.clone(),
        plane: plane.seen_by_machines(),
        software: depot.software(),
        machines: Arc::new(LocalMachines::in_folder(data_dir.join("machines"))),
        folder: data_dir,
        extensions,
        scope: Scope::default(),
        sim_address: SIM_ADDRESS.to_owned(),
        tuning: args.tuning.tuning(plane.metrics.clone()),
        health,
    };
    let mut running = controllers::start(&selection, &around, &stop).await?;
    if let Some(warning) = warning(plane.bound) {
        eprintln!("{warning}");
    }
    if selection != Selection::none() {
        eprintln!("{depot}");
    }
    eprintln!(
        "ready: https://{}, controllers: {selection}; export KUBECONFIG={}   (stop with Ctrl-C)",
        plane.address,
        kubeconfig.display()
    );
    let serves = async {
        match args.ui {
            Some(listen) => {
                let place = Place { client: plane.client.clone(), namespace: "default".to_owned() };
                let view = ui::serve(place, listen, args.ui_allow_actions).await?;
                eprintln!("web view: {}   (the link works once, within 15 minutes)", view.login_link());
                view.serve(stop).await.context("the web view ended")
            }
            None => {
                stop.await;
                Ok(())
            }
        }
    };
    tokio::select! {
        served = serves => served?,
        () = renewal.run(&plane) => {}
    }
    running.ended().await;
    plane.shutdown().await;
    log.finish().await;
    Ok(())
}

/// Which controllers run: none on a plane that was restored, until somebody says that they may.
fn go_on(folder: &DataFolder, args: &UpArgs) -> Result<Selection> {
    let restored = match folder.restored()? {
        Restored::No => return Ok(args.controllers.clone()),
        Restored::Unfinished => bail!(
            "a restore in {0} was cut off: run `capstan restore FILE --data-dir {0} --force` again",
            folder.path().display()
        ),
        Restored::Paused(restored) => restored,
    };
    if args.resume_after_restore {
        folder.resume()?;
        return Ok(args.controllers.clone());
    }
    eprintln!(
        "WARNING: this plane was restored from {restored}, so NO CONTROLLERS RUN. Look whether everything is as it \
         should be; then start it with --resume-after-restore."
    );
    Ok(Selection::none())
}

/// A running management plane.
pub(crate) struct RunningPlane {
    /// Ours as long as it runs.
    _folder: DataFolder,
    server: Arc<ApiServer>,
    pki: Pki,
    /// Address of the plane.
    pub(crate) address: String,
    /// Where it listens.
    bound: SocketAddr,
    /// Client of the administrator, which calls the server in-process.
    pub(crate) client: Client,
    /// Metrics of the process; the server serves them at `/metrics`.
    pub(crate) metrics: Metrics,
}

fn audit_policy(path: &Path) -> Result<AuditPolicy> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the audit policy {}", path.display()))?;
    AuditPolicy::parse(&text).with_context(|| format!("cannot use the audit policy {}", path.display()))
}

/// What the API server gets from the process it runs in.
#[derive(Default)]
pub(crate) struct Process {
    /// Addresses of the services that webhooks refer to.
    pub(crate) services: BTreeMap<String, String>,
    /// File for the audit log.
    pub(crate) audit: Option<PathBuf>,
    /// What is recorded in it.
    pub(crate) audit_policy: Option<AuditPolicy>,
    /// Health checks of the process.
    pub(crate) checks: Vec<Check>,
}

impl RunningPlane {
    /// Opens the store in `folder` and serves it.
    pub(crate) async fn start(
        folder: DataFolder,
        listen: SocketAddr,
        advertise: Option<&str>,
        process: Process,
    ) -> Result<Self> {
        let data_dir = folder.path();
        let host = advertised(listen.ip(), advertise)?;
        let own = listen.ip().to_string();
        let mut names = vec!["localhost", "127.0.0.1"];
        names.extend(
            [host.as_str(), &own].iter().filter(|name| !["127.0.0.1", "0.0.0.0", "::"].contains(*name)),
        );
        names.dedup();
        authorities::promote_next_ca(&folder::pki(data_dir))?;
        let pki = Pki::open(&folder::pki(data_dir), &names, Timestamp::now())?;
        // Before the store: who cannot listen should not lock anybody out.
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}: is another plane up? (see --listen)"))?;
        let mut options = Options::new(Storage::Folder(folder::store(data_dir)));
        options.webhook_services = process.services;
        options.audit_log = process.audit;
        options.audit_policy = process.audit_policy;
        options.checks = process.checks;
        options.backup_files = folder::existing_backup_files(data_dir);
        options.restrictions = vec![MACHINE_LEASES];
        options.limits.accounts = Some(MACHINE_LIMITS);
        let Identity { certificate, key } = pki.clients.clone();
        options.client_authority = Some(Authority { certificate, key });
        let admission = Arc::new(PlaneAdmission::default());
        options.admission = Some(Arc::<PlaneAdmission>::clone(&admission));
        let metrics = Metrics::default();
        let process_metrics = metrics.clone();
        options.more_metrics = Some(Arc::new(move || process_metrics.text()));
        let server = ApiServer::open(options).await.map_err(|error| with_remedy(error, data_dir))?;
        // Before anyone can write.
        admission.read_with(&Client::new(server.service(User::admin()), "default"));
        let tls = Tls {
            certificate: pki.server.certificate.clone(),
            key: pki.server.key.clone(),
            client_ca: Some(pki.bundle.clone()),
        };
        let bound = server.serve(listener, &tls).context("cannot serve")?;
        // An IPv6 address stands in brackets where a port follows.
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let address = format!("{host}:{}", bound.port());
        let service = metrics.count_requests(IN_PROCESS).layer(server.service(User::admin()));
        let client = Client::new(service, "default");
        Ok(Self { _folder: folder, server, pki, address, bound, client, metrics })
    }

    /// Writes a kubeconfig with a new certificate of the administrator, for its owner only.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        self.write_kubeconfigs(&[path.to_owned()]).map(drop)
    }

    /// The same in several places. Returns the certificate.
    fn write_kubeconfigs(&self, paths: &[PathBuf]) -> Result<Identity> {
        let administrator = self.pki.administrator(Timestamp::now(), ADMINISTRATOR_LIFE)?;
        let text = kubeconfig::text(&format!("https://{}", self.address), &self.pki.bundle, &administrator)?;
        for path in paths {
            write_secret(path, &text)?;
        }
        Ok(administrator)
    }

    /// The address of the plane for machines.
    pub(crate) fn seen_by_machines(&self) -> capstan_bootstrap::PlaneAddress {
        capstan_bootstrap::PlaneAddress {
            server: format!("https://{}", self.address),
            ca: self.pki.bundle.clone().into_bytes(),
        }
    }

    /// Ends all requests and closes the store.
    pub(crate) async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// Says how a damaged store is replaced.
fn with_remedy(error: StartError, data_dir: &Path) -> anyhow::Error {
    let damaged = matches!(error, StartError::Store(OpenError::Damaged(_)));
    let error = anyhow::Error::new(error);
    if !damaged {
        return error;
    }
    let restore = format!("capstan restore FILE --data-dir {} --force", data_dir.display());
    error.context(format!("cannot start, but `{restore}` brings back a backup"))
}

/// The name or address that machines and kubeconfigs use.
fn advertised(listen: IpAddr, advertise: Option<&str>) -> Result<String> {
    match advertise {
        Some(host) if host.is_empty() || host.contains(['/', ' ', '[', ']']) => {
            bail!("--advertise-address {host:?} is neither a host name nor an address")
        }
        Some(host) => Ok(host.to_owned()),
        None if listen.is_unspecified() => bail!(
            "--listen {listen} is every address of this machine, and machines must know one: pass --advertise-address"
        ),
        None => Ok(listen.to_string()),
    }
}

/// What to say out loud if others than this machine can reach the API.
fn warning(listen: SocketAddr) -> Option<String> {
    (!listen.ip().is_loopback()).then(|| {
        format!(
            "WARNING: the API is served on {listen}, which other machines can reach. It rejects \
             clients without a valid client certificate or bearer token."
        )
    })
}

/// Where a free port is asked for: the one of the last start, if it is free. Machines know the plane by it.
fn where_it_was(data_dir: &Path, mut listen: SocketAddr) -> SocketAddr {
    let last = std::fs::read_to_string(data_dir.join(PORT)).ok().and_then(|text| text.trim().parse().ok());
    if let Some(last) = last.filter(|_| listen.port() == 0)
        && std::net::TcpListener::bind((listen.ip(), last)).is_ok()
    {
        listen.set_port(last);
    }
    listen
}

fn remember(data_dir: &Path, port: u16) -> Result<()> {
    let path = data_dir.join(PORT);
    std::fs::write(&path, format!("{port}\n")).with_context(|| format!("cannot write {}", path.display()))
}

/// The next port of the same address; a free one after a free one.
fn after(mut address: SocketAddr) -> SocketAddr {
    if address.port() != 0 {
        address.set_port(address.port().wrapping_add(1));
    }
    address
}

/// The data folder that the user has passed, or the default one.
pub(crate) fn data_dir(passed: Option<&Path>) -> Result<PathBuf> {
    passed.map_or_else(default_data_dir, |folder| Ok(folder.to_owned()))
}

/// The same, if it has an embedded plane: opening another folder would create a new CA there.
pub(crate) fn existing_data_dir(passed: Option<&Path>) -> Result<PathBuf> {
    let data_dir = data_dir(passed)?;
    ensure!(
        folder::pki(&data_dir).join("ca.crt").exists(),
        "there is no embedded plane in {}: pass its --data-dir",
        data_dir.display()
    );
    Ok(data_dir)
}

/// The default data folder of a plane.
pub(crate) fn default_data_dir() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")))
        .context("there is no home folder: pass --data-dir")?;
    Ok(base.join("capstan"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_one_address() {
        let address = |listen: &str, advertise| advertised(listen.parse().unwrap(), advertise).ok();
        assert_eq!(address("127.0.0.1", None).as_deref(), Some("127.0.0.1"));
        assert_eq!(address("10.77.0.1", None).as_deref(), Some("10.77.0.1"));
        assert_eq!(address("0.0.0.0", Some("plane.example.com")).as_deref(), Some("plane.example.com"));
        assert_eq!(address("0.0.0.0", None), None);
        assert_eq!(address("::", None), None);
        assert_eq!(address("10.77.0.1", Some("https://x")), None);
    }

    #[test]
    fn listening_elsewhere_is_said_out_loud() {
        let said = |listen: &str| warning(listen.parse().unwrap()).is_some();
        assert!(!said("127.0.0.1:1") && !said("[::1]:1"));
        assert!(said("10.77.0.1:1") && said("0.0.0.0:1"));
    }
}
