//! `anyOf`, `oneOf`, `allOf` and `not`. If no branch of a choice matches, the errors include those of the branch that
//! passed the most checks.

use super::{Failure, Outcome, schema};
use crate::gotext::quote;
use crate::node::Node;
use serde_json::Value;

pub(super) fn check(node: &Node, value: &Value, at: &str) -> Outcome {
    let limits = &node.limits;
    let mut outcome = Outcome::default();
    // Within a branch nothing is compared with what was there before; upstream does not do it either.
    let branch = |node: &Node| schema(node, value, at, None);
    if !limits.any_of.is_empty() {
        any_of(&limits.any_of, at, &branch, &mut outcome);
    }
    if !limits.one_of.is_empty() {
        one_of(&limits.one_of, at, &branch, &mut outcome);
    }
    if !limits.all_of.is_empty() {
        all_of(&limits.all_of, at, &branch, &mut outcome);
    }
    if limits.not.as_deref().is_some_and(|node| branch(node).is_valid()) {
        outcome.fail(Failure::placeless(format!("{} must not validate the schema (not)", quote(at))));
    }
    outcome.matches += 1;
    outcome
}

/// Keeps the better of two failures: the later only if it passed more checks.
fn better(best: Option<Outcome>, next: Outcome) -> Option<Outcome> {
    match best {
        Some(best) if best.matches >= next.matches => Some(best),
        _ => Some(next),
    }
}

fn any_of(branches: &[Node], at: &str, branch: &dyn Fn(&Node) -> Outcome, outcome: &mut Outcome) {
    let mut best = None;
    for node in branches {
        let result = branch(node);
        if result.is_valid() {
            outcome.merge(result);
            return;
        }
        best = better(best, result);
    }
    outcome.fail(Failure::placeless(format!("{} must validate at least one schema (anyOf)", quote(at))));
    if let Some(best) = best {
        outcome.merge(best);
    }
}

fn one_of(branches: &[Node], at: &str, branch: &dyn Fn(&Node) -> Outcome, outcome: &mut Outcome) {
    let (mut best, mut first, mut valid) = (None, None, 0);
    for node in branches {
        let result = branch(node);
        if result.is_valid() {
            valid += 1;
            best = None;
            first = first.or(Some(result));
        } else if valid == 0 {
            best = better(best, result);
        }
    }
    if valid == 1 {
        outcome.merge(first.unwrap_or_default());
        return;
    }
    let found =
        if valid == 0 { "Found none valid".into() } else { format!("Found {valid} valid alternatives") };
    let text = format!("{} must validate one and only one schema (oneOf). {found}", quote(at));
    outcome.fail(Failure::placeless(text));
    if let Some(best) = best {
        outcome.merge(best);
    }
}

fn all_of(branches: &[Node], at: &str, branch: &dyn Fn(&Node) -> Outcome, outcome: &mut Outcome) {
    let mut valid = 0;
    for node in branches {
        let result = branch(node);
        valid += usize::from(result.is_valid());
        outcome.merge(result);
    }
    if valid != branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        outcome
            .fail(Failure::placeless(format!("{} must validate all the schemas (allOf){none}", quote(at))));
    }
}
