//! Whether all servers run what they should, for changes that workers may only follow.

use std::collections::BTreeMap;

use super::Outcome;
use crate::facts::MachineFacts;

/// Whether every server has applied the plan that it should have. One that was never told anything runs nothing, so nobody
/// waits for it. One that is being deleted, is held, or has not reported runs something else, or may.
pub fn servers_are_done(machines: &[MachineFacts], outcomes: &BTreeMap<String, Outcome>) -> bool {
    let is_done = |machine: &MachineFacts| {
        let is_planned = matches!(outcomes.get(&machine.name), Some(Outcome::Planned(_)));
        is_planned && machine.is_applied() && !machine.deleting
    };
    let servers: Vec<&MachineFacts> =
        machines.iter().filter(|machine| machine.control_plane && machine.was_planned()).collect();
    !servers.is_empty() && servers.into_iter().all(is_done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Progress;
    use capstan_plan::Revision;

    #[test]
    fn every_server_counts_and_no_worker_does() {
        let planned = || Outcome::Planned(1);
        let waiting = || Outcome::Waiting("is held".to_owned());
        let (a, b) = (|| MachineFacts::server("a").up(), || MachineFacts::server("b").up());
        for (what, other, outcome, expected) in [
            ("all have applied", b(), Some(planned()), true),
            ("one applies it", b().says(Progress::InFlight), Some(planned()), false),
            ("one waits at the gate", b().says(Progress::AtGate), Some(planned()), false),
            ("one has failed", b().says(Progress::Failed("x".to_owned())), Some(waiting()), false),
            ("one should have another", b(), Some(waiting()), false),
            ("nobody has looked at one", b(), None, false),
            ("one leaves", b().leaving(), Some(planned()), false),
            ("one is new", MachineFacts::server("b").provisioned(), Some(waiting()), true),
            (
                "the plan of one was lost",
                MachineFacts::server("b").with(|b| b.reported_revision = Some(Revision::FIRST)),
                Some(waiting()),
                false,
            ),
            ("a worker lags behind", MachineFacts::worker("b").planned(1, "a"), Some(waiting()), true),
        ] {
            let mut outcomes = BTreeMap::from([("a".to_owned(), planned())]);
            outcomes.extend(outcome.map(|outcome| ("b".to_owned(), outcome)));
            assert_eq!(servers_are_done(&[a(), other], &outcomes), expected, "{what}");
        }
        let worker = MachineFacts::worker("w").up();
        assert!(!servers_are_done(&[worker], &BTreeMap::from([("w".to_owned(), planned())])), "no server");
        assert!(!servers_are_done(&[], &BTreeMap::new()));
    }
}
