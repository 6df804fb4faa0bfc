//! The manifests of a provider: built in, or from a folder in the layout of a clusterctl repository.

use anyhow::{Context, Result, anyhow, bail};
use capstan_api::clusterctl::{Metadata, ProviderType};
use capstan_api::meta::labels;
use capstan_components::{Options, Provider, components, providers, to_yaml};
use capstan_template::Template;
use capstan_text::Version;
use serde_json::{Value, json};
use std::path::Path;

use super::choice::Choice;

/// The manifests of a provider, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Release {
    pub(super) choice: Choice,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) objects: Vec<Value>,
}

/// What this program itself is a release of.
const OWN: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub(super) fn read(choice: &Choice, repository: Option<&Path>, namespace: Option<&str>) -> Result<Release> {
    let (version, text) = match repository {
        None => built_in(choice)?,
        Some(folder) => from_folder(choice, folder)?,
    };
    let label = choice.label();
    let template = Template::parse(&text).with_context(|| format!("cannot use the components of {label}"))?;
    let text = template
        .render(|name| std::env::var(name).ok())
        .with_context(|| format!("cannot use the components of {label}"))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
        anyhow!(
            "the components of {label} are no YAML: {}",
            error.to_string().lines().next().unwrap_or_default()
        )
    })?;
    let objects: Vec<Value> = objects.into_iter().filter(|object| !object.is_null()).collect();
    let (namespace, objects) =
        placed(objects, namespace).with_context(|| format!("cannot use the components of {label}"))?;
    Ok(Release { choice: choice.clone(), version, namespace, objects: labelled(objects, &label) })
}

fn built_in(choice: &Choice) -> Result<(String, String)> {
    let is_it =
        |provider: &Provider| provider.provider_type() == choice.kind && provider.name() == choice.name;
    let Some(provider) = providers().into_iter().find(is_it) else {
        bail!(
            "{} {}: it is not built in; pass --repository DIR with its release, or install it with `clusterctl init`",
            choice.flag(),
            choice.name
        );
    };
    let version = choice.version.as_deref().unwrap_or(OWN);
    if version != OWN {
        bail!(
            "{} {}:{version}: built in is {OWN} only; pass --repository DIR with that release",
            choice.flag(),
            choice.name
        );
    }
    let options = Options::of(provider, version.parse()?);
    Ok((version.to_owned(), to_yaml(&components(provider, &options))))
}

/// `DIR/<label>/<version>/<type>-components.yaml`, with `metadata.yaml` beside it.
fn from_folder(choice: &Choice, folder: &Path) -> Result<(String, String)> {
    let label = choice.label();
    let versions = folder.join(&label);
    let known = subfolders(&versions).unwrap_or_default();
    if known.is_empty() {
        let there = subfolders(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        bail!(
            "{} holds no release of {label} (it holds {}): see `capstan release`",
            folder.display(),
            listed(&there)
        );
    }
    let version = match &choice.version {
        Some(version) => version.clone(),
        None => newest(&known).with_context(|| {
            format!("no folder in {} is named like a version, as in v0.1.0", versions.display())
        })?,
    };
    let release = versions.join(&version);
    if !release.is_dir() {
        bail!("{} holds no {label} {version} (it holds {})", folder.display(), listed(&known));
    }
    let metadata = release.join("metadata.yaml");
    if !metadata.is_file() {
        bail!("{} has no metadata.yaml, which every release has: see `capstan release`", release.display());
    }
    let metadata_text = read_file(&metadata)?;
    let metadata = Metadata::from_yaml(&metadata_text).map_err(|error| {
        let text = format!("{:#}", anyhow::Error::from(error));
        anyhow!("cannot use {}: {}", metadata.display(), text.lines().next().unwrap_or_default())
    })?;
    check_series(&metadata, &version).with_context(|| format!("cannot use {}", release.display()))?;
    let components = release.join(format!("{}-components.yaml", file_stem(choice.kind)));
    Ok((version, read_file(&components)?))
}

/// The version must be of a series that its metadata names, and that series must speak our contract.
fn check_series(metadata: &Metadata, version: &str) -> Result<()> {
    let (major, minor) = Version::parse(version)
        .with_context(|| format!("{version} is not a version: write it like v0.1.0"))?
        .minor();
    let number = |value: Option<i32>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
    let series = &metadata.spec.release_series;
    let own = series.iter().find(|one| (number(one.major), number(one.minor)) == (major, minor));
    let known: Vec<String> =
        series.iter().map(|one| format!("{}.{}", number(one.major), number(one.minor))).collect();
    let Some(own) = own else {
        bail!(
            "metadata.yaml does not know {major}.{minor}, the series of {version} (it knows {})",
            listed(&known)
        );
    };
    let contract = own.contract.as_deref().unwrap_or_default();
    if contract != capstan_api::meta::V1BETA2 {
        bail!(
            "{version} speaks contract {contract:?}, and this program {}: use another version",
            capstan_api::meta::V1BETA2
        );
    }
    Ok(())
}

fn file_stem(kind: ProviderType) -> &'static str {
    match kind {
        ProviderType::Core => "core",
        ProviderType::Bootstrap => "bootstrap",
        ProviderType::ControlPlane => "control-plane",
        ProviderType::Infrastructure => "infrastructure",
        ProviderType::Ipam => "ipam",
        ProviderType::RuntimeExtension => "runtime-extension",
        ProviderType::Addon => "addon",
    }
}

fn read_file(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn subfolders(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn newest(names: &[String]) -> Option<String> {
    let version = |name: &&String| Version::parse_with_v(name);
    names.iter().filter(|name| version(name).is_some()).max_by_key(|name| version(name)).cloned()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// The objects in the namespace that was asked for, in place of the one they name.
fn placed(mut objects: Vec<Value>, asked: Option<&str>) -> Result<(String, Vec<Value>)> {
    let named: Vec<String> = objects
        .iter()
        .filter(|object| object["kind"] == "Namespace")
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let [own] = &named[..] else {
        bail!("there must be exactly one Namespace among them, and there are {}", named.len());
    };
    let Some(asked) = asked.filter(|asked| asked != own) else { return Ok((own.clone(), objects)) };
    for object in &mut objects {
        if object["kind"] == "Namespace" && object["metadata"]["name"] == own.as_str() {
            object["metadata"]["name"] = json!(asked);
        }
        rename(object, own, asked);
    }
    Ok((asked.to_owned(), objects))
}

/// Wherever a `namespace` is the old one: of the object, of a subject of a binding, of the service of a webhook.
fn rename(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "namespace" && value == old {
                    *value = json!(new);
                } else {
                    rename(value, old, new);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, old, new)),
        _ => {}
    }
}

/// With the labels by which clusterctl knows what belongs to a provider, in an order in which they can be applied.
fn labelled(mut objects: Vec<Value>, label: &str) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["labels"][labels::CLUSTERCTL] = json!("");
        object["metadata"]["labels"][labels::PROVIDER] = json!(label);
    }
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        Some("ServiceAccount" | "ClusterRole" | "Role") => 2,
        Some("Deployment" | "DaemonSet" | "StatefulSet") => 4,
        _ => 3,
    });
    objects
}

#[cfg(test)]
mod tests;
