//! The cost limit of an evaluation. The evaluator has no limit of its own, so [`super::rewrite`] inserts calls into
//! every expression where work accumulates: in each iteration of a loop, and where a string or list grows. Costs have
//! the order of upstream's and never exceed them, so that everything within a kube-apiserver's limit is within this
//! one.

use kube_cel::cel::{Context, ExecutionError, Value};
use std::cell::Cell;

/// For one evaluation of one expression, as upstream.
const PER_CALL: u64 = 1_000_000;
/// For all rules on one object, as upstream.
const PER_OBJECT: u64 = 10_000_000;

/// Charges the weight of a loop's body; true.
pub(super) const TURN: &str = "#turn";
/// Charges for a list that a loop copies, element by element; the list.
pub(super) const COPIED: &str = "#copied";
/// Charges for the size of what was made; the same.
pub(super) const GROWN: &str = "#grown";
/// Charges for a length that is about to be made; the same.
pub(super) const PLANNED: &str = "#planned";

thread_local! {
    // Evaluation stays on one thread, and functions of the evaluator have no other way to know whose they are.
    static LEFT: Cell<u64> = const { Cell::new(PER_CALL) };
}

/// What is left for an object.
#[derive(Debug)]
pub struct Budget {
    total: u64,
}

/// Which limit an evaluation ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overrun {
    Call,
    Object,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { total: PER_OBJECT }
    }
}

impl Budget {
    /// The limit of all conditions of a webhook or policy; as upstream.
    #[must_use]
    pub fn of_conditions() -> Budget {
        Budget { total: PER_OBJECT / 4 }
    }

    /// Spends some of it outside of an evaluation; whether it was there.
    pub fn take(&mut self, cost: u64) -> bool {
        let left = self.total.checked_sub(cost);
        self.total = left.unwrap_or(0);
        left.is_some()
    }

    /// Runs one evaluation, or says which limit it ran into.
    pub(super) fn run<T>(&mut self, evaluate: impl FnOnce() -> T) -> Result<T, Overrun> {
        let limit = self.total.min(PER_CALL);
        LEFT.set(limit);
        let outcome = evaluate();
        let left = LEFT.replace(PER_CALL);
        self.total -= limit - left;
        match left {
            0 if limit < PER_CALL => Err(Overrun::Object),
            0 => Err(Overrun::Call),
            _ => Ok(outcome),
        }
    }
}

pub(super) fn spend(cost: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().saturating_sub(cost);
    LEFT.set(left);
    if left == 0 {
        return Err(ExecutionError::function_error("cost", "actual cost limit exceeded"));
    }
    Ok(())
}

fn length(value: &Value) -> u64 {
    let length = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => 0,
    };
    length as u64
}

/// The functions that charge.
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(TURN, |weight: i64| spend(weight.unsigned_abs()).map(|()| true));
    context.add_function(COPIED, |value: Value| {
        let length = length(&value);
        spend(length.saturating_mul(length) / 1000).map(|()| value)
    });
    context.add_function(GROWN, |value: Value| spend(length(&value) / 10).map(|()| value));
    context.add_function(PLANNED, |length: i64| spend(length.unsigned_abs()).map(|()| length));
}
