//! `capstan rollout`: restart, pause and resume control planes and MachineDeployments.

mod args;
mod decide;

pub(crate) use args::{Alpha, RolloutVerb};

use anyhow::{Context, Result};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use std::io::Write as _;

use crate::client::{ASKING, Place};
use crate::progress::waiting;
pub(crate) use decide::Action;
use decide::{Target, decide};

pub(crate) async fn run(verb: &RolloutVerb) -> Result<()> {
    let (action, args) = match verb {
        RolloutVerb::Restart(args) => (Action::Restart, args),
        RolloutVerb::Pause(args) => (Action::Pause, args),
        RolloutVerb::Resume(args) => (Action::Resume, args),
    };
    // All names first: nothing is done when one of them is wrong.
    let targets: Vec<Target> = args.what.iter().map(|what| what.parse()).collect::<Result<_>>()?;
    let Place { client, namespace } = args.place.connect().await?;
    for target in &targets {
        waiting(ASKING, change(&client, &namespace, action, target)).await?;
        writeln!(std::io::stdout(), "{target} {}", action.done())?;
    }
    Ok(())
}

/// Executes an action on one object, named as KIND/NAME.
pub(crate) async fn act(client: &Client, namespace: &str, action: Action, what: &str) -> Result<()> {
    change(client, namespace, action, &what.parse()?).await
}

async fn change(client: &Client, namespace: &str, action: Action, target: &Target) -> Result<()> {
    let resource = ApiResource::from_gvk_with_plural(&target.kind.gvk(), target.kind.plural());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = match api.get_opt(&target.name).await {
        // Also where the server does not know the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        found => found.with_context(|| format!("cannot read {target} in namespace {namespace}"))?,
    };
    let found = found.with_context(|| format!("there is no {target} in namespace {namespace}"))?;
    let patch = decide(action, target, &found, Timestamp::now())?;
    api.patch(&target.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .with_context(|| format!("cannot {} {target}", action.words()))?;
    Ok(())
}
