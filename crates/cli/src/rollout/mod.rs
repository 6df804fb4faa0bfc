//! `capstan rollout`: restart, pause and resume what rolls changes out over machines.

mod args;
mod decide;

pub(crate) use args::{Alpha, RolloutVerb};

use anyhow::{Context, Result};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use std::io::Write as _;

use crate::client::{ASKING, Place};
use crate::progress::waiting;
use decide::{Action, Target, decide};

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
        let resource = ApiResource::from_gvk_with_plural(&target.kind.gvk(), target.kind.plural());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        let found = match waiting(ASKING, api.get_opt(&target.name)).await {
            // Also where nobody knows the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => found.with_context(|| format!("cannot read {target} in namespace {namespace}"))?,
        };
        let found = found.with_context(|| format!("there is no {target} in namespace {namespace}"))?;
        let patch = decide(action, target, &found, Timestamp::now())?;
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        waiting(ASKING, api.patch(&target.name, &params, &patch))
            .await
            .with_context(|| format!("cannot {} {target}", action.words()))?;
        writeln!(std::io::stdout(), "{target} {}", action.done())?;
    }
    Ok(())
}
