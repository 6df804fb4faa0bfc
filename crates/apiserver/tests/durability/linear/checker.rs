//! Whether what clients were told of one object can be explained by one order of all calls, in which each takes effect at one
//! moment between its call and its answer. A call without an answer may have taken effect at any later moment, or never.
//!
//! Linearizability is local: a history is linearizable if the history of each object is. The search is Wing and Gong's, with
//! the memory of Lowe: no set of calls is tried twice with the same outcome.

use std::collections::HashSet;

/// A version of an object. Each write has a number of its own; `None` means that there is no object.
pub(super) type State = Option<u64>;

/// What was asked for, and what a client was told. Without an answer the second half means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// The version that was read.
    Read(State),
    /// Created, if there is no object.
    Create { to: u64, is_done: bool },
    /// Another version, if the object is in this one.
    Replace { from: u64, to: u64, is_done: bool },
    /// Deleted, if the object is in this version.
    Delete { from: u64, is_done: bool },
}

/// One call about one object. Moments are numbers that grow with time and are all different.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) called: u64,
    /// `None` if there was no answer.
    pub(super) returned: Option<u64>,
    pub(super) deed: Deed,
}

impl Call {
    /// The state after the call, if what the client was told can be true in this state.
    fn applied_to(&self, state: State) -> Option<State> {
        let (takes_effect, after, told) = match self.deed {
            Deed::Read(found) => return (self.returned.is_none() || found == state).then_some(state),
            Deed::Create { to, is_done } => (state.is_none(), Some(to), is_done),
            Deed::Replace { from, to, is_done } => (state == Some(from), Some(to), is_done),
            Deed::Delete { from, is_done } => (state == Some(from), None, is_done),
        };
        let is_true = self.returned.is_none() || told == takes_effect;
        is_true.then_some(if takes_effect { after } else { state })
    }
}

/// Calls that are in the order already, as bits.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Ordered(Vec<u64>);

impl Ordered {
    fn has(&self, call: usize) -> bool {
        self.0[call / 64] & (1 << (call % 64)) != 0
    }

    fn flip(&mut self, call: usize) {
        self.0[call / 64] ^= 1 << (call % 64);
    }
}

/// A place in the search: the state there, the calls that can be next, and how many of them were tried.
struct Place {
    state: State,
    next: Vec<usize>,
    tried: usize,
}

/// Checks the calls about one object, which does not exist at first.
///
/// # Errors
/// If there is no such order: how far the search came, and the calls that it could not explain there.
pub(super) fn check(calls: &[Call]) -> Result<(), String> {
    let mut calls = calls.to_vec();
    calls.sort_unstable_by_key(|call| call.called);
    let mut ordered = Ordered(vec![0; calls.len().div_ceil(64)]);
    let mut tried = HashSet::new();
    let Some(next) = candidates(&calls, &ordered, 0) else { return Ok(()) };
    let mut path = vec![Place { state: None, next, tried: 0 }];
    // The first call that is not in the order, which only moves on where the search does.
    let (mut deepest, mut stuck) = (0, String::new());
    while let Some(place) = path.last_mut() {
        let Some(&call) = place.next.get(place.tried) else {
            if path.len() > deepest {
                deepest = path.len();
                stuck = explain(&calls, path.last().expect("the place at hand"), deepest);
            }
            path.pop();
            if let Some(before) = path.last() {
                ordered.flip(before.next[before.tried - 1]);
            }
            continue;
        };
        place.tried += 1;
        let state = place.state;
        let Some(after) = calls[call].applied_to(state) else { continue };
        // Without an effect a call that was not answered might as well never have happened.
        if calls[call].returned.is_none() && after == state {
            continue;
        }
        ordered.flip(call);
        if !tried.insert((ordered.clone(), after)) {
            ordered.flip(call);
            continue;
        }
        let first = (0..calls.len()).find(|call| !ordered.has(*call)).unwrap_or(calls.len());
        match candidates(&calls, &ordered, first) {
            None => return Ok(()),
            Some(next) => path.push(Place { state: after, next, tried: 0 }),
        }
    }
    Err(stuck)
}

/// Calls that can be next: those that were called before any other was answered. `None` if all answers are in the order.
fn candidates(calls: &[Call], ordered: &Ordered, first: usize) -> Option<Vec<usize>> {
    let (mut next, mut earliest) = (Vec::new(), None);
    for (index, call) in calls.iter().enumerate().skip(first) {
        if earliest.is_some_and(|earliest| call.called > earliest) {
            break;
        }
        if !ordered.has(index) {
            next.push(index);
            earliest = match (earliest, call.returned) {
                (Some(known), Some(returned)) => Some(u64::min(known, returned)),
                (known, returned) => known.or(returned),
            };
        }
    }
    let earliest = earliest?;
    next.retain(|index| calls[*index].called < earliest);
    Some(next)
}

