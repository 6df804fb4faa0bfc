//! What comes next: tables for the cases that were thought of, laws for the others.

use crate::support::{Verbs, file, folder, gate, name, path, plan, run, shut, start, steps, verified};
use capstan_agent::decide::{Decision, MOST_INTERRUPTIONS, Refusal, must_run_once, pause};
use capstan_agent::drift::{Sight, Sights};
use capstan_agent::journal::{Class, End, Entry, Failure, History, Outcome};
use capstan_agent::ledger::{After, Before, Holding};
use capstan_agent::machine::Metadata;
use capstan_plan::{Digest, Epoch, MachinePath, OpenGates, Repeat, Retry, Revision, Step, VerifiedPlan};
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn accepted(plan: &VerifiedPlan) -> Entry {
    Entry::Accepted { plan: plan.id(), machine: plan.plan().machine.clone(), epoch: plan.plan().epoch }
}

fn began(plan: &VerifiedPlan, index: usize) -> Entry {
    let step = &plan.plan().steps[index];
    let once = must_run_once(step);
    Entry::Began { step: step.name.clone(), inputs: plan.inputs(step), once, undo: None, at: start() }
}

fn ended(plan: &VerifiedPlan, index: usize, failure: Option<(Class, bool)>) -> Entry {
    let step = &plan.plan().steps[index];
    let failure =
        failure.map(|(class, ran)| Failure { class, ran, is_full: false, message: "broken".into() });
    let outcome = Outcome { failure, ..Outcome::default() };
    Entry::Ended { step: step.name.clone(), inputs: plan.inputs(step), outcome, at: start() }
}

fn history(entries: Vec<Entry>) -> History {
    let mut history = History::default();
    entries.into_iter().for_each(|entry| history.record(entry));
    history
}

/// The next action where everything that was made is still there.
fn decide(
    plan: &VerifiedPlan,
    gates: &OpenGates,
    history: &History,
    protected: &[MachinePath],
    now: Timestamp,
) -> Decision {
    let mut sights = Sights::default();
    for step in &plan.plan().steps {
        sights.saw(plan.id(), step.name.clone(), Sight::AsMade);
    }
    capstan_agent::decide::decide(plan, gates, history, &sights, protected, now)
}

fn next(plan: &VerifiedPlan, entries: Vec<Entry>) -> Decision {
    decide(plan, &shut(plan), &history(entries), &[], start())
}

#[test]
fn a_cancelled_plan_begins_no_step_and_one_that_is_done_stays_so() {
    let plan = steps(1, vec![run("a", "a"), file("b", "/b", "b"), gate("c")]);
    let p = &plan;
    let gates = OpenGates::none(plan.id()).cancelling(plan.id().revision());
    let done = [began(p, 0), ended(p, 0, None)];
    for (entries, expected) in [
        (vec![], Decision::Accept),
        (vec![accepted(p)], Decision::Cancel { step: 0 }),
        (vec![accepted(p), began(p, 0)], Decision::Cancel { step: 0 }),
        ([&[accepted(p)], &done[..]].concat(), Decision::Cancel { step: 1 }),
        ([&[accepted(p)], &done[..], &[began(p, 2)]].concat(), Decision::Cancel { step: 2 }),
        (vec![accepted(p), Entry::Finished { plan: p.id() }], Decision::Rest(End::Applied)),
    ] {
        assert_eq!(decide(p, &gates, &history(entries), &[], start()), expected);
    }
    let later = steps(2, vec![run("a", "a")]);
    let gates = OpenGates::none(later.id()).cancelling(plan.id().revision());
    let next = decide(&later, &gates, &history(vec![accepted(p), accepted(&later)]), &[], start());
    assert_eq!(next, Decision::Try { step: 0 }, "only the earlier plan is cancelled");
}

const TRANSIENT: Option<(Class, bool)> = Some((Class::Transient, true));

