//! What comes next in a replacement. Pure.

use capstan_plan::{AgentProgram, Digest};

use super::{CONFIRMATION, MOST_STARTS, UpgradeState};

/// What the agent does at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeStep {
    /// Nothing.
    Rest,
    /// Forget what is known of a program that the plan does not name any more.
    Forget,
    /// Fetch and check the program, keep the own one, and put the new one in its place.
    Replace(AgentProgram),
    /// Put the new program in its place: everything before was done.
    Switch(AgentProgram),
}

/// What the agent that runs the program `own` does about the program that its plan names.
pub fn at_rest(state: &UpgradeState, wanted: Option<&AgentProgram>, own: Digest) -> UpgradeStep {
    match (state, wanted) {
        // The guard is about to end it, with the next start.
        (UpgradeState::Returning { .. }, _) => UpgradeStep::Rest,
        // It is confirmed first.
        (UpgradeState::Trial { to, .. }, _) if to.sha256 == own => UpgradeStep::Rest,
        (UpgradeState::Trial { to, .. }, Some(wanted)) if to == wanted => UpgradeStep::Switch(to.clone()),
        (UpgradeState::Rejected { program, .. }, Some(wanted)) if program == wanted => UpgradeStep::Rest,
        (_, Some(wanted)) if wanted.sha256 != own => UpgradeStep::Replace(wanted.clone()),
        (UpgradeState::Idle, _) => UpgradeStep::Rest,
        (UpgradeState::Trial { .. } | UpgradeState::Rejected { .. }, _) => UpgradeStep::Forget,
    }
}

/// When the guard looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The program is about to be started.
    Start,
    /// The time for the confirmation is over.
    Expired,
}

/// What the guard does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardStep {
    /// Nothing: no program is on trial.
    Leave,
    /// Forget the trial: another program was installed by hand.
    Forget,
    /// Note that the program is started for this time.
    Count(u32),
    /// Put the previous program back.
    Return {
        /// What is wrong with the new one.
        reason: String,
    },
}