fn explain(calls: &[Call], place: &Place, depth: usize) -> String {
    let next: Vec<String> = place.next.iter().map(|call| format!("{:?}", calls[*call])).collect();
    format!(
        "after {} calls, in state {:?}, none of these can be next:\n{}",
        depth - 1,
        place.state,
        next.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(called: u64, returned: u64, deed: Deed) -> Call {
        Call { called, returned: (returned > 0).then_some(returned), deed }
    }

    const fn create(to: u64) -> Deed {
        Deed::Create { to, is_done: true }
    }

    const fn replace(from: u64, to: u64) -> Deed {
        Deed::Replace { from, to, is_done: true }
    }

    #[test]
    fn calls_at_the_same_time_may_be_in_any_order() {
        let read_before = call(2, 5, Deed::Read(None));
        let read_after = call(3, 6, Deed::Read(Some(1)));
        check(&[call(1, 4, create(1)), read_before, read_after]).unwrap();
        check(&[]).unwrap();
    }

    #[test]
    fn an_old_answer_is_noticed() {
        let history = [call(1, 2, create(1)), call(3, 4, replace(1, 2)), call(5, 6, Deed::Read(Some(1)))];
        let error = check(&history).unwrap_err();
        assert!(
            error.contains("after 2 calls, in state Some(2)") && error.contains("Read(Some(1))"),
            "{error}"
        );
        // At the same time as the write it is not old.
        check(&[history[0], call(3, 6, replace(1, 2)), call(4, 5, Deed::Read(Some(1)))]).unwrap();
    }

    #[test]
    fn two_winners_of_one_version_are_noticed() {
        let lost = Deed::Replace { from: 1, to: 3, is_done: false };
        check(&[call(1, 2, create(1)), call(3, 6, replace(1, 2)), call(4, 5, lost)]).unwrap();
        check(&[call(1, 2, create(1)), call(3, 6, replace(1, 2)), call(4, 5, replace(1, 3))]).unwrap_err();
    }

    #[test]
    fn a_refusal_without_a_cause_is_noticed() {
        let refused = Deed::Replace { from: 1, to: 2, is_done: false };
        check(&[call(1, 2, create(1)), call(3, 4, refused)]).unwrap_err();
        let refused = Deed::Create { to: 2, is_done: false };
        check(&[call(1, 2, refused)]).unwrap_err();
        check(&[call(1, 2, create(1)), call(3, 4, refused)]).unwrap();
        let deleted = Deed::Delete { from: 1, is_done: true };
        check(&[call(1, 2, create(1)), call(3, 4, deleted), call(5, 6, refused)]).unwrap_err();
    }

    #[test]
    fn a_call_without_an_answer_may_have_happened_later_or_never() {
        let unanswered = call(3, 0, replace(1, 2));
        let history = |found| [call(1, 2, create(1)), unanswered, call(4, 5, Deed::Read(Some(found)))];
        check(&history(1)).unwrap();
        check(&history(2)).unwrap();
        check(&history(3)).unwrap_err();
        // It has happened once it was seen.
        let [made, lost, seen] = history(2);
        check(&[made, lost, seen, call(6, 7, Deed::Read(Some(1)))]).unwrap_err();
        check(&[made, lost, call(4, 5, Deed::Read(Some(1))), call(6, 7, Deed::Read(Some(2)))]).unwrap();
    }

    #[test]
    fn an_acknowledged_write_that_is_lost_is_noticed() {
        check(&[call(1, 2, create(1)), call(3, 4, Deed::Read(None))]).unwrap_err();
    }

    /// Histories that were made by an object which really has one order, of 4 clients at a time, with answers that get lost.
    #[test]
    fn no_true_history_is_rejected_and_a_changed_one_is_noticed() {
        for seed in 0..300 {
            let history = true_history(&mut crate::clients::Dice(seed), 200);
            check(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let mut changed = history;
            let reads = changed.iter_mut().filter(|call| call.returned.is_some());
            let read = reads.filter_map(|call| match &mut call.deed {
                Deed::Read(found) => Some(found),
                _ => None,
            });
            if let Some(found) = read.last() {
                *found = Some(1_000_000);
                assert!(check(&changed).is_err(), "seed {seed}");
            }
        }
    }

    fn true_history(dice: &mut crate::clients::Dice, count: u64) -> Vec<Call> {
        let (mut history, mut state, mut now, mut number) = (Vec::new(), None, 0, 0_u64);
        let mut clients: [Option<(u64, bool, Call)>; 4] = [None; 4];
        let mut moment = || {
            now += 1;
            now
        };
        while (history.len() as u64) < count {
            let client = &mut clients[usize::try_from(dice.below(4)).expect("one of four")];
            let Some((known, is_applied, call)) = client else {
                number += 1;
                let known = state.unwrap_or_else(|| number.saturating_sub(dice.below(5)));
                let deed = match dice.below(4) {
                    0 => Deed::Read(None),
                    1 => Deed::Create { to: number, is_done: false },
                    2 => Deed::Delete { from: known, is_done: false },
                    _ => Deed::Replace { from: known, to: number, is_done: false },
                };
                *client = Some((known, false, Call { called: moment(), returned: None, deed }));
                continue;
            };
            if !*is_applied {
                *is_applied = true;
                match &mut call.deed {
                    Deed::Read(found) => *found = state,
                    Deed::Create { to, is_done } => {
                        *is_done = state.is_none();
                        state = state.or(Some(*to));
                    }
                    Deed::Replace { to, is_done, .. } => {
                        *is_done = state == Some(*known);
                        state = if *is_done { Some(*to) } else { state };
                    }
                    Deed::Delete { is_done, .. } => {
                        *is_done = state == Some(*known);
                        state = if *is_done { None } else { state };
                    }
                }
                continue;
            }
            call.returned = (dice.below(20) > 0).then(&mut moment);
            history.push(*call);
            *client = None;
        }
        // Calls that are on their way at the end may have taken effect, too.
        history.extend(clients.into_iter().flatten().map(|(_, _, call)| call));
        history
    }
}
