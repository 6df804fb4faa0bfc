//! `capstan up`: the management plane in one process. API server, durable store and controllers.

mod kubeconfig;
mod pki;

use anyhow::{Context, Result, bail};
use capstan_apiserver::{ApiServer, Authority, Options, Storage, Tls, User};
use capstan_controller::Scope;
use kube::Client;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

use crate::args::UpArgs;
use crate::controllers::{SIM_ADDRESS, Surroundings};
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::software::Depot;
use crate::{controllers, install, log, stop};
use pki::Pki;

/// File of the data folder that keeps the port.
const PORT: &str = "port";

pub(crate) async fn run(args: &UpArgs) -> Result<()> {
    log::to_stderr();
    let data_dir = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => default_data_dir()?,
    };
    let stop = stop::on_signal()?;
    let listen = where_it_was(&data_dir, args.listen);
    let services = args.webhook_service.iter().cloned().collect();
    let plane = Plane::start(&data_dir, listen, args.advertise_address.as_deref(), services).await?;
    remember(&data_dir, plane.bound.port())?;
    let kubeconfig = args.kubeconfig_out.clone().unwrap_or_else(|| data_dir.join("admin.kubeconfig"));
    plane.write_kubeconfig(&kubeconfig)?;
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
        extensions: Extensions::of(&args.hooks)?,
        scope: Scope::default(),
        sim_address: SIM_ADDRESS.to_owned(),
    };
    let mut running = controllers::start(&args.controllers, &around, &stop).await?;
    if let Some(warning) = warning(plane.bound) {
        eprintln!("{warning}");
    }
    eprintln!("management plane: https://{}", plane.address);
    eprintln!("{depot}");
    eprintln!("controllers: {}", args.controllers);
    eprintln!("next: export KUBECONFIG={}   (stop with Ctrl-C)", kubeconfig.display());
    stop.await;
    running.ended().await;
    plane.shutdown().await;
    Ok(())
}

/// A running management plane.
pub(crate) struct Plane {
    server: Arc<ApiServer>,
    pki: Pki,
    /// Where it is reached.
    pub(crate) address: String,
    /// Where it listens.
    bound: SocketAddr,
    /// The administrator's client, without a socket between.
    pub(crate) client: Client,
}

impl Plane {
    /// Opens the store in `data_dir` and serves it. `services` says where those are that webhooks name.
    pub(crate) async fn start(
        data_dir: &Path,
        listen: SocketAddr,
        advertise: Option<&str>,
        services: BTreeMap<String, String>,
    ) -> Result<Self> {
        std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        let host = advertised(listen.ip(), advertise)?;
        let own = listen.ip().to_string();
        let mut names = vec!["localhost", "127.0.0.1"];
        names.extend(
            [host.as_str(), &own].iter().filter(|name| !["127.0.0.1", "0.0.0.0", "::"].contains(*name)),
        );
        names.dedup();
        let pki = Pki::open(&data_dir.join("pki"), &names)?;
        // Before the store: who cannot listen should not lock anybody out.
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}: is another plane up? (see --listen)"))?;
        let storage = Storage::Folder(data_dir.join("store"));
        let mut options = Options::new(storage);
        options.webhook_services = services;
        let (certificate, key) = (pki.authority.clone(), pki.authority_key.clone());
        options.client_authority = Some(Authority { certificate, key });
        let server = ApiServer::open(options)
            .await
            .with_context(|| format!("cannot open the store in {}", data_dir.display()))?;
        let tls = Tls {
            certificate: pki.server.certificate.clone(),
            key: pki.server.key.clone(),
            client_ca: Some(pki.authority.clone()),
        };
        let bound = server.serve(listener, &tls).context("cannot serve")?;
        // An IPv6 address stands in brackets where a port follows.
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let address = format!("{host}:{}", bound.port());
        let client = Client::new(server.service(User::admin()), "default");
        Ok(Self { server, pki, address, bound, client })
    }

    /// Writes the administrator's kubeconfig.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        kubeconfig::write(path, &self.address, &self.pki)
    }

    /// How machines reach the plane.
    pub(crate) fn seen_by_machines(&self) -> capstan_bootstrap::Plane {
        capstan_bootstrap::Plane {
            server: format!("https://{}", self.address),
            ca: self.pki.authority.clone().into_bytes(),
        }
    }

    /// Ends requests and closes the store.
    pub(crate) async fn shutdown(self) {
        self.server.shutdown().await;
    }
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
            "WARNING: the API is served on {listen}, beyond this machine. Whoever can reach that address can try to \
             use it; only clients with a certificate or a token get in."
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

/// Where a plane keeps everything, unless it is told otherwise.
pub(crate) fn default_data_dir() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")))
        .context("there is no home folder: pass --data-dir")?;
    Ok(base.join("capstan"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn machines_are_told_one_address() {
        let told = |listen: &str, advertise| advertised(listen.parse().unwrap(), advertise).ok();
        assert_eq!(told("127.0.0.1", None).as_deref(), Some("127.0.0.1"));
        assert_eq!(told("10.77.0.1", None).as_deref(), Some("10.77.0.1"));
        assert_eq!(told("0.0.0.0", Some("plane.example.com")).as_deref(), Some("plane.example.com"));
        assert_eq!(told("0.0.0.0", None), None);
        assert_eq!(told("::", None), None);
        assert_eq!(told("10.77.0.1", Some("https://x")), None);
    }

    #[test]
    fn listening_elsewhere_is_said_out_loud() {
        let said = |listen: &str| warning(listen.parse().unwrap()).is_some();
        assert!(!said("127.0.0.1:1") && !said("[::1]:1"));
        assert!(said("10.77.0.1:1") && said("0.0.0.0:1"));
    }
}
