//! Sources of templates: built in, a file, standard input, or a ConfigMap. Never the internet.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use std::io::Read as _;
use std::path::Path;

use super::args::GenerateClusterArgs;
use crate::client::ASKING;
use crate::progress::waiting;

/// The built-in template for any kind of hosts.
pub(crate) const BUILT_IN: &str = include_str!("../../../../templates/cluster-template.yaml");

/// The others, by flavor.
const FLAVORS: [(&str, &str); 4] = [
    ("ha", include_str!("../../../../templates/cluster-template-ha.yaml")),
    ("simulated", include_str!("../../../../templates/cluster-template-simulated.yaml")),
    ("single-node", include_str!("../../../../templates/cluster-template-single-node.yaml")),
    ("topology", include_str!("../../../../templates/cluster-template-topology.yaml")),
];

/// A template, and its name for errors.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) origin: String,
}

pub(super) async fn read(args: &GenerateClusterArgs) -> Result<Source> {
    if let Some(name) = &args.from_config_map {
        return config_map(args, name).await;
    }
    match &args.from {
        Some(from) => file(from),
        None => built_in(args.flavor.as_deref(), args.infrastructure.as_deref()),
    }
}

pub(super) fn built_in(flavor: Option<&str>, infrastructure: Option<&str>) -> Result<Source> {
    if let Some(asked) = infrastructure {
        let (name, version) = asked.split_once(':').unwrap_or((asked, ""));
        if name != "capstan" {
            bail!(
                "--infrastructure {name}: only the templates of capstan are built in; pass the template with --from FILE"
            );
        }
        let ours = concat!("v", env!("CARGO_PKG_VERSION"));
        if !version.is_empty() && version != ours {
            bail!(
                "--infrastructure {asked}: this program has the templates of {ours} only; pass the template with --from FILE"
            );
        }
    }
    let Some(flavor) = flavor.filter(|flavor| !flavor.is_empty()) else {
        return Ok(Source { text: BUILT_IN.to_owned(), origin: "the built-in template".to_owned() });
    };
    let Some((_, text)) = FLAVORS.iter().find(|(name, _)| *name == flavor) else {
        let known: Vec<&str> = FLAVORS.iter().map(|(name, _)| *name).collect();
        bail!(
            "there is no flavor {flavor:?}: use one of {}, or none for a cluster on whatever hosts there are",
            known.join(", ")
        );
    };
    Ok(Source { text: (*text).to_owned(), origin: format!("the built-in template {flavor}") })
}

pub(super) fn file(from: &str) -> Result<Source> {
    if from == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(Source { text, origin: "standard input".to_owned() });
    }
    if from.starts_with("https://") || from.starts_with("http://") {
        bail!(
            "--from {from}: templates are not fetched over the network; try `curl -fsSL {from} | capstan generate cluster … --from -`"
        );
    }
    let path = Path::new(from.strip_prefix("file://").unwrap_or(from));
    if path.is_dir() {
        bail!("--from {from} is a folder: pass a file in it, such as cluster-template.yaml");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Source { text, origin: path.display().to_string() })
}

async fn config_map(args: &GenerateClusterArgs, name: &str) -> Result<Source> {
    let place = args.plane.connect().await?;
    let namespace = args.from_config_map_namespace.clone().unwrap_or(place.namespace);
    let api: Api<ConfigMap> = Api::namespaced(place.client, &namespace);
    let found = waiting(ASKING, api.get_opt(name)).await;
    let found = found.with_context(|| format!("cannot read ConfigMap {namespace}/{name}"))?;
    let Some(map) = found else {
        bail!("there is no ConfigMap {name} in namespace {namespace}: see --from-config-map-namespace");
    };
    let key = &args.from_config_map_key;
    let mut data = map.data.unwrap_or_default();
    let Some(text) = data.remove(key) else {
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        bail!(
            "ConfigMap {namespace}/{name} has no key {key} (it has {}): see --from-config-map-key",
            keys.join(", ")
        );
    };
    Ok(Source { text, origin: format!("ConfigMap {namespace}/{name}") })
}
