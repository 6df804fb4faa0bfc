//! The power is cut at every single operation of the machine while a plan of rancher/system-agent is applied, and while its run is
//! forgotten. The next process ends where the first would have ended, and repeats no instruction but the interrupted one.

#![cfg(test)]

#[path = "../../agent/tests/support/world.rs"]
#[allow(dead_code, reason = "the world of the agent's own tests can do more")]
mod world;

use capstan_agent::image::ImageReference;
use capstan_agent::machine::MachineError;
use capstan_plan::Digest;
use capstan_sentinel::apply::{Applier, Pulled, Registry, Settings};
use capstan_sentinel::output::Saved;
use capstan_sentinel::plan::Plan;
use capstan_sentinel::progress::Identity;
use capstan_sentinel::report::Outcome;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use world::{Death, Node, World};

/// The time at which the files of the world were changed.
const fn start() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

struct NoRegistry;

impl Registry for NoRegistry {
    async fn pull(&self, _: &ImageReference) -> Result<Pulled, MachineError> {
        Err(MachineError::NotFetched {
            reasons: "there is none".to_owned(),
            transient: false,
            is_full: false,
        })
    }

    async fn forget(&self) {}
}

/// A process: another one after each power cut.
fn process(world: &World) -> Applier<World, NoRegistry> {
    let settings = Settings {
        work: "/var/work".parse().unwrap(),
        state: "/var/work.capstan".parse().unwrap(),
        images: "/var/images".parse().unwrap(),
        preserves: false,
        root: "/".into(),
        environment: vec![("PATH".to_owned(), "/usr/bin".to_owned())],
        owner: (0, 0),
    };
    Applier::new(world.clone(), NoRegistry, settings)
}

/// A machine with files that the plan replaces and deletes, and with the execution folder of an earlier plan.
fn before(supervises: bool) -> World {
    let world = World::with(&[
        ("/etc/app/old", "old"),
        ("/etc/app/config", "a=1"),
        ("/srv/cache/deep/file", "x"),
        ("/var/work/earlier/left", "y"),
    ]);
    world.state().supervises = supervises;
    world
}

fn command(words: &[&str]) -> Value {
    json!({"name": words.join("-"), "command": words[0], "args": &words[1..], "saveOutput": true})
}

/// Every change of files, and instructions that print, change something, fail, or do not come to their turn.
fn plan(fails: bool) -> Vec<u8> {
    let last = if fails { command(&["complain", "no"]) } else { command(&["echo", "last"]) };
    json!({
        "files": [
            {"path": "/etc/app/config", "content": "YT0y"},
            {"path": "/opt/new/deep/file", "content": "eA==", "permissions": "0644"},
            {"path": "/etc/app/old", "action": "delete"},
            {"path": "/srv/cache", "action": "delete", "directory": true},
            {"path": "/srv/made", "directory": true, "permissions": "0750"},
        ],
        "instructions": [
            command(&["echo", "first"]),
            command(&["touch", "/opt/new/marker"]),
            last,
            command(&["echo", "after-all"]),
        ],
    })
    .to_string()
    .into_bytes()
}

fn identity(plan: &[u8]) -> Identity {
    Identity { source: "uid".to_owned(), checksum: Digest::of(plan), revision: None, attempt: Some(1) }
}

/// One process: it applies the plan, which is then reported, and forgets the run.
async fn live(world: &World, plan: &[u8]) -> Result<(), Option<Outcome>> {
    let (identity, parsed) = (identity(plan), Plan::parse(plan).unwrap());
    let applier = process(world);
    let run = applier.run(&identity, &parsed, 1, Saved::new(), start()).await;
    let outcome = run.map_err(|_| None)?;
    applier.forget(&identity).await.map_err(|_| Some(outcome))
}

/// How often each command was started.
fn started(world: &World) -> BTreeMap<String, usize> {
    world.state().started.clone()
}

/// What is on the machine.
fn nodes(world: &World) -> Vec<(String, Node)> {
    world.state().nodes.iter().map(|(path, node)| (path.to_string(), node.clone())).collect()
}

#[tokio::test]
async fn a_power_cut_at_any_operation_ends_where_the_run_would_have_ended() {
    for (supervises, fails) in [(false, false), (false, true), (true, false), (true, true)] {
        let plan = plan(fails);
        let calm = before(supervises);
        live(&calm, &plan).await.unwrap();
        let operations = calm.state().operations;
        let expected = outcome_of(supervises, &plan, fails).await;
        let (commands, wanted) = (started(&calm), nodes(&calm));
        assert!(operations > 30, "{operations}");
        for at in 1..=operations {
            for death in Death::ALL {
                let case = format!(
                    "supervises {supervises}, fails {fails}, {death:?} operation {at} of {operations}"
                );
                let world = before(supervises);
                world.revive(Some((at, death)));
                let Err(reported) = live(&world, &plan).await else { panic!("{case}: it did not die") };
                world.revive(None);
                if let Some(outcome) = reported {
                    // It was reported, so that only the rest of its records is left: another process reports the same, or runs the
                    // plan again where nothing is known of it any more.
                    assert_eq!(outcome, expected, "{case}");
                    process(&world).forget(&identity(&plan)).await.unwrap();
                } else {
                    let parsed = Plan::parse(&plan).unwrap();
                    let applier = process(&world);
                    let outcome = applier.run(&identity(&plan), &parsed, 1, Saved::new(), start()).await;
                    assert_eq!(outcome.expect(&case), expected, "{case}");
                    applier.forget(&identity(&plan)).await.unwrap();
                }
                repeats_only_one(&commands, &started(&world), supervises, &case);
                is_as_wanted(&nodes(&world), &wanted, death, &case);
                assert!(world.state().commands.is_empty(), "{case}");
            }
        }
    }
}

