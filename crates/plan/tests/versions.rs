//! Plans and agents of different versions: what needs a capability, and that nothing else is refused by the first release.

#![cfg(test)]

#[path = "common/first_release.rs"]
mod first_release;

mod common;

use capstan_plan::{AgentProgram, Capabilities, Capability, Digest, MachinePlan, OnDrift, SealedPlan};
use common::{plan, source};

/// A plan that uses this capability and no other.
fn using(capability: Capability) -> MachinePlan {
    let mut plan = plan();
    match capability {
        Capability::OnDrift => plan.steps[1].on_drift = OnDrift::Report,
        Capability::ReplaceAgent => {
            let sources = vec![source("https://plane.example/agent")];
            plan.agent = Some(AgentProgram { sha256: Digest::of(b"agent"), size: 5, sources });
        }
    }
    plan
}

fn needed_by(plan: &MachinePlan) -> Capabilities {
    Capabilities::needed_by(&plan.steps, plan.agent.as_ref())
}

fn bytes(plan: &MachinePlan) -> Vec<u8> {
    plan.clone().seal().unwrap().bytes().to_vec()
}

/// If this fails for a new field: give the field a capability, and use it in `using` instead of `common::plan`.
#[test]
fn a_plan_that_needs_no_capability_is_read_by_the_first_release() {
    assert!(needed_by(&plan()).is_empty());
    assert_eq!(first_release::read(&bytes(&plan())), Ok(()));
}

#[test]
fn the_first_release_refuses_what_needs_a_capability() {
    for capability in Capability::ALL {
        let plan = using(capability);
        let needed = needed_by(&plan);
        assert_eq!(needed, [capability].into_iter().collect(), "{capability}");
        assert!(first_release::read(&bytes(&plan)).is_err(), "{capability}");
        assert!(!needed.lacking_in(&Capabilities::FIRST_RELEASE).is_empty());
        assert!(needed.lacking_in(&Capabilities::all()).is_empty());
        // This version understands all of them.
        assert!(SealedPlan::parse(&bytes(&plan)).is_ok());
    }
}

#[test]
fn a_plan_of_the_first_release_is_read_by_this_version() {
    let text = include_str!("golden/first-release.json");
    assert!(SealedPlan::parse(text.trim_end().as_bytes()).is_ok());
}

#[test]
fn names_of_capabilities_stay() {
    assert_eq!(Capability::ALL.map(Capability::name), ["onDrift", "replaceAgent"]);
    assert_eq!(Capabilities::all().to_string(), "onDrift, replaceAgent");
}