#[test]
fn steps_go_in_order() {
    let plan = steps(1, vec![run("a", "a"), run("b", "b")]);
    let p = &plan;
    for (entries, expected) in [
        (vec![], Decision::Accept),
        (vec![accepted(p)], Decision::Try { step: 0 }),
        (vec![accepted(p), began(p, 0), ended(p, 0, None)], Decision::Try { step: 1 }),
        (vec![accepted(p), began(p, 0), ended(p, 0, None), began(p, 1), ended(p, 1, None)], Decision::Finish),
        (vec![accepted(p), Entry::Finished { plan: p.id() }], Decision::Rest(End::Applied)),
    ] {
        assert_eq!(next(p, entries.clone()), expected, "{entries:?}");
    }
}

/// After a hand-over the machine is where it was, goes on with what it had begun, and takes nothing more from those who
/// had it before.
#[test]
fn who_follows_another_manager_keeps_its_plan_and_takes_none_of_the_old_one() {
    let of = |epoch, revision| {
        let mut order = plan(revision, vec![run("a", "a")]);
        order.epoch = Epoch(epoch);
        verified(order)
    };
    let (had, late, new) = (of(1, 3), of(1, 4), of(2, 4));
    let follows = Entry::Follows { epoch: Epoch(2) };
    let refused = Decision::Refuse(Refusal::OldManager { theirs: Epoch(1), known: Epoch(2) });
    let finished = Entry::Finished { plan: had.id() };
    for (order, entries, expected) in [
        (&had, vec![accepted(&had), follows.clone()], Decision::Try { step: 0 }),
        (&had, vec![accepted(&had), finished.clone(), follows.clone()], Decision::Rest(End::Applied)),
        (&late, vec![accepted(&had), finished.clone(), follows.clone()], refused.clone()),
        (&had, vec![follows.clone()], refused.clone()),
        (&new, vec![accepted(&had), finished, follows.clone()], Decision::Accept),
        (&late, vec![accepted(&had), follows.clone(), Entry::Follows { epoch: Epoch(1) }], refused),
        (&new, vec![accepted(&had), follows, accepted(&new)], Decision::Try { step: 0 }),
    ] {
        assert_eq!(next(order, entries.clone()), expected, "{entries:?}");
    }
}

#[test]
fn failures_are_retried_stopped_or_waited_for() {
    let step = || {
        run("a", "a")
            .edit(|s| s.retry = Some(Retry { attempts: 3, delay_seconds: 10, max_delay_seconds: 10 }))
    };
    let plan = steps(1, vec![step()]);
    let p = &plan;
    let failed = |class: Option<(Class, bool)>, times: usize| {
        let mut entries = vec![accepted(p)];
        (0..times).for_each(|_| entries.extend([began(p, 0), ended(p, 0, class)]));
        history(entries)
    };
    let at = |seconds: i64| start().checked_add(SignedDuration::from_secs(seconds)).unwrap();
    let wait = Decision::Wait { step: 0, until: at(10) };
    for (history, now, expected) in [
        (failed(TRANSIENT, 1), at(0), wait.clone()),
        (failed(TRANSIENT, 1), at(9), wait),
        (failed(TRANSIENT, 1), at(10), Decision::Try { step: 0 }),
        // The clock was set back by an hour.
        (failed(TRANSIENT, 1), at(-3600), Decision::Try { step: 0 }),
        (failed(TRANSIENT, 2), at(10), Decision::Try { step: 0 }),
        (
            failed(TRANSIENT, 3),
            at(10),
            Decision::Stop { step: 0, reason: "it failed 3 times, the last time because broken".into() },
        ),
        (
            failed(Some((Class::Permanent, false)), 1),
            at(10),
            Decision::Stop { step: 0, reason: "broken".into() },
        ),
    ] {
        assert_eq!(decide(p, &shut(p), &history, &[], now), expected);
    }
}

