//! `capstan manager`: the controllers alone, against a plane that is somebody else's.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_bootstrap::Plane;
use kube::{Client, Config};
use std::sync::Arc;

use crate::args::ManagerArgs;
use crate::controllers::Surroundings;
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::software::Depot;
use crate::{client, controllers, log, stop};

pub(crate) async fn run(args: &ManagerArgs) -> Result<()> {
    log::to_stderr();
    let config = client::config(args.kubeconfig.as_deref()).await?;
    let plane = plane(&config);
    let client = Client::try_from(config).context("cannot make a client")?;
    let stop = stop::on_signal()?;
    let depot = Depot::open(&args.software, &args.data_dir, args.software.artifacts_listen, None).await?;
    let around = Surroundings {
        client,
        plane,
        software: depot.software(),
        machines: Arc::new(LocalMachines::in_folder(args.data_dir.join("machines"))),
        folder: args.data_dir.clone(),
        extensions: Extensions::of(&args.hooks)?,
    };
    let running = controllers::start(&args.controllers, &around, &stop).await?;
    eprintln!("{depot}");
    eprintln!("controllers: {}; stop with Ctrl-C", args.controllers);
    stop.await;
    running.ended().await;
    Ok(())
}

/// The plane as machines reach it: where we reach it ourselves.
fn plane(config: &Config) -> Plane {
    let certificates = config.root_cert.iter().flatten();
    let pem: String = certificates
        .map(|der| {
            let lines: Vec<String> = BASE64_STANDARD
                .encode(der)
                .as_bytes()
                .chunks(64)
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        })
        .collect();
    let server = config.cluster_url.to_string();
    Plane { server: server.trim_end_matches('/').to_owned(), ca: pem.into_bytes() }
}