/// What the guard does. `is_new` and `is_previous` say which program is at its place.
pub fn at_start(state: &UpgradeState, occasion: Occasion, is_new: bool, is_previous: bool) -> GuardStep {
    match state {
        UpgradeState::Idle | UpgradeState::Rejected { .. } => GuardStep::Leave,
        UpgradeState::Returning { reason, .. } => GuardStep::Return { reason: reason.clone() },
        UpgradeState::Trial { starts, .. } => match (is_new, occasion) {
            (true, Occasion::Expired) => GuardStep::Return {
                reason: format!(
                    "it has not read its plan from the management plane within {} minutes",
                    CONFIRMATION.as_secs() / 60
                ),
            },
            (true, Occasion::Start) if *starts >= MOST_STARTS => GuardStep::Return {
                reason: format!(
                    "it was started {starts} times, and has not read its plan from the management plane"
                ),
            },
            (true, Occasion::Start) => GuardStep::Count(starts + 1),
            // It was not put in its place yet.
            (false, _) if is_previous => GuardStep::Leave,
            (false, _) => GuardStep::Forget,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::Source;
    use jiff::Timestamp;

    fn program(content: &str) -> AgentProgram {
        let url = "https://plane.example/agent".parse().expect("a source");
        AgentProgram { sha256: Digest::of(content.as_bytes()), size: 1, sources: vec![Source::new(url)] }
    }

    fn trial(to: &str, starts: u32) -> UpgradeState {
        UpgradeState::Trial { to: program(to), from: Digest::of(b"old"), starts }
    }

    fn returning(to: &str) -> UpgradeState {
        UpgradeState::Returning { to: program(to), from: Digest::of(b"old"), reason: "why".to_owned() }
    }

    fn rejected(program_: &str) -> UpgradeState {
        UpgradeState::Rejected {
            program: program(program_),
            reason: "why".to_owned(),
            since: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_agent_replaces_itself_by_what_its_plan_names_and_was_not_rejected() {
        let (replace, switch) = (UpgradeStep::Replace(program("new")), UpgradeStep::Switch(program("new")));
        for (case, state, wanted, own, expected) in [
            ("the plan names none", UpgradeState::Idle, None, "old", UpgradeStep::Rest),
            ("it is that already", UpgradeState::Idle, Some("new"), "new", UpgradeStep::Rest),
            ("it is another", UpgradeState::Idle, Some("new"), "old", replace.clone()),
            ("it was rejected", rejected("new"), Some("new"), "old", UpgradeStep::Rest),
            ("another was rejected", rejected("newer"), Some("new"), "old", replace.clone()),
            ("it was about to be replaced", trial("new", 0), Some("new"), "old", switch),
            ("by another", trial("newer", 0), Some("new"), "old", replace.clone()),
            ("by one that is not wanted any more", trial("new", 0), None, "old", UpgradeStep::Forget),
            ("it is on trial", trial("new", 1), Some("new"), "new", UpgradeStep::Rest),
            ("it is on trial, and not wanted any more", trial("new", 1), None, "new", UpgradeStep::Rest),
            (
                "it was rejected, and is not wanted any more",
                rejected("new"),
                None,
                "old",
                UpgradeStep::Forget,
            ),
            (
                "it was rejected, and the old one is wanted",
                rejected("new"),
                Some("old"),
                "old",
                UpgradeStep::Forget,
            ),
            (
                "it is on trial, and another is wanted",
                trial("new", 1),
                Some("newer"),
                "new",
                UpgradeStep::Rest,
            ),
            ("the guard is at work", returning("new"), Some("new"), "old", UpgradeStep::Rest),
        ] {
            let wanted = wanted.map(program);
            assert_eq!(at_rest(&state, wanted.as_ref(), Digest::of(own.as_bytes())), expected, "{case}");
        }
        // The same program from elsewhere is another plan.
        let mut moved = program("new");
        moved.sources[0].url = "https://other.example/agent".parse().expect("a source");
        let step = at_rest(&rejected("new"), Some(&moved), Digest::of(b"old"));
        assert_eq!(step, UpgradeStep::Replace(moved));
    }

    #[test]
    fn the_guard_counts_starts_and_takes_back_what_is_not_confirmed() {
        use Occasion::{Expired, Start};
        let back = |reason: &str| GuardStep::Return { reason: reason.to_owned() };
        let late = "it has not read its plan from the management plane within 10 minutes";
        let often = "it was started 3 times, and has not read its plan from the management plane";
        for (case, state, occasion, is_new, is_previous, expected) in [
            ("nothing is to do", UpgradeState::Idle, Start, false, false, GuardStep::Leave),
            ("confirmed in time", UpgradeState::Idle, Expired, true, false, GuardStep::Leave),
            ("rejected before", rejected("new"), Start, false, true, GuardStep::Leave),
            // It was installed by hand.
            ("rejected before, and there again", rejected("new"), Start, true, false, GuardStep::Leave),
            ("not switched yet", trial("new", 0), Start, false, true, GuardStep::Leave),
            ("not switched yet, late", trial("new", 0), Expired, false, true, GuardStep::Leave),
            ("another by hand", trial("new", 1), Start, false, false, GuardStep::Forget),
            ("first start", trial("new", 0), Start, true, false, GuardStep::Count(1)),
            ("last start", trial("new", 2), Start, true, false, GuardStep::Count(3)),
            ("once too often", trial("new", 3), Start, true, false, back(often)),
            ("too late", trial("new", 1), Expired, true, false, back(late)),
            ("interrupted", returning("new"), Start, true, false, back("why")),
            ("interrupted later", returning("new"), Start, false, true, back("why")),
        ] {
            assert_eq!(at_start(&state, occasion, is_new, is_previous), expected, "{case}");
        }
    }
}