#[test]
fn interrupted_steps_are_repeated_only_where_their_rule_allows() {
    let plan = |step: Step| steps(1, vec![step]);
    for (step, expected) in [
        (run("a", "a"), Decision::Try { step: 0 }),
        (run("a", "a").always(), Decision::Try { step: 0 }),
        (run("a", "a").once(), Decision::ResolveAttempt { step: 0, revision: Revision::FIRST }),
        (file("a", "/a", "x").once(), Decision::Try { step: 0 }),
    ] {
        let plan = plan(step);
        assert_eq!(next(&plan, vec![accepted(&plan), began(&plan, 0)]), expected);
        // A newer plan with the same step knows it, too.
        let mut newer = plan.plan().clone();
        newer.revision = newer.revision.next().unwrap();
        let newer = verified(newer);
        assert_eq!(next(&newer, vec![accepted(&plan), began(&plan, 0), accepted(&newer)]), expected);
    }
    let plan = plan(run("a", "a"));
    let mut entries = vec![accepted(&plan)];
    entries.extend((0..=MOST_INTERRUPTIONS).map(|_| began(&plan, 0)));
    assert!(matches!(next(&plan, entries), Decision::Stop { step: 0, .. }));
}

#[test]
fn what_ran_once_is_done_or_failed_for_good_in_every_later_plan() {
    let plan = |revision| steps(revision, vec![run("a", "a").once().retried(5)]);
    let (first, second) = (plan(1), plan(2));
    let then = |failure| {
        next(&second, vec![accepted(&first), began(&first, 0), ended(&first, 0, failure), accepted(&second)])
    };
    assert_eq!(then(None), Decision::Finish);
    assert!(matches!(then(TRANSIENT), Decision::Stop { reason, .. } if reason.contains("revision 1")));
    // It was never started: there is nothing to be afraid of.
    assert_eq!(then(Some((Class::Transient, false))), Decision::Try { step: 0 });
    assert_eq!(then(Some((Class::Permanent, false))), Decision::Try { step: 0 });
}

#[test]
fn a_success_counts_until_other_inputs_were_tried() {
    let plan = |revision, command: &str| steps(revision, vec![run("a", command)]);
    let (first, second, third) = (plan(1, "x"), plan(2, "y"), plan(3, "x"));
    let done = vec![accepted(&first), began(&first, 0), ended(&first, 0, None)];
    let same = plan(2, "x");
    assert_eq!(next(&same, [done.clone(), vec![accepted(&same)]].concat()), Decision::Finish);
    let half = [done, vec![accepted(&second), began(&second, 0), accepted(&third)]].concat();
    assert_eq!(next(&third, half), Decision::Try { step: 0 });
}

#[test]
fn what_left_the_plan_is_given_back_the_last_first() {
    let metadata = Metadata { mode: 0o755, owner: 0, group: 0 };
    let took =
        |at: &str, after: After| Entry::Took(Holding { path: path(at), before: Before::Nothing, after });
    let folder_ = || After::Directory { metadata };
    let file_ = || After::File { content: Digest::of(b""), metadata };
    let plan = steps(2, vec![file("keep", "/a/keep", "x"), folder("turned", "/turned")]);
    let mut entries = vec![
        accepted(&plan),
        took("/a", folder_()),
        took("/a/keep", file_()),
        took("/a/b", folder_()),
        took("/a/b/gone", file_()),
        took("/turned", file_()),
    ];
    for expected in ["/turned", "/a/b/gone"] {
        assert_eq!(next(&plan, entries.clone()), Decision::GiveBack(path(expected)));
        entries.push(Entry::Released { path: path(expected) });
    }
    assert_eq!(next(&plan, entries.clone()), Decision::GiveBack(path("/a/b")));
    // Somebody else uses it: it is not asked for again in this plan.
    entries.push(Entry::Stayed { path: path("/a/b") });
    assert_eq!(next(&plan, entries), Decision::Try { step: 0 });
}

