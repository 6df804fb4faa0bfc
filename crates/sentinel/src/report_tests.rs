//! Tests of what is written into the Secret of a plan.

use super::*;
use crate::output::{Bytes, Periodic};
use crate::probe::Status;

const PLAN: &[u8] = b"{\"files\":[]}";

fn began() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().expect("a time")
}

fn data(pairs: &[(&str, &str)]) -> Data {
    let mut data = Data::default();
    data.set(keys::PLAN, PLAN);
    data.set("appliedPlan", "of others");
    pairs.iter().for_each(|(key, value)| data.set(key, *value));
    data
}

fn run(revision: Option<&str>) -> Run {
    Run { checksum: Digest::of(PLAN), revision: revision.map(str::to_owned) }
}

fn outcome(succeeded: bool) -> Outcome {
    let saved = Saved::from([("i".to_owned(), Bytes(b"out".to_vec()))]);
    let message = if succeeded { String::new() } else { "instruction 0 exited with 1".to_owned() };
    Outcome { succeeded, saved, message, began: began() }
}

/// Texts of the keys of the agent, without outputs.
fn texts(data: &Data) -> Vec<(&str, &str)> {
    let hidden = [keys::PLAN, keys::APPLIED_OUTPUT, keys::FAILED_OUTPUT, "appliedPlan"];
    let shown = data.0.keys().filter(|key| !hidden.contains(&key.as_str()));
    shown.map(|key| (key.as_str(), data.text(key))).collect()
}

#[test]
fn a_success_clears_the_failures() {
    let sum = Digest::of(PLAN).to_string();
    let before = data(&[
        (keys::FAILED_CHECKSUM, &sum),
        (keys::FAILURE_COUNT, "3"),
        (keys::SUCCESS_COUNT, "7"),
        (keys::MESSAGE, "it failed"),
    ]);
    let after = end(&before, &run(None), &outcome(true)).expect("a report");
    let expected = [
        (keys::APPLIED_CHECKSUM, sum.as_str()),
        (keys::MESSAGE, ""),
        (keys::FAILED_CHECKSUM, ""),
        (keys::FAILURE_COUNT, "0"),
        (keys::LAST_APPLY_TIME, "Thu Nov 19 12:00:00 UTC 2026"),
        (keys::SUCCESS_COUNT, "8"),
    ];
    assert_eq!(texts(&after), expected);
    assert_eq!(output::unpack::<Saved>(after.bytes(keys::APPLIED_OUTPUT)), outcome(true).saved);
    assert_eq!((after.text("appliedPlan"), after.bytes(keys::PLAN)), ("of others", PLAN));
}

#[test]
fn a_failure_is_counted_for_its_plan_and_evidence_is_kept() {
    let sum = Digest::of(PLAN).to_string();
    for (failed, count, expected) in
        [("", "", "1"), (sum.as_str(), "3", "4"), ("other", "3", "1"), (&sum, "x", "1")]
    {
        let before = data(&[
            (keys::FAILED_CHECKSUM, failed),
            (keys::FAILURE_COUNT, count),
            (keys::SUCCESS_COUNT, "7"),
            (keys::APPLIED_CHECKSUM, "earlier"),
        ]);
        let after = end(&before, &run(None), &outcome(false)).expect("a report");
        let expected = [
            (keys::APPLIED_CHECKSUM, "earlier"),
            (keys::MESSAGE, "instruction 0 exited with 1"),
            (keys::FAILED_CHECKSUM, sum.as_str()),
            (keys::FAILURE_COUNT, expected),
            (keys::LAST_APPLY_TIME, "Thu Nov 19 12:00:00 UTC 2026"),
            (keys::SUCCESS_COUNT, "0"),
        ];
        assert_eq!(texts(&after), expected);
        assert_eq!(output::unpack::<Saved>(after.bytes(keys::FAILED_OUTPUT)), outcome(false).saved);
        // A later look at the same Secret erases nothing.
        let again = observed(&after, &Digest::of(PLAN), &Periodics::new(), &Statuses::new()).expect("data");
        assert_eq!(again.text(keys::FAILED_CHECKSUM), sum);
    }
    let applied_before = data(&[(keys::APPLIED_CHECKSUM, &sum)]);
    let after = end(&applied_before, &run(None), &outcome(false)).expect("a report");
    assert_eq!(after.text(keys::APPLIED_CHECKSUM), "");
}

