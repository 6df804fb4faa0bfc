//! Whose turn it is: only pods of the lowest order that is left are evicted or waited for. Pure.

use super::behavior::Behavior;

/// What is done with a pod now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Evict,
    /// After pods of a lower order.
    EvictLater,
    /// It terminates.
    Leaving,
    /// Its eviction was rejected recently.
    Refused,
    /// It completes by itself.
    Completes,
    /// It completes by itself; pods of a lower order go first.
    CompletesLater,
    Skip,
}

/// What is done now with pods that are treated like this.
pub(super) fn turns(behaviors: &[Behavior]) -> Vec<Turn> {
    let first = behaviors.iter().filter_map(|behavior| behavior.order()).min();
    let turn = |behavior: &Behavior| {
        let is_first = behavior.order() == first;
        match behavior {
            Behavior::Skip => Turn::Skip,
            Behavior::Leaving { .. } => Turn::Leaving,
            Behavior::WaitCompleted if is_first => Turn::Completes,
            Behavior::WaitCompleted => Turn::CompletesLater,
            Behavior::Drain { .. } if is_first => Turn::Evict,
            Behavior::Refused { .. } if is_first => Turn::Refused,
            Behavior::Drain { .. } | Behavior::Refused { .. } => Turn::EvictLater,
        }
    };
    behaviors.iter().map(turn).collect()
}