#[test]
fn what_left_the_plan_is_given_back_after_the_gate_and_before_the_next_step() {
    let metadata = Metadata { mode: 0o755, owner: 0, group: 0 };
    let after = After::File { content: Digest::of(b""), metadata };
    let gone = Entry::Took(Holding { path: path("/gone"), before: Before::Nothing, after });
    let plan = steps(2, vec![run("fetch", "fetch"), gate("drained"), run("restart", "restart")]);
    let mut entries = vec![accepted(&plan), gone];
    assert_eq!(next(&plan, entries.clone()), Decision::Try { step: 0 });
    entries.extend([began(&plan, 0), ended(&plan, 0, None)]);
    assert_eq!(next(&plan, entries.clone()), Decision::Await { step: 1 });
    entries.extend([began(&plan, 1), ended(&plan, 1, None)]);
    assert_eq!(next(&plan, entries.clone()), Decision::GiveBack(path("/gone")));
    entries.push(Entry::Released { path: path("/gone") });
    assert_eq!(next(&plan, entries), Decision::Try { step: 2 });
}

#[test]
fn plans_that_are_behind_or_not_ours_are_refused() {
    let known = steps(5, vec![run("a", "a")]);
    let done = history(vec![accepted(&known), Entry::Finished { plan: known.id() }]);
    let refused = |plan: &VerifiedPlan, now| match decide(plan, &shut(plan), &done, &[path("/agent")], now) {
        Decision::Refuse(refusal) => Some(refusal),
        _ => None,
    };
    let day = start().checked_add(SignedDuration::from_hours(24)).unwrap();
    assert_eq!(refused(&known, day), None, "what is done stays done");
    assert_eq!(refused(&steps(6, vec![run("a", "a")]), start()), None);
    assert_eq!(refused(&steps(6, vec![run("a", "a")]), day), Some(Refusal::Expired { at: day }));
    assert!(matches!(refused(&steps(4, vec![run("a", "a")]), start()), Some(Refusal::OldRevision { .. })));
    assert!(matches!(refused(&steps(5, vec![run("b", "b")]), start()), Some(Refusal::OtherPlan { .. })));
    for own in ["/agent", "/agent/journal"] {
        let plan = steps(6, vec![file("a", own, "")]);
        assert!(matches!(refused(&plan, start()), Some(Refusal::Protected { .. })));
    }
    assert_eq!(refused(&steps(6, vec![file("a", "/agents", "")]), start()), None);
    let mut resetting = done.clone();
    resetting.record(Entry::ResetBegan);
    assert_eq!(decide(&known, &shut(&known), &resetting, &[], start()), Decision::Refuse(Refusal::Resetting));
}

#[test]
fn pauses_double_up_to_their_limit_with_a_bounded_spread() {
    let growing = Retry { attempts: 10, delay_seconds: 2, max_delay_seconds: 60 };
    for (failures, least, most) in
        [(1, 2.0, 2.5), (2, 4.0, 5.0), (3, 8.0, 10.0), (6, 60.0, 75.0), (500, 60.0, 75.0)]
    {
        for seed in 0..50u8 {
            let seconds = pause(&growing, failures, &Digest::of(&[seed])).as_secs_f64();
            assert!((least..=most).contains(&seconds), "{failures}: {seconds}");
        }
    }
    assert_eq!(pause(&Retry::every(3, 9), 7, &Digest::of(b"")), SignedDuration::from_secs(3));
    assert_eq!(pause(&Retry::every(0, 9), 7, &Digest::of(b"")), SignedDuration::ZERO);
}

/// What may happen to an attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    Fails,
    FailsForGood,
    IsNotStarted,
    IsInterrupted,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Succeeds),
        2 => Just(Fate::Fails),
        1 => Just(Fate::FailsForGood),
        1 => Just(Fate::IsNotStarted),
        2 => Just(Fate::IsInterrupted),
    ]
}

/// Up to four revisions of a plan with up to four commands each, which share names and inputs.
fn revisions() -> impl Strategy<Value = Vec<VerifiedPlan>> {
    let repeat = prop_oneof![Just(Repeat::Once), Just(Repeat::Always), Just(Repeat::UntilSuccess)];
    let step = (0..3usize, repeat, 1..4u32);
    vec(vec(step, 1..4), 1..4).prop_map(|plans| {
        let of = |(at, (command, repeat, attempts)): (usize, (usize, Repeat, u32))| {
            run(&format!("s{at}"), &format!("c{command}")).edit(|s| s.repeat = repeat).retried(attempts)
        };
        let plans = plans.into_iter().zip(1..);
        plans
            .map(|(plan, revision)| steps(revision, plan.into_iter().enumerate().map(of).collect()))
            .collect()
    })
}

