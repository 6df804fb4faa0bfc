//! Serves an API server on loopback with a throw-away authority:
//! `cargo run -p capstan-apiserver --example serve -- <port> <folder for kubeconfig and data>`.

#![allow(clippy::print_stdout, missing_docs)]

#[path = "../tests/support/pki.rs"]
mod pki;

use std::path::PathBuf;

use anyhow::{Context, Result};
use capstan_apiserver::{ApiServer, Authority, Options, Storage};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().context("a port")?.parse()?;
    let folder = PathBuf::from(arguments.next().context("a folder")?);
    std::fs::create_dir_all(&folder)?;
    let authority = pki::Authority::new()?;
    let mut options = Options::new(Storage::Folder(folder.join("data")));
    options.client_authority = Some(Authority { certificate: authority.pem(), key: authority.key() });
    let server = ApiServer::open(options).await?;
    let address = server.serve(TcpListener::bind(("127.0.0.1", port)).await?, &authority.server()?)?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, authority.kubeconfig(address.port(), "kubernetes-admin", "system:masters")?)?;
    println!("serving on {address}: export KUBECONFIG={}", kubeconfig.display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
