//! The plan as a whole.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Action, Probe, Step};
use crate::{Epoch, MachineIdentity, Revision, SecretText};

/// Which schema the plan is written in. An agent that does not know it refuses the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiVersion {
    /// The first.
    #[default]
    #[serde(rename = "agent.capstan.dev/v1alpha1")]
    V1Alpha1,
}

/// What the document is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanKind {
    /// A plan for one machine.
    #[default]
    MachinePlan,
}

/// What one machine should be brought to: steps in order, and probes of the result.
///
/// Leaves no choice to whoever carries it out. The fields are written in this order, without spaces, and absent
/// ones are left out, so that one plan has one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachinePlan {
    /// Schema of the plan.
    pub api_version: ApiVersion,

    /// What the document is.
    pub kind: PlanKind,

    /// The machine it is for. Every other machine refuses it.
    pub machine: MachineIdentity,

    /// Its place among the plans of this machine. An agent that knows a later one refuses it.
    pub revision: Revision,

    /// The manager it comes from. An agent that has heard a later one refuses it.
    pub epoch: Epoch,

    /// From when on it must not be carried out any more, in whole seconds: an old plan that turns up again does
    /// nothing. A plan that was carried out before stays carried out.
    #[serde(with = "crate::time")]
    pub expires: Timestamp,

    /// Texts that must never appear in a report, besides variables and files that are marked as secret. For a secret
    /// that is only a part of a file, such as a token in a configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<SecretText>,

    /// The steps, executed in this order. The first that fails ends the plan.
    pub steps: Vec<Step>,

    /// Probes that run after the last step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
}

impl MachinePlan {
    /// An empty plan.
    pub fn new(machine: MachineIdentity, revision: Revision, epoch: Epoch, expires: Timestamp) -> Self {
        Self {
            api_version: ApiVersion::V1Alpha1,
            kind: PlanKind::MachinePlan,
            machine,
            revision,
            epoch,
            expires,
            redact: Vec::new(),
            steps: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// All values that must never appear in a report or a log.
    pub fn secrets(&self) -> Vec<&[u8]> {
        let mut secrets: Vec<&[u8]> = self.redact.iter().map(|text| text.expose().as_bytes()).collect();
        for step in &self.steps {
            match &step.action {
                Action::File(file) if file.secret => secrets.push(file.content.as_bytes()),
                Action::Command(command) => {
                    let undo = command.undo.iter().flat_map(|undo| &undo.env);
                    let hidden = command.env.iter().chain(undo).filter(|variable| variable.secret);
                    secrets.extend(hidden.map(|variable| variable.value.expose().as_bytes()));
                }
                _ => {}
            }
        }
        secrets
    }
}
