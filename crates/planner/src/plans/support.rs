//! Whether the agent of a machine understands a plan.

use capstan_plan::Capabilities;

use crate::facts::MachineFacts;
use crate::wait::{self, Wait};

/// Why a machine does not get a plan that its agent would reject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The agent has not said yet what it understands.
    Unknown(Wait),
    /// The agent lacks a capability.
    Lacking(Wait),
}

/// Whether the agent understands a plan that needs this.
///
/// # Errors
/// What the machine waits for, if it does not, or if that is not known.
pub fn supports(machine: &MachineFacts, needed: &Capabilities) -> Result<(), Unsupported> {
    if needed.is_empty() {
        return Ok(());
    }
    let Some(known) = &machine.capabilities else { return Err(Unsupported::Unknown(wait::capabilities())) };
    let lacking = needed.lacking_in(known);
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Unsupported::Lacking(wait::agent(&agent(machine), &lacking)))
}

/// What a plan was rendered without, for people: fields of the configuration that the agent does not support.
pub fn without(machine: &MachineFacts, fields: &[&str]) -> Option<String> {
    (!fields.is_empty()).then(|| {
        format!(
            "without {}, which {} does not support: upgrade the agent",
            fields.join(" and "),
            agent(machine)
        )
    })
}

fn agent(machine: &MachineFacts) -> String {
    match &machine.agent_version {
        Some(version) => format!("the agent of version {version}"),
        None => "the agent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::Capability;

    #[test]
    fn a_plan_is_for_agents_that_understand_all_of_it() {
        let (nothing, drift) = (Capabilities::default(), Capabilities::from_iter([Capability::OnDrift]));
        let lacking =
            "the agent of version 0.1.0 does not support onDrift, which the plan needs: upgrade the agent";
        for (case, needed, known, expected) in [
            ("a plan of the first release", &nothing, Some(&nothing), Ok(())),
            ("a plan of the first release, nothing is known", &nothing, None, Ok(())),
            ("an agent that understands it", &drift, Some(&drift), Ok(())),
            ("an agent that understands more", &nothing, Some(&drift), Ok(())),
            (
                "an agent of the first release",
                &drift,
                Some(&nothing),
                Err(Unsupported::Lacking(lacking.to_owned())),
            ),
            ("nothing is known", &drift, None, Err(Unsupported::Unknown(wait::capabilities()))),
        ] {
            let machine = MachineFacts::worker("w").with(|m| {
                m.capabilities = known.cloned();
                m.agent_version = known.map(|_| "0.1.0".to_owned());
            });
            assert_eq!(supports(&machine, needed), expected, "{case}");
        }
    }

    #[test]
    fn what_a_plan_is_without_is_told() {
        let machine = MachineFacts::worker("w").with(|m| m.agent_version = Some("0.1.0".to_owned()));
        assert_eq!(without(&machine, &[]), None);
        assert_eq!(
            without(&machine, &["spec.onDrift"]).as_deref(),
            Some(
                "without spec.onDrift, which the agent of version 0.1.0 does not support: upgrade the agent"
            )
        );
    }
}
