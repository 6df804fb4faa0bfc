//! Which management plane to talk to.

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// A client by `--kubeconfig`, else as kubectl finds it.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("cannot use {}", path.display()))?
        }
        None => Config::infer()
            .await
            .context("there is no management plane to talk to: pass --kubeconfig, or set KUBECONFIG")?,
    };
    Client::try_from(config).context("cannot make a client")
}
