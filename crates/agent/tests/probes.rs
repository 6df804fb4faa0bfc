//! Verdicts change only after as many answers in a row as were asked for.

use crate::support::world::World;
use crate::support::{TestClock, argv, name, plan, run, start, verified};
use capstan_agent::Clock;
use capstan_agent::probes::{Health, Prober};
use capstan_plan::{Probe, Target};
use std::time::Duration;

fn probe(command: &str, success: u32, failure: u32) -> Probe {
    Probe {
        success_threshold: success,
        failure_threshold: failure,
        ..Probe::new(name("probe"), Target::Exec(argv(command)))
    }
}

#[test]
fn consecutive_results_of_a_probe_make_a_verdict() {
    let probe = probe("x", 2, 3);
    for (answers, changes) in [
        ("+", "."),
        ("++", ".h"),
        ("+-+-+-", "......"),
        ("---", "..u"),
        ("++---", ".h..u"),
        ("++--+---", ".h.....u"),
        ("---++", "..u.h"),
        ("++++++", ".h...."),
    ] {
        let mut health = Health::unknown(Duration::ZERO);
        let mut seen = String::new();
        for answer in answers.chars() {
            let good = answer == '+';
            let answer = if good { Ok(()) } else { Err("bad".to_owned()) };
            let changed = health.observe(&probe, answer, start(), Duration::ZERO);
            seen.push(if changed { if good { 'h' } else { 'u' } } else { '.' });
        }
        assert_eq!(seen, changes, "{answers}");
    }
}

#[tokio::test]
async fn probes_are_asked_when_they_are_due_and_their_verdicts_are_kept_over_plans() {
    let (world, clock) = (World::default(), TestClock::new());
    let mut first = plan(1, vec![run("a", "a")]);
    first.probes = vec![probe("true", 1, 3), Probe { name: name("bad"), ..probe("false", 1, 2) }];
    let mut prober = Prober::default();
    prober.watch(&verified(first.clone()), clock.elapsed());
    assert!(prober.results().is_empty(), "nothing is known yet");
    assert!(prober.probe_due(&world, &clock).await);
    let found = prober.results();
    assert_eq!(found.len(), 1, "one bad answer is no verdict yet: {found:?}");
    assert!(found[0].healthy && found[0].message.is_none() && found[0].since == Some(start()));

    assert!(!prober.probe_due(&world, &clock).await, "none is due");
    assert_eq!(world.started("true"), 1);
    clock.sleep_until_elapsed(prober.next().unwrap()).await;
    assert!(prober.probe_due(&world, &clock).await);
    let found = prober.results();
    assert!(!found[1].healthy);
    assert_eq!(found[1].message.as_deref(), Some("the command exited with 1"));

    first.probes.pop();
    first.revision = first.revision.next().unwrap();
    prober.watch(&verified(first), clock.elapsed());
    assert_eq!(prober.results(), found[..1]);
}
