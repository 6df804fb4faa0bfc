//! Commands that run again and again while a plan is applied.

use serde::{Deserialize, Serialize};

use super::Argv;
use crate::StepName;

/// A command that runs in an interval while the plan is applied. It runs at once after the last step, and not while another plan is
/// applied or after one has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Periodic {
    /// Its name, unique among the periodic commands of the plan.
    pub name: StepName,

    /// The command line. It succeeds with exit code 0.
    pub argv: Argv,

    /// Time from the start of one run to the start of the next.
    pub interval_seconds: u32,

    /// Timeout of one run. A new plan waits until a run has ended.
    pub timeout_seconds: u32,
}
