//! `capstan get`: the most requested objects, as tables.
//!
//! `clusters`, `machines` and `hosts` define the columns and do no I/O; this file reads and prints the objects.

mod args;
mod cells;
mod clusters;
mod hosts;
pub(crate) mod kubeconfig;
mod machines;

pub(crate) use args::{Get, GetArgs, GetOutput};

use anyhow::{Context, Result};
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::Host;
use capstan_api::meta::labels;
use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::io::Write as _;

use crate::args::Output;
use crate::client::{ASKING, Place};
use crate::pages;
use crate::progress::waiting;
use crate::table::table;
use crate::terminal::{self, harmless};

/// What is shown of one kind.
struct KindTable {
    resource: ApiResource,
    /// Titles of the columns; those after the last usual one are for `-o wide`.
    titles: &'static [&'static str],
    usual: usize,
    row: fn(&Value, Timestamp) -> Vec<String>,
    /// The last column, which is a sentence.
    waits: fn(&Value) -> String,
    /// What is compared when objects are sorted.
    key: fn(&Value) -> Vec<String>,
}

pub(crate) async fn run(verb: Get) -> Result<()> {
    match verb {
        Get::Clusters(args) => list(&args, None, &clusters::shown(resource::<Cluster>())).await,
        Get::Machines(args) => {
            let cluster = args.cluster.map(|name| format!("{}={name}", labels::CLUSTER_NAME));
            list(&args.get, cluster, &machines::shown(resource::<Machine>())).await
        }
        Get::Hosts(args) => list(&args, None, &hosts::shown(resource::<Host>())).await,
        Get::Kubeconfig(args) => {
            let place = args.place.connect().await?;
            kubeconfig::run(&place, &args.name).await
        }
    }
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

async fn list(args: &GetArgs, more: Option<String>, shown: &KindTable) -> Result<()> {
    let place = args.place.connect().await?;
    let selector: Vec<String> = args.selector.iter().cloned().chain(more).collect();
    let selector = selector.join(",");
    let mut objects = waiting(ASKING, read(args, &place, &selector, &shown.resource)).await?;
    objects.sort_by_cached_key(shown.key);
    if objects.is_empty() && matches!(args.output, None | Some(GetOutput::Wide)) {
        let kind = &shown.resource.plural;
        match args.all_namespaces {
            true => eprintln!("no {kind} in any namespace"),
            false => eprintln!("no {kind} in namespace {}: see -n and -A", place.namespace),
        }
        return Ok(());
    }
    let text = printed(&objects, args, shown, Timestamp::now(), terminal::width())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

async fn read(args: &GetArgs, place: &Place, selector: &str, resource: &ApiResource) -> Result<Vec<Value>> {
    let Place { client, namespace } = place;
    let api: Api<DynamicObject> = match args.all_namespaces {
        true => Api::all_with(client.clone(), resource),
        false => Api::namespaced_with(client.clone(), namespace, resource),
    };
    let kind = &resource.kind;
    let mut objects = Vec::new();
    for name in &args.names {
        let found = api.get_opt(name).await;
        let found = found.with_context(|| format!("cannot read {kind} {namespace}/{name}"))?;
        let found = found.with_context(|| {
            format!(
                "there is no {kind} {name} in namespace {namespace} (see `capstan get {} -A`)",
                resource.plural
            )
        })?;
        objects.push(pages::value(&found, resource)?);
    }
    if !args.names.is_empty() {
        return Ok(objects);
    }
    let params = ListParams {
        label_selector: Some(selector.to_owned()).filter(|it| !it.is_empty()),
        ..ListParams::default()
    };
    match pages::list(&api, resource, params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "the management plane does not serve {}.{}: is it one of Cluster API? `capstan init` installs it",
            resource.plural,
            resource.group
        ),
        listed => listed.with_context(|| match args.all_namespaces {
            true => format!("cannot list {} in all namespaces", resource.plural),
            false => format!("cannot list {} in namespace {namespace}", resource.plural),
        }),
    }
}

fn printed(
    objects: &[Value],
    args: &GetArgs,
    shown: &KindTable,
    now: Timestamp,
    width: Option<usize>,
) -> Result<String> {
    let whole = |output: Output| match (objects, args.names.len()) {
        ([only], 1) => output.print(only),
        _ => output.print(&json!({"apiVersion": "v1", "kind": "List", "items": objects})),
    };
    match args.output {
        Some(GetOutput::Json) => whole(Output::Json),
        Some(GetOutput::Yaml) => whole(Output::Yaml),
        Some(GetOutput::Name) => {
            let resource = &shown.resource;
            let kind = format!("{}.{}", resource.kind.to_ascii_lowercase(), resource.group);
            Ok(objects.iter().map(|object| format!("{kind}/{}\n", harmless(cells::name(object)))).collect())
        }
        Some(GetOutput::Wide) => Ok(rows(objects, args.all_namespaces, shown, shown.titles.len(), now)),
        None => {
            let text = rows(objects, args.all_namespaces, shown, shown.usual, now);
            // On a terminal the last column ends where the line does.
            Ok(match width {
                Some(width) => text.lines().map(|line| terminal::cut(line, width) + "\n").collect(),
                None => text,
            })
        }
    }
}

fn rows(
    objects: &[Value],
    with_namespace: bool,
    shown: &KindTable,
    columns: usize,
    now: Timestamp,
) -> String {
    let mut titles: Vec<&str> = shown.titles[..columns].to_vec();
    let mut rows: Vec<Vec<String>> = objects.iter().map(|object| (shown.row)(object, now)).collect();
    titles.push("WAITING FOR");
    for (row, object) in rows.iter_mut().zip(objects) {
        row.truncate(columns);
        row.push((shown.waits)(object));
    }
    if with_namespace {
        titles.insert(0, "NAMESPACE");
        for (row, object) in rows.iter_mut().zip(objects) {
            row.insert(0, cells::text(&object["metadata"]["namespace"]));
        }
    }
    table(&titles, &rows)
}

#[cfg(test)]
mod tests;
