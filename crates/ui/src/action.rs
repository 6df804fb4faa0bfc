//! The actions of the web view on objects, if it was started with `--allow-actions`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One action. Each is one write to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Make the agent try a failed plan again.
    Retry,
    /// Hold a machine: exclude it from changes.
    Hold,
    /// Release a held machine, so that changes continue.
    Release,
    /// Restart the machines of a control plane or a MachineDeployment in place, one after the other.
    Restart,
    /// Pause the roll-out of a control plane or a MachineDeployment.
    Pause,
    /// Resume the roll-out of a control plane or a MachineDeployment.
    Resume,
    /// End the quarantine of a host.
    EndQuarantine,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 7] = [
        Self::Retry,
        Self::Hold,
        Self::Release,
        Self::Restart,
        Self::Pause,
        Self::Resume,
        Self::EndQuarantine,
    ];

    /// Its name in URLs and forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::EndQuarantine => "end-quarantine",
        }
    }

    /// Label of its button.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Retry => "Retry the plan",
            Self::Hold => "Hold changes back",
            Self::Release => "Resume changes",
            Self::Restart => "Restart in place",
            Self::Pause => "Pause the rollout",
            Self::Resume => "Resume the rollout",
            Self::EndQuarantine => "End the quarantine",
        }
    }

    /// Its effect, for the confirmation dialog.
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Retry => "The agent tries the failed step of its plan again.",
            Self::Hold => "Capstan writes no further plan for this machine until you resume changes.",
            Self::Release => "Capstan writes plans for this machine again. A pending change starts now.",
            Self::Restart => {
                "Kubernetes restarts on every machine of this object, one machine after the other. Nodes are drained first where \
                 the control plane is configured to do so."
            }
            Self::Pause => {
                "Capstan stops changing the machines of this object. Running workloads are not affected."
            }
            Self::Resume => "Capstan changes the machines of this object again. A pending change starts now.",
            Self::EndQuarantine => {
                "The host can be claimed by a new machine. Do this only after you have cleaned the host."
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: the name is not that of an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no action {0:?}")]
pub struct UnknownAction(String);

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        Self::ALL
            .into_iter()
            .find(|action| action.name() == text)
            .ok_or_else(|| UnknownAction(text.to_owned()))
    }
}

/// The object that an action is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Resource version of the object that the person saw, if the action must not be applied to a newer version.
    #[serde(default)]
    pub version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_name_that_is_read_back() {
        for action in Action::ALL {
            assert_eq!(action.name().parse(), Ok(action));
        }
        assert!("delete".parse::<Action>().is_err());
    }
}