proptest! {
    /// The engine without a machine: whatever happens to the attempts, it ends; steps go in order; what must run
    /// once is begun once for its inputs; a plan is finished only when all its steps were done; and nothing is
    /// ever done for a plan that is behind.
    #[test]
    fn laws_hold_whatever_happens(plans in revisions(), fates in vec(fate(), 1..60)) {
        let mut history = History::default();
        let mut fates = fates.into_iter().cycle();
        let mut begun_once: BTreeMap<_, u32> = BTreeMap::new();
        for plan in &plans {
            let mut now: Timestamp = start();
            let mut rounds = 0;
            loop {
                rounds += 1;
                prop_assert!(rounds < 500, "it does not end");
                let entries = match decide(plan, &shut(plan), &history, &[], now) {
                    Decision::Accept => vec![accepted(plan)],
                    Decision::Wait { until, .. } => { now = until; continue }
                    Decision::Stop { step, reason } => vec![Entry::Stopped {
                        plan: plan.id(), step: Some(plan.plan().steps[step].name.clone()), reason,
                    }],
                    Decision::Finish => vec![Entry::Finished { plan: plan.id() }],
                    Decision::Rest(end) => {
                        prop_assert_eq!(end == End::Applied, history.applied == Some(plan.id()));
                        break;
                    }
                    Decision::ResolveAttempt { step, .. } => vec![ended(plan, step, Some((Class::Permanent, true)))],
                    Decision::Try { step } => {
                        let current = history.current.as_ref().unwrap();
                        for earlier in &plan.plan().steps[..step] {
                            let inputs = plan.inputs(earlier);
                            let was_done = history.succeeded.get(&earlier.name) == Some(&inputs)
                                || history.once(&earlier.name, &inputs).is_some();
                            prop_assert!(current.done.contains(&earlier.name) || was_done);
                        }
                        let it = &plan.plan().steps[step];
                        let fate = fates.next().unwrap();
                        let not_started = matches!(fate, Fate::IsNotStarted);
                        if must_run_once(it) && !not_started {
                            let times = begun_once.entry((it.name.clone(), plan.inputs(it))).or_default();
                            *times += 1;
                            prop_assert_eq!(*times, 1, "{} was run twice", &it.name);
                        }
                        let mut entries = vec![began(plan, step)];
                        entries.extend(match fate {
                            Fate::Succeeds => Some(ended(plan, step, None)),
                            Fate::Fails => Some(ended(plan, step, TRANSIENT)),
                            Fate::FailsForGood => Some(ended(plan, step, Some((Class::Permanent, true)))),
                            Fate::IsNotStarted => Some(ended(plan, step, Some((Class::Transient, false)))),
                            Fate::IsInterrupted => None,
                        });
                        entries
                    }
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                };
                entries.into_iter().for_each(|entry| history.record(entry));
                // What is read back after a crash decides the same.
                let text = serde_json::to_string(&history).unwrap();
                let read: History = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&read, &history);
            }
        }
        for behind in &plans[..plans.len() - 1] {
            let refused = matches!(decide(behind, &shut(behind), &history, &[], start()), Decision::Refuse(_));
            prop_assert!(refused);
        }
        prop_assert_eq!(history.current.unwrap().plan, plans.last().unwrap().id());
    }
}

#[test]
fn names_of_steps_that_were_done_in_another_plan_do_not_count_for_other_inputs() {
    let first = steps(1, vec![run("a", "x").once()]);
    let second = steps(2, vec![run("a", "y").once()]);
    let entries = vec![accepted(&first), began(&first, 0), ended(&first, 0, None), accepted(&second)];
    assert_eq!(next(&second, entries), Decision::Try { step: 0 });
    assert_eq!(name("a"), second.plan().steps[0].name);
}
