//! `capstan plan`: shows the effects of a change, machine by machine and field by field, before it is made.
//!
//! The server returns the future objects in a dry run; the decision functions of the controllers compute what would
//! happen to machines. Nothing is written.

mod by_hand;
mod diff;
mod future;
mod hosts;
mod manifests;
mod render;
mod report;
mod server;
mod timeline;
mod windows;
mod workers;

use anyhow::Result;
use kube::Client;
use serde_json::Value;
use std::time::Duration;

use crate::args::PlanArgs;
use crate::client::Place;
use crate::host::Exit;
use crate::terminal::Progress;
use future::Future;
pub(crate) use manifests::parse;
pub(crate) use report::{Action, Field, Machine, Object, Outcome, Plan, Refusal};
use server::Tried;

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(2);
/// Something would be refused.
const REFUSED: u8 = 1;
/// Something would change, and `--exit-code` asks for that to be told.
const CHANGES: u8 = 2;

pub(crate) async fn run(args: &PlanArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let find = async || Box::pin(plan(&place, args)).await;
    let plan = args.show.show(LOOK, find, |plan, look| look.fit(&render::text(plan, look))).await?;
    match code(&plan, args.exit_code) {
        0 => Ok(()),
        code => Err(Exit(code).into()),
    }
}

fn code(plan: &Plan, tells_changes: bool) -> u8 {
    match (plan.refused, plan.changes && tells_changes) {
        (true, _) => REFUSED,
        (false, true) => CHANGES,
        (false, false) => 0,
    }
}

async fn plan(place: &Place, args: &PlanArgs) -> Result<Plan> {
    let progress = Progress::new();
    let manifests = manifests::read(&args.files, &place.namespace)?;
    Box::pin(of_objects(&place.client, manifests, args.force, |text| progress.show(text))).await
}

/// The effects of applying these objects. `progress` receives the current step.
pub(crate) async fn of_objects(
    client: &Client,
    manifests: Vec<Value>,
    force: bool,
    progress: impl Fn(&str),
) -> Result<Plan> {
    let total = manifests.len();
    let mut tried = Vec::new();
    for (number, manifest) in (1..).zip(manifests) {
        progress(&format!("asking the server about {number} of {total}"));
        tried.push(server::attempt(client, manifest, force).await?);
    }
    let notes = tried.iter().filter(|tried| tried.is_changed()).filter_map(|tried| {
        let (before, after) = (tried.before.as_ref(), tried.after.as_ref());
        let (before, after) = (before.map(|object| &object.data), after.map(|object| &object.data));
        unforeseen(&tried.kind, &tried.name, before, after)
    });
    let notes = notes.collect();
    let plan = Plan { objects: tried.iter().map(object).collect(), notes, ..Plan::default() };
    progress("asking the controllers what they would do");
    Ok(Box::pin(Future::new(client.clone(), &tried, plan).foresee()).await?.sum_up())
}

impl Tried {
    /// Whether the server would take it, and it would not be as it is.
    fn is_changed(&self) -> bool {
        matches!(object(self).action, Action::Create | Action::Change)
    }
}

/// What a change leads to that is not shown.
fn unforeseen(kind: &str, name: &str, before: Option<&Value>, after: Option<&Value>) -> Option<String> {
    let topology =
        |object: Option<&Value>| object.and_then(|object| object.pointer("/spec/topology")).cloned();
    match kind {
        "ClusterClass" => {
            Some(format!("ClusterClass {name}: what changes in the clusters of the class is not shown"))
        }
        "Cluster" if topology(before) != topology(after) => Some(format!(
            "Cluster {name}: what its topology changes in other objects and in machines is not shown"
        )),
        _ => None,
    }
}

fn object(tried: &Tried) -> Object {
    let fields = match (&tried.before, &tried.after) {
        (Some(before), Some(after)) => diff::fields(before, after),
        _ => vec![],
    };
    let action = match (&tried.before, &tried.after) {
        _ if !tried.refused.is_empty() => Action::Refused,
        (None, _) => Action::Create,
        _ if fields.is_empty() => Action::Unchanged,
        _ => Action::Change,
    };
    Object {
        kind: tried.kind.clone(),
        namespace: tried.namespace.clone(),
        name: tried.name.clone(),
        action,
        fields,
        refusals: tried.refused.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_shown_is_said() {
        let cluster = |version: &str| json!({"spec": {"paused": true, "topology": {"version": version}}});
        let (old, new) = (cluster("v1"), cluster("v2"));
        for (kind, before, after, expected) in [
            ("Cluster", Some(&old), Some(&old), false),
            ("Cluster", Some(&old), Some(&new), true),
            ("Cluster", None, Some(&new), true),
            ("ClusterClass", Some(&old), Some(&new), true),
            ("Machine", Some(&old), Some(&new), false),
        ] {
            assert_eq!(unforeseen(kind, "c", before, after).is_some(), expected, "{kind}");
        }
    }

    #[test]
    fn exit_codes_say_what_scripts_ask() {
        let plan = |changes, refused| Plan { changes, refused, ..Plan::default() };
        for (changes, refused, asked, expected) in [
            (false, false, false, 0),
            (true, false, false, 0),
            (false, false, true, 0),
            (true, false, true, 2),
            (true, true, false, 1),
            (false, true, true, 1),
        ] {
            assert_eq!(code(&plan(changes, refused), asked), expected);
        }
    }
}
