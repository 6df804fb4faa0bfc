//! Selects the management plane and the namespace to use.

use anyhow::{Context, Result};
use capstan_controller::Metrics;
use capstan_controller::throttle::Throttle;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};

/// Progress message for requests, shown if the plane does not respond quickly.
pub(crate) const ASKING: &str = "asking the management plane";

/// The management plane.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PlaneArgs {
    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of that kubeconfig [default: its current context]
    #[arg(long, value_name = "CONTEXT", visible_alias = "context")]
    pub(crate) kubeconfig_context: Option<String>,
}

/// The management plane and the namespace.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlaceArgs {
    /// Namespace [default: that of the context]
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

/// A client of a plane, and the namespace.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl PlaneArgs {
    /// The configuration from `--kubeconfig`, else from where kubectl finds it.
    pub(crate) async fn config(&self) -> Result<Config> {
        let context = self.kubeconfig_context.clone();
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let Some(path) = &self.kubeconfig else {
            let found = match options.context {
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

    /// A client, and the namespace of the context.
    pub(crate) async fn connect(&self) -> Result<Place> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        Ok(Place { client: Client::try_from(config).context("cannot make a client")?, namespace })
    }
}

impl PlaceArgs {
    pub(crate) async fn connect(&self) -> Result<Place> {
        let place = self.plane.connect().await?;
        Ok(Place { namespace: self.namespace.clone().unwrap_or(place.namespace), ..place })
    }
}

/// A client whose requests are counted, and throttled if there is a throttle.
pub(crate) fn counted(config: Config, metrics: &Metrics, throttle: Option<&Throttle>) -> Result<Client> {
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let counts = metrics.count_requests(&host);
    let builder = ClientBuilder::try_from(config).context("cannot make a client")?;
    Ok(match throttle {
        // Counted when they are made, not when they begin to wait.
        Some(throttle) => builder.with_layer(&counts).with_layer(throttle).build(),
        None => builder.with_layer(&counts).build(),
    })
}

/// What is wrong with a file, without the picture of it that may follow.
#[allow(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
fn in_one_line(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    anyhow::anyhow!("{}", text.lines().next().unwrap_or_default().to_owned())
}

/// A client for the plane of a kubeconfig.
pub(crate) async fn connect(kubeconfig: &Path) -> Result<Client> {
    let plane = PlaneArgs { kubeconfig: Some(kubeconfig.to_owned()), kubeconfig_context: None };
    Ok(plane.connect().await?.client)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
        clusters: [{name: plane, cluster: {server: 'https://127.0.0.1:1'}}]
        users: [{name: me, user: {token: t}}]
        contexts:
        - {name: here, context: {cluster: plane, user: me, namespace: shop}}
        - {name: plain, context: {cluster: plane, user: me}}
        current-context: here";

    #[tokio::test]
    async fn the_namespace_is_that_of_the_context_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let namespace = async |namespace: Option<&str>, context: Option<&str>| {
            let kubeconfig_context = context.map(str::to_owned);
            let plane = PlaneArgs { kubeconfig: Some(path.clone()), kubeconfig_context };
            let place = PlaceArgs { namespace: namespace.map(str::to_owned), plane };
            place.connect().await.unwrap().namespace
        };
        assert_eq!(namespace(None, None).await, "shop");
        assert_eq!(namespace(None, Some("plain")).await, "default");
        assert_eq!(namespace(Some("other"), None).await, "other");
    }
}
