//! `capstan manager`: only the controllers, against an existing plane. This is what runs in a Pod.

pub(crate) mod args;
mod diagnostics;
mod health;
mod plane;

use anyhow::{Context, Result};
use capstan_controller::error::chain;
use capstan_controller::leader::{Candidate, Times};
use capstan_controller::throttle::Throttle;
use capstan_controller::{Metrics, Scope};
use capstan_text::health::Check;
use kube::Client;
use std::sync::Arc;
use tokio::sync::watch;

use crate::controller_health::ControllerHealth;
use crate::controllers::{Running, Selection, Surroundings};
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::software::Depot;
use crate::{client, stop};
use args::ManagerArgs;
use diagnostics::Diagnostics;

/// Where a pod finds out in which namespace it is.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// The namespace where nothing says another one.
const NAMESPACE: &str = "capstan-system";

pub(crate) async fn run(args: &ManagerArgs) -> Result<()> {
    crate::open_files::allow_all();
    let log = args.tuning.start_log()?;
    let level = log.level.clone();
    let config = args.plane.config().await?;
    let plane = plane::of(args, &config)?;
    let tuning = args.tuning.tuning(Metrics::default());
    let throttle = Throttle::new(args.requests.kube_api_qps, args.requests.kube_api_burst);
    let client = client::counted(config.clone(), &tuning.metrics, Some(&throttle))?;
    // A Lease that has to be renewed, or a caller who waits, does not queue behind the controllers.
    let urgent = client::counted(config, &tuning.metrics, None)?;
    let stop = stop::on_signal()?;
    let controller_health = ControllerHealth::default();
    controller_health.expect(args.controllers.names());
    if let Some(address) = &args.health_addr {
        let listener = health::listen(address, "health checks", "--health-addr").await?;
        eprintln!("health checks: http://{}", listener.local_addr().context("no address")?);
        // Ends with the process: a kubelet asks until then.
        let checks = vec![Check::ping(), controller_health.check()];
        tokio::spawn(health::serve(listener, checks.into()));
    }
    if let Some(listener) = diagnostics::listen(args.diagnostics_address.as_deref()).await? {
        let metrics = tuning.metrics.clone();
        let diagnostics = match args.insecure_diagnostics {
            true => Diagnostics::open(metrics, level),
            false => Diagnostics::reviewed(metrics, level, urgent.clone()),
        };
        eprintln!("metrics: {}", diagnostics.url(listener.local_addr().context("no address")?));
        // Ends with the process, as health checks do.
        tokio::spawn(async move {
            if let Err(error) = diagnostics.serve(listener).await {
                tracing::error!(error = format!("{error:#}"), "metrics are not served");
            }
        });
    }
    let depot = Depot::open(&args.software, &args.data_dir, args.software.artifacts_listen, None).await?;
    let scope = Scope::new(args.namespace.clone(), args.watch_filter.clone());
    let (leads, is_leading) = watch::channel(!args.leader_elect);
    let mut extensions = Extensions::of(&args.hooks, &args.controllers)?;
    let admission_leads = is_leading.clone();
    extensions.hooks.leads = Some(is_leading);
    extensions.hooks.filter = scope.filter().map(str::to_owned);
    let around = Surroundings {
        client,
        plane,
        software: depot.software(),
        machines: Arc::new(LocalMachines::in_folder(args.data_dir.join("machines"))),
        folder: args.data_dir.clone(),
        extensions,
        scope,
        sim_address: args.sim_address.clone(),
        tuning,
        health: controller_health.clone(),
    };
    let mut running = Running::serve(&args.controllers, &around, &stop).await?;
    if let Some(options) = args.admission.options() {
        let options = capstan_webhooks::Options { leads: Some(admission_leads), ..options };
        // Callers wait for the facts that are read.
        let webhooks = capstan_webhooks::start(&urgent, &options, &stop).await;
        running.add(webhooks.context("cannot serve admission webhooks")?.tasks);
    }
    eprintln!("{depot}");
    let mut candidate = args.leader_elect.then(|| candidate(args, &urgent));
    if let Some(candidate) = &mut candidate {
        eprintln!("waiting to lead as {}", candidate.identity());
        tokio::select! {
            () = candidate.lead(|| controller_health.stand_by(args.controllers.names_of_leader())) => {}
            () = stop.clone() => {
                running.ended().await;
                return Ok(());
            }
        }
        leads.send_replace(true);
    }
    let work = async {
        running.control(&args.controllers, &around, &stop).await?;
        eprintln!("controllers: {}; stop with Ctrl-C", args.controllers);
        stop.clone().await;
        running.ended().await;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = work => ended?,
        why = lost(candidate.as_mut()) => {
            // Another one may begin to work at any moment. Nothing is finished any more, nor written.
            eprintln!("capstan: lost the Lease {}: {why}", lease_name(&args.controllers));
            std::process::exit(1);
        }
    }
    if let Some(candidate) = candidate
        && let Err(error) = candidate.release().await
    {
        tracing::warn!(error = chain(&error), "another replica has to wait until the Lease runs out");
    }
    log.finish().await;
    Ok(())
}

async fn lost(candidate: Option<&mut Candidate>) -> String {
    match candidate {
        Some(candidate) => candidate.keep().await,
        None => std::future::pending().await,
    }
}

fn candidate(args: &ManagerArgs, client: &Client) -> Candidate {
    let namespace = args.leader_elect_namespace.clone().unwrap_or_else(own_namespace);
    // In a pod, its name.
    let host = std::fs::read_to_string(HOSTNAME).unwrap_or_default();
    let name = lease_name(&args.controllers);
    Candidate::new(client.clone(), &namespace, &name, host.trim(), Times::default())
}

/// One Lease for each selection of controllers: Deployments that run other ones do not wait for each other.
fn lease_name(controllers: &Selection) -> String {
    format!("capstan-{}-leader", controllers.name())
}

fn own_namespace() -> String {
    let mounted = std::fs::read_to_string(OWN_NAMESPACE).unwrap_or_default();
    match mounted.trim() {
        "" => NAMESPACE.to_owned(),
        namespace => namespace.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_selection_of_controllers_has_a_lease_of_its_own() {
        for (controllers, name) in [
            ("infrastructure", "capstan-infrastructure-leader"),
            ("control-plane", "capstan-control-plane-leader"),
            ("bootstrap, core", "capstan-core-bootstrap-leader"),
            ("all", "capstan-all-leader"),
            ("none", "capstan-none-leader"),
        ] {
            let selection: Selection = controllers.parse().expect("a selection");
            assert_eq!(lease_name(&selection), name);
        }
    }
}
