//! The plan.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Action, AgentProgram, Periodic, Probe, Source, Step};
use crate::{Epoch, MachineIdentity, Revision, SecretText};

/// Schema version of a plan. An agent rejects a plan with an unknown version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiVersion {
    /// The first version.
    #[default]
    #[serde(rename = "agent.capstan.dev/v1alpha1")]
    V1Alpha1,
}

/// Kind of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanKind {
    /// A plan for one machine.
    #[default]
    MachinePlan,
}

/// The desired state of one machine: steps in order, probes of the result, and commands that run regularly.
///
/// It leaves no choice to the agent. The fields are serialized in this order, without spaces and without absent fields,
/// so that one plan has one digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachinePlan {
    /// Schema of the plan.
    pub api_version: ApiVersion,

    /// Kind of the document.
    pub kind: PlanKind,

    /// The machine that it is for. Every other machine rejects it.
    pub machine: MachineIdentity,

    /// Its number among the plans of this machine. An agent that knows a later revision rejects it.
    pub revision: Revision,

    /// Epoch of its manager. An agent that knows a later epoch rejects it.
    pub epoch: Epoch,

    /// Time after which the plan must not be applied any more, in whole seconds, so that a replayed old plan has no
    /// effect. A plan that was applied before that time stays applied.
    #[serde(with = "crate::time")]
    pub expires: Timestamp,

    /// Texts that must never appear in a report, in addition to variables and files that are marked as secret. For a
    /// secret that is only a part of a file, such as a token in a configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<SecretText>,

    /// The steps, executed in this order. The first that fails ends the plan.
    pub steps: Vec<Step>,

    /// Probes that run after the last step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,

    /// The program that the agent should run as. If absent, the agent stays what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentProgram>,

    /// Commands that run again and again while the plan is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub periodic: Vec<Periodic>,

    /// Maintenance windows in which drift of steps with `onDrift: repairInWindow` is repaired, as in [`crate::windows`]. An
    /// agent that cannot read one of them repairs nothing of these steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repair_windows: Vec<String>,

    /// Maintenance windows of the Host. If there are any, drift of these steps is repaired only while one of these and one of
    /// `repairWindows` are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_windows: Vec<String>,
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
            agent: None,
            periodic: Vec::new(),
            repair_windows: Vec::new(),
            host_windows: Vec::new(),
        }
    }

    /// All download sources.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        let artifacts = self.steps.iter().filter_map(|step| match &step.action {
            Action::Artifact(artifact) => Some(&artifact.sources),
            _ => None,
        });
        artifacts.chain(self.agent.as_ref().map(|agent| &agent.sources)).flatten()
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
        let passwords = self.sources().filter_map(|source| source.proxy.as_ref()?.credentials.as_ref());
        secrets.extend(passwords.map(|credentials| credentials.password.expose().as_bytes()));
        secrets
    }
}
