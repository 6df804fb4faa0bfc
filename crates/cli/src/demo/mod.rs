//! `capstan demo`: the life of a cluster from creation to deletion, on simulated hosts, or with `--real` on local
//! machines.

#![allow(clippy::print_stdout, reason = "a demo talks")]

mod cast;
mod screen;
mod show;

use anyhow::{Context, Result};
use capstan_artifacts::Software;
use capstan_controller::Scope;
use capstan_nspawn::Set;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::args::{DemoArgs, SoftwareArgs};
use crate::controller_health::ControllerHealth;
use crate::controllers::{self, SIM_ADDRESS, Selection, Surroundings};
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::software::Depot;
use crate::tuning::Tuning;
use crate::up::{DataFolder, Process, RunningPlane};
use crate::{install, log, stop};
use cast::Cast;
use show::{CLUSTER, Show};

pub(crate) async fn run(args: &DemoArgs) -> Result<()> {
    if std::env::var_os("RUST_LOG").is_some() {
        log::to_stderr(None, None);
    }
    let interrupted = stop::on_signal()?;
    let folder = tempfile::Builder::new().prefix("capstan-demo-").tempdir().context("no temporary folder")?;
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let stop = stop::when(async { _ = finished.await });

    let scenery = Scenery::build(args, folder.path()).await?;
    let data = DataFolder::take(folder.path())?;
    let (selection, health) = (Selection::all(), ControllerHealth::default());
    health.expect(selection.names());
    let process = Process { checks: vec![health.check()], ..Process::default() };
    let plane = RunningPlane::start(data, (scenery.address, 0).into(), None, process).await?;
    let kubeconfig = folder.path().join("admin.kubeconfig");
    plane.write_kubeconfig(&kubeconfig)?;
    install::crds(&plane.client).await?;
    let around = Surroundings {
        client: plane.client.clone(),
        plane: plane.seen_by_machines(),
        software: scenery.software(),
        machines: Arc::new(scenery.machines(folder.path())),
        folder: folder.path().to_owned(),
        extensions: Extensions::default(),
        scope: Scope::default(),
        sim_address: SIM_ADDRESS.to_owned(),
        tuning: Tuning { metrics: plane.metrics.clone(), ..Tuning::default() },
        health,
    };
    let mut running = controllers::start(&selection, &around, &stop).await?;
    println!(
        "Management plane up: https://{} (API server, store and controllers in this process)",
        plane.address
    );

    let show = Show::new(plane.client.clone(), scenery.cast(folder.path())?);
    let outcome = tokio::select! {
        outcome = show.run(folder.path(), args.keep) => outcome,
        () = interrupted.clone() => Err(anyhow::anyhow!("interrupted; everything is being removed")),
    };
    if args.keep && outcome.is_ok() {
        println!("\nIt stays up until Ctrl-C. In another terminal:");
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  capstan describe cluster {CLUSTER}");
        interrupted.await;
    }
    // Nobody listening any more means that they have stopped already.
    _ = finish.send(());
    running.ended().await;
    plane.shutdown().await;
    outcome
}

/// What is there before the curtain rises. Dropping it takes the machines away.
struct Scenery {
    /// Where the plane listens, so that machines reach it.
    address: IpAddr,
    real: Option<Real>,
}

struct Real {
    set: Arc<Set>,
    base: PathBuf,
    depot: Depot,
}

impl Scenery {
    async fn build(args: &DemoArgs, folder: &Path) -> Result<Self> {
        let Some(base) = args.root_filesystem.clone().filter(|_| args.real) else {
            return Ok(Self { address: Ipv4Addr::LOCALHOST.into(), real: None });
        };
        let sets = std::env::temp_dir().join("capstan-demo-machines");
        // What a demo left that was killed.
        capstan_nspawn::remove_leftover_sets(&sets)?;
        let set = Arc::new(Set::owned(&sets, &base)?);
        let address = set.network().subnet().gateway();
        let software = SoftwareArgs {
            artifacts_dir: args.artifacts_dir.clone(),
            artifacts_index: None,
            artifacts_listen: None,
            artifacts_url: None,
            agent_binary: args.agent_binary.clone(),
        };
        let listen = SocketAddr::from((address, 0));
        let depot = Depot::open(&software, folder, Some(listen), None).await?;
        Ok(Self { address: address.into(), real: Some(Real { set, base, depot }) })
    }

    fn software(&self) -> Software {
        // Simulated machines have their agent already.
        self.real.as_ref().map(|real| real.depot.software()).unwrap_or_default()
    }

    fn machines(&self, folder: &Path) -> LocalMachines {
        match &self.real {
            Some(real) => LocalMachines::of_set(Arc::clone(&real.set)),
            None => LocalMachines::in_folder(folder.join("machines")),
        }
    }

    fn cast(&self, folder: &Path) -> Result<Cast> {
        match &self.real {
            Some(real) => Cast::real(&real.set, &real.base, &real.depot.software(), folder),
            None => Ok(Cast::simulated()),
        }
    }
}
