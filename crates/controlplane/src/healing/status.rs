//! The condition with the progress of healing.

use capstan_api::wait::{Cause, causes};
use capstan_planner::healing::Stage;

/// What the condition `HealedInPlace` waits for; `None` if the machine is healthy.
pub(crate) const fn cause(stage: Stage) -> Option<&'static Cause> {
    Some(match stage {
        Stage::Healthy => return None,
        Stage::Waiting => &causes::HEALING,
        Stage::Restarting => &causes::RESTARTING,
        Stage::Reapplying => &causes::REAPPLYING,
        Stage::Rebooting => &causes::REBOOTING,
        Stage::Silent => &causes::SILENT,
        Stage::Exhausted => &causes::EXHAUSTED,
    })
}
