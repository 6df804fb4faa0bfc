//! `capstan up`: the management plane in one process. API server, durable store and controllers.

mod kubeconfig;
mod pki;

use anyhow::{Context, Result};
use capstan_apiserver::{ApiServer, Options, Storage, Tls, User};
use kube::Client;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

use crate::args::UpArgs;
use crate::{controllers, install, log, stop};
use pki::Pki;

pub(crate) async fn run(args: &UpArgs) -> Result<()> {
    log::to_stderr();
    let data_dir = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => default_data_dir()?,
    };
    let stop = stop::on_signal()?;
    let plane = Plane::start(&data_dir, args.listen, args.advertise_address.as_deref()).await?;
    let kubeconfig = args.kubeconfig_out.clone().unwrap_or_else(|| data_dir.join("admin.kubeconfig"));
    plane.write_kubeconfig(&kubeconfig)?;
    install::crds(&plane.client).await?;
    let (machines, hooks) = (plane.seen_by_machines(), args.hooks.options());
    let running =
        controllers::start(&plane.client, &args.controllers, &machines, &data_dir, &hooks, &stop).await?;
    eprintln!("management plane: https://{}", plane.address);
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
    /// The administrator's client, without a socket between.
    pub(crate) client: Client,
}

impl Plane {
    /// Opens the store in `data_dir` and serves it.
    pub(crate) async fn start(data_dir: &Path, listen: SocketAddr, advertise: Option<&str>) -> Result<Self> {
        std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        let host = advertise.map_or_else(|| listen.ip().to_string(), str::to_owned);
        let pki = Pki::open(&data_dir.join("pki"), &[&host, "localhost", "127.0.0.1"])?;
        // Before the store: who cannot listen should not lock anybody out.
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}: is another plane up? (see --listen)"))?;
        let storage = Storage::Folder(data_dir.join("store"));
        let server = ApiServer::open(Options::new(storage))
            .await
            .with_context(|| format!("cannot open the store in {}", data_dir.display()))?;
        let tls = Tls {
            certificate: pki.server.certificate.clone(),
            key: pki.server.key.clone(),
            client_ca: Some(pki.authority.clone()),
        };
        let bound = server.serve(listener, &tls).context("cannot serve")?;
        let address = format!("{host}:{}", bound.port());
        let client = Client::new(server.service(User::admin()), "default");
        Ok(Self { server, pki, address, client })
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

fn default_data_dir() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")))
        .context("there is no home folder: pass --data-dir")?;
    Ok(base.join("capstan"))
}