/// Everything is as without a power cut. One in the middle of making a folder above a file leaves that for root only: the next process
/// cannot distinguish it from a folder that an administrator has made private.
fn is_as_wanted(found: &[(String, Node)], wanted: &[(String, Node)], death: Death, case: &str) {
    let paths = |nodes: &[(String, Node)]| nodes.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(found), paths(wanted), "{case}");
    for (found, wanted) in found.iter().zip(wanted).filter(|(found, wanted)| found != wanted) {
        let is_private = match (&found.1, &wanted.1) {
            (Node::Directory(found), Node::Directory(wanted)) => {
                found.mode == 0o700 && (found.owner, found.group) == (wanted.owner, wanted.group)
            }
            _ => false,
        };
        assert!(death == Death::Middle && is_private, "{case}: {found:?}");
    }
}

/// At most one command was started once more: the interrupted one. With a supervisor it is not, unless its record was lost.
fn repeats_only_one(
    expected: &BTreeMap<String, usize>,
    found: &BTreeMap<String, usize>,
    supervises: bool,
    case: &str,
) {
    assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>(), "{case}");
    let more: Vec<_> = found.iter().filter(|(command, times)| expected[*command] != **times).collect();
    let most = if supervises { 0 } else { 1 };
    assert!(more.len() <= most && more.iter().all(|(_, times)| **times == 2), "{case}: {more:?}");
}

/// The outcome of a run on a machine whose power stays.
async fn outcome_of(supervises: bool, plan: &[u8], fails: bool) -> Outcome {
    let world = before(supervises);
    let parsed = Plan::parse(plan).unwrap();
    let outcome = process(&world).run(&identity(plan), &parsed, 1, Saved::new(), start()).await.unwrap();
    assert_eq!(outcome.succeeded, !fails, "{}", outcome.message);
    assert_eq!(world.started("echo first"), 1);
    assert_eq!(world.started("echo after-all"), usize::from(!fails));
    assert_eq!(world.content("/etc/app/config").as_deref(), Some("a=2"));
    assert_eq!(world.content("/etc/app/old"), None);
    outcome
}

/// A run that has ended and was not reported is reported by any process after it, without another command.
#[tokio::test]
async fn a_run_that_was_not_reported_runs_nothing_again() {
    for supervises in [false, true] {
        let (world, plan) = (before(supervises), plan(false));
        let parsed = Plan::parse(&plan).unwrap();
        let run =
            async || process(&world).run(&identity(&plan), &parsed, 1, Saved::new(), start()).await.unwrap();
        let first = run().await;
        let commands = started(&world);
        assert_eq!(run().await, first);
        assert_eq!(started(&world), commands);
    }
}

/// A power cut during a periodic instruction leaves its record; the next process takes the result, or runs it again once.
#[tokio::test]
async fn a_periodic_instruction_survives_a_power_cut_at_any_operation() {
    let list = [
        json!({"name": "p", "command": "echo", "args": ["tick"]}),
        json!({"name": "q", "command": "touch", "args": ["/srv/q"]}),
    ];
    // A command that outlives its process is ended before another one is started, which the machine of this test does not do.
    for (supervises, list) in [(false, &list[..]), (true, &list[..1]), (true, &list[1..])] {
        let bytes = json!({"periodicInstructions": list}).to_string().into_bytes();
        let (plan, sum) = (Plan::parse(&bytes).unwrap(), Digest::of(&bytes));
        let calm = before(supervises);
        process(&calm).periodics(&plan, &sum, &Default::default(), true, start()).await;
        let operations = calm.state().operations;
        let wanted = nodes(&calm);
        for at in 1..=operations {
            for death in Death::ALL {
                let case = format!("supervises {supervises}, {death:?} operation {at} of {operations}");
                let world = before(supervises);
                world.revive(Some((at, death)));
                process(&world).periodics(&plan, &sum, &Default::default(), true, start()).await;
                world.revive(None);
                let later = Timestamp::from_second(5).unwrap();
                let (results, _) =
                    process(&world).periodics(&plan, &sum, &Default::default(), true, later).await;
                assert!(results.values().all(|result| result.exit_code == 0), "{case}: {results:?}");
                assert_eq!(results.len(), list.len(), "{case}");
                assert!(started(&world).values().all(|times| (1..=2).contains(times)), "{case}");
                let left: Vec<_> = nodes(&world).into_iter().filter(|node| !wanted.contains(node)).collect();
                assert!(left.iter().all(|(path, _)| path.starts_with("/var/work")), "{case}: {left:?}");
                assert!(world.state().commands.is_empty(), "{case}");
            }
        }
    }
}
