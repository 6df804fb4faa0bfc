//! `capstan why`: follows the chain of hand-offs to the one that waits.

mod cluster;
mod handoffs;
mod machine;
mod rollout;

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::time::Duration;

use crate::args::WhyArgs;
use crate::client::Place;
use crate::describe;
use crate::terminal::{Look, harmless};
pub(crate) use cluster::hand_off;
pub(crate) use handoffs::{HandOff, Stand, World, handoffs};
pub(crate) use machine::read;
pub(crate) use rollout::{Rollout, RolloutMachine, RolloutPosition, rollouts};

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &WhyArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let find = async || explain(&place, &args.what).await;
    let text = |answer: &Answer, look: Look| {
        let now = Timestamp::now();
        look.fit(&match &answer.about {
            About::Cluster(snapshot) => cluster::text(snapshot, now, look),
            About::Machine(world) => machine::text(world, now, look),
        })
    };
    args.show.show(LOOK, find, text).await.map(drop)
}

/// The text for a cluster, without colour.
pub(crate) fn of_cluster(snapshot: &describe::Snapshot, now: Timestamp) -> String {
    cluster::text(snapshot, now, Look::default())
}

/// What is known, and what programs are told of it, by which answers are compared: ages count on, and are no news.
struct Answer {
    about: About,
    json: Value,
}

enum About {
    Cluster(Box<describe::Snapshot>),
    Machine(Box<World>),
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

async fn explain(Place { client, namespace }: &Place, what: &str) -> Result<Answer> {
    let (kind, name) = what.split_once('/').unwrap_or(("cluster", what));
    Ok(match kind.to_ascii_lowercase().as_str() {
        "cluster" | "clusters" => {
            let snapshot = describe::read(client.clone(), namespace, name).await?;
            Answer {
                json: cluster::json(&snapshot, Timestamp::now()),
                about: About::Cluster(Box::new(snapshot)),
            }
        }
        "machine" | "machines" => {
            let world = read(client.clone(), namespace, name).await?;
            Answer { json: machine::json(&world), about: About::Machine(Box::new(world)) }
        }
        other => bail!("{other:?} cannot be asked about: say cluster/NAME or machine/NAME"),
    })
}

/// The end of what the step that failed or runs has printed on that machine.
fn last_lines(report: &Value) -> Option<String> {
    let output = &report["status"]["output"];
    let part = |stream: &str| {
        let excerpt = &output[stream];
        excerpt["tail"].as_str().or_else(|| excerpt["head"].as_str()).map(str::to_owned)
    };
    let text: String = ["stdout", "stderr"].into_iter().filter_map(part).collect();
    let text = harmless(&text);
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
    (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(10)..].concat())
}
