//! `capstan generate`: renders manifests from a template, and the RoleBindings that managers need in a namespace.
//!
//! A flag takes precedence over the environment, and the environment over the template's default, as with clusterctl.

mod args;
mod source;
mod version;

pub(crate) use args::{Generate, GenerateClusterArgs};
pub(crate) use source::BUILT_IN;

use anyhow::{Context, Result, anyhow, bail};
use capstan_template::{Missing, Template};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;

use source::Source;

pub(crate) async fn run(verb: &Generate) -> Result<()> {
    match verb {
        Generate::Cluster(args) => cluster(args).await,
        Generate::Access(args) => {
            let text = capstan_components::to_yaml(&capstan_components::access_bindings(&args.namespace));
            std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
        }
        Generate::Admission => std::io::stdout().write_all(admission().as_bytes()).map_err(Into::into),
    }
}

/// The manifest of the admission webhooks.
fn admission() -> String {
    let arguments = capstan_webhooks::manifest::arguments().join("\n#   ");
    let objects = capstan_components::to_yaml(&capstan_webhooks::manifest::objects());
    format!(
        "# The plane calls the admission webhooks of the core provider. Its manager needs in addition:\n#   {arguments}\n{objects}"
    )
}

async fn cluster(args: &GenerateClusterArgs) -> Result<()> {
    let source = source::read(args).await?;
    let out = match args.list_variables {
        true => list(&parsed(&source)?),
        false => {
            let environment = |name: &str| std::env::var(name).ok();
            rendered(&source, args, environment)?
        }
    };
    match &args.write_to {
        Some(path) => std::fs::write(path, out).with_context(|| format!("cannot write {}", path.display())),
        None => std::io::stdout().write_all(out.as_bytes()).map_err(Into::into),
    }
}

fn parsed(source: &Source) -> Result<Template> {
    Template::parse(&source.text).with_context(|| format!("cannot use {}", source.origin))
}

/// The manifests, which are objects in YAML.
fn rendered(
    source: &Source,
    args: &GenerateClusterArgs,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<String> {
    let template = parsed(source)?;
    let from_environment =
        environment(version::VARIABLE).filter(|_| template.variables().contains_key(version::VARIABLE));
    version::check(args.kubernetes_version.as_deref(), from_environment.as_deref())?;
    let flags = flags(args);
    let text = template
        .render(|name| flags(name).or_else(|| environment(name)))
        .map_err(explained)
        .with_context(|| format!("cannot use {}", source.origin))?;
    check(&text).with_context(|| format!("{} gives no manifests", source.origin))?;
    Ok(text)
}

/// What is missing; a version can also be given by a flag.
fn explained(missing: Missing) -> anyhow::Error {
    let names_version = missing.0.contains(version::VARIABLE);
    let error = anyhow::Error::from(missing);
    if names_version { error.context(version::MISSING) } else { error }
}

/// Says what is wrong with manifests before a server does, and where.
fn check(text: &str) -> Result<()> {
    // Of many lines, the first says what and where; the rest draws a picture of it.
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        let text = error.to_string();
        anyhow!("{}", text.lines().next().unwrap_or_default().to_owned())
    })?;
    let mut objects = 0;
    for (number, document) in (1..).zip(&documents).filter(|(_, document)| !document.is_null()) {
        objects += 1;
        for field in ["apiVersion", "kind", "metadata.name", "metadata.namespace"] {
            let found = field.split('.').try_fold(document, |value, key| value.get(key));
            match found {
                Some(Value::String(text)) if !text.is_empty() => {}
                // A name that YAML reads as something else, such as off, 1 or null.
                Some(found) => {
                    bail!(
                        "document {number}: {field} is {found} and must be a text: put it in quotes in the template"
                    )
                }
                None if field == "metadata.namespace" => {}
                None => bail!("document {number} is not a Kubernetes object: it has no {field}"),
            }
        }
    }
    match objects {
        0 => bail!("it is empty"),
        _ => Ok(()),
    }
}

/// What flags say of the variables every template knows.
fn flags(args: &GenerateClusterArgs) -> impl Fn(&str) -> Option<String> {
    |name| match name {
        "CLUSTER_NAME" => args.name.clone(),
        "NAMESPACE" => Some(args.target_namespace.clone()),
        "KUBERNETES_VERSION" => args.kubernetes_version.clone(),
        "CONTROL_PLANE_MACHINE_COUNT" => args.control_plane_machine_count.map(|count| count.to_string()),
        "WORKER_MACHINE_COUNT" => args.worker_machine_count.map(|count| count.to_string()),
        _ => None,
    }
}

fn list(template: &Template) -> String {
    let variables = template.variables();
    let (optional, required): (Vec<_>, Vec<_>) = variables.iter().partition(|(_, default)| default.is_some());
    let mut text = String::new();
    for (title, variables) in [("Required Variables", required), ("Optional Variables", optional)] {
        if !variables.is_empty() {
            // Writing to a String cannot fail.
            _ = writeln!(text, "{title}:");
        }
        for (name, default) in variables {
            match default {
                Some(default) => _ = writeln!(text, "  - {name}  (defaults to {default})"),
                None => _ = writeln!(text, "  - {name}"),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