#[test]
fn a_run_is_reported_only_where_it_was_asked_for() {
    let revised = |state| data(&[(keys::STATE, state), (keys::REVISION, "2")]);
    let state = |data: &Data, run: &Run, succeeded| {
        end(data, run, &outcome(succeeded)).map(|after| after.state().to_owned())
    };
    let this = run(Some("2"));
    assert_eq!(state(&revised("in-progress"), &this, true).as_deref(), Some("succeeded"));
    assert_eq!(state(&revised("in-progress"), &this, false).as_deref(), Some("failed"));
    assert_eq!(state(&revised("pending"), &this, true), None, "it was asked for another run");
    assert_eq!(state(&revised("canceled"), &this, true).as_deref(), Some("canceled"));
    assert_eq!(state(&revised("in-progress"), &run(Some("1")), true).as_deref(), Some("in-progress"));
    assert_eq!(state(&revised("in-progress"), &run(None), true), None);
    assert_eq!(state(&data(&[]), &run(None), true).as_deref(), Some(""));
    let mut other = revised("in-progress");
    other.set(keys::PLAN, "{}");
    assert_eq!(state(&other, &this, true), None, "another plan was not run");
    other.0.remove(keys::PLAN);
    assert_eq!(state(&other, &this, true), None, "the plan is lost");
}

#[test]
fn a_run_begins_once() {
    let sum = Digest::of(PLAN);
    let pending = |revision| data(&[(keys::STATE, "pending"), (keys::REVISION, revision)]);
    for (revision, expected) in [("", "1"), ("x", "1"), ("41", "42")] {
        let begun = begin(&pending(revision), &sum).expect("it begins");
        assert_eq!((begun.state(), begun.text(keys::REVISION)), ("in-progress", expected));
        assert_eq!(begin(&begun, &sum), None);
        assert_eq!(self::revision(&begun).as_deref(), Some(expected));
    }
    assert_eq!(begin(&pending("1"), &Digest::of(b"other")), None);
    assert_eq!(revision(&data(&[])), None);
}

#[test]
fn what_says_the_same_is_not_written() {
    let sum = Digest::of(PLAN);
    let periodics = Periodics::from([("p".to_owned(), Periodic::default())]);
    let statuses = Statuses::from([("x".to_owned(), Status { healthy: true, ..Status::default() })]);
    let first = observed(&data(&[]), &sum, &periodics, &statuses).expect("data");
    assert_eq!(first.text(keys::PROBE_STATUSES), r#"{"x":{"healthy":true}}"#);
    assert_eq!(observed(&first, &sum, &periodics, &statuses).as_ref(), Some(&first));
    let mut spelled = first.clone();
    spelled.set(keys::PROBE_STATUSES, r#"{ "x": {"healthy": true, "failureCount": 0} }"#);
    assert_eq!(observed(&spelled, &sum, &periodics, &statuses).as_ref(), Some(&spelled));
    assert_eq!(observed(&first, &Digest::of(b"other"), &periodics, &statuses), None);
}

#[test]
fn outputs_leave_room_for_the_plan_and_its_copy() {
    let noise: String = (0..1_000_000_u32)
        .map(|i| char::from(b'a' + (i.wrapping_mul(2_654_435_761) >> 27) as u8 % 26))
        .collect();
    let plan = vec![b' '; 400_000];
    let mut before = Data::default();
    before.set(keys::PLAN, plan.clone());
    let run = Run { checksum: Digest::of(&plan), revision: None };
    let saved = Saved::from([("i".to_owned(), Bytes(noise.into_bytes()))]);
    let after = end(&before, &run, &Outcome { saved, ..outcome(true) }).expect("a report");
    let size: usize = after.0.values().map(Vec::len).sum();
    assert!(size + plan.len() < 1024 * 1024, "{size}");
}

#[test]
fn lost_evidence_is_put_back_only_for_the_same_run() {
    let before = data(&[(keys::STATE, "in-progress"), (keys::REVISION, "2")]);
    let this = run(Some("2"));
    let reported = end(&before, &this, &outcome(false)).expect("a report");
    let mut blanked = reported.clone();
    blanked.0.remove(keys::FAILED_OUTPUT);
    blanked.empty(keys::FAILED_CHECKSUM);
    assert_eq!(restored(&blanked, &this, &reported), reported);
    let mut later = blanked.clone();
    later.set(keys::REVISION, "3");
    assert_eq!(restored(&later, &this, &reported), later);
    let without_state = run(None);
    assert_eq!(restored(&blanked, &without_state, &reported), blanked);
}

#[test]
fn a_refusal_says_why() {
    let after = refused(&data(&[]), "line 1");
    assert_eq!(after.text(keys::MESSAGE), "line 1");
    assert_eq!(refused(&after, "line 1"), after);
}

#[test]
fn a_result_counts_once_also_if_the_answer_was_lost() {
    for (revision, before) in
        [(None, data(&[])), (Some("2"), data(&[(keys::STATE, "in-progress"), (keys::REVISION, "2")]))]
    {
        for succeeded in [true, false] {
            let once = end(&before, &run(revision), &outcome(succeeded)).expect("a report");
            assert_eq!(end(&once, &run(revision), &outcome(succeeded)).as_ref(), Some(&once));
        }
    }
}
