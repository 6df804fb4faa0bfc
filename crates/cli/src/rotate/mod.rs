//! `capstan rotate`: replaces keys.

mod args;
mod decide;
mod plane_ca;
mod token_key;

pub(crate) use args::RotateVerb;

use anyhow::{Context, Result, bail};
use capstan_api::controlplane::{CapstanControlPlane, ROTATE_PLAN_KEY};
use capstan_api::core::Cluster;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;
use tokio::time::Instant;

use crate::client::{ASKING, Place};
use crate::progress::waiting;
use args::PlanKeyArgs;
use decide::{Stand, is_over, stand};

/// Between two looks at a replacement.
const AGAIN: Duration = Duration::from_millis(500);

pub(crate) async fn run(verb: &RotateVerb) -> Result<()> {
    match verb {
        RotateVerb::PlanKey(args) => plan_key(args).await,
        RotateVerb::TokenKey(args) => token_key::run(args).await,
        RotateVerb::PlaneCa(args) => plane_ca::run(args).await,
    }
}

async fn plan_key(args: &PlanKeyArgs) -> Result<()> {
    let Place { client, namespace } = args.cluster.place.connect().await?;
    let cluster = &args.cluster.name;
    let name = waiting(ASKING, control_plane(&Api::namespaced(client.clone(), &namespace), cluster)).await?;
    let api: Api<CapstanControlPlane> = Api::namespaced(client, &namespace);
    let read =
        async || api.get(&name).await.with_context(|| format!("cannot read CapstanControlPlane {name}"));
    let before = stand(&waiting(ASKING, read()).await?);
    match &before {
        Stand::Unable(why) => bail!("{why}. Replace these machines first"),
        Stand::Underway(why) => eprintln!("a replacement is under way already: {why}"),
        Stand::Never | Stand::Done(_) => {
            let now = Timestamp::from_second(Timestamp::now().as_second())?;
            let patch =
                Patch::Merge(json!({"metadata": {"annotations": {ROTATE_PLAN_KEY: now.to_string()}}}));
            let parameters = PatchParams::default();
            let asked = api.patch(&name, &parameters, &patch);
            waiting(ASKING, asked)
                .await
                .with_context(|| format!("cannot annotate CapstanControlPlane {name}"))?;
        }
    }
    let said = match args.no_wait {
        true => None,
        false => {
            let deadline = Instant::now() + Duration::from_secs(args.timeout);
            let what = format!("waiting until every machine of {cluster} trusts the new plan key");
            Some(waiting(what, until_over(&before, deadline, read)).await?)
        }
    };
    let text = match (args.output, said) {
        (Some(output), said) => {
            output.print(&json!({"cluster": cluster, "replaced": said.is_some(), "message": said}))?
        }
        (None, Some(said)) => {
            format!(
                "{said}\nMake a backup of the management plane: with an older one, machines would reject its plans.\n"
            )
        }
        (None, None) => format!("cluster {cluster}: the plan key is being replaced\n"),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// The name of the cluster's CapstanControlPlane.
async fn control_plane(clusters: &Api<Cluster>, name: &str) -> Result<String> {
    let cluster = clusters.get_opt(name).await.with_context(|| format!("cannot read cluster {name}"))?;
    let cluster =
        cluster.with_context(|| format!("there is no cluster {name}: see `capstan get clusters -A`"))?;
    match cluster.spec.control_plane_ref {
        Some(reference) if reference.kind == "CapstanControlPlane" => Ok(reference.name),
        _ => bail!("cluster {name} has no CapstanControlPlane, so its machines have no plans of Capstan"),
    }
}

async fn until_over(
    before: &Stand,
    deadline: Instant,
    read: impl AsyncFn() -> Result<CapstanControlPlane>,
) -> Result<String> {
    loop {
        let now = stand(&read().await?);
        match &now {
            Stand::Done(said) if is_over(before, &now) => return Ok(said.clone()),
            Stand::Unable(why) => bail!("{why}. Replace these machines first"),
            Stand::Underway(why) if Instant::now() >= deadline => {
                bail!("the plan key is replaced, and not every machine trusts it yet. {why}")
            }
            _ if Instant::now() >= deadline => {
                bail!("the control plane has not begun to replace its plan key: does its manager run?")
            }
            _ => tokio::time::sleep(AGAIN).await,
        }
    }
}
