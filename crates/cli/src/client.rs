//! Which management plane to talk to.

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

use crate::args::ClusterArgs;

/// By `--kubeconfig`, else as kubectl finds it.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config> {
    config_in(kubeconfig, None).await
}

/// The same, in a context that is not the current one.
pub(crate) async fn config_in(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let Some(path) = kubeconfig else {
        let found = match context {
            None => Config::infer().await.map_err(anyhow::Error::from),
            Some(_) => Config::from_kubeconfig(&options).await.map_err(anyhow::Error::from),
        };
        return found
            .map_err(in_one_line)
            .context("there is no management plane to talk to: pass --kubeconfig, or set KUBECONFIG");
    };
    let file = Kubeconfig::read_from(path)
        .map_err(|error| in_one_line(error.into()))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(|error| in_one_line(error.into()))
        .with_context(|| format!("cannot use {}", path.display()))
}

/// What is wrong with a file, without the picture of it that may follow.
#[allow(clippy::needless_pass_by_value, reason = "stands where errors are mapped")]
fn in_one_line(error: anyhow::Error) -> anyhow::Error {
    let told = format!("{error:#}");
    anyhow::anyhow!("{}", told.lines().next().unwrap_or_default().to_owned())
}

/// A client for that plane.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> Result<Client> {
    Client::try_from(config(kubeconfig).await?).context("cannot make a client")
}

impl ClusterArgs {
    /// A client for the plane the cluster is managed by.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let config = config_in(self.kubeconfig.as_deref(), self.kubeconfig_context.as_deref()).await?;
        Client::try_from(config).context("cannot make a client")
    }
}
