//! How far healing is, as a condition tells it.

use capstan_api::keep::healing as reasons;
use capstan_planner::healing::Stage;

/// The reason of the condition `HealedInPlace`.
pub(crate) const fn reason(stage: Stage) -> &'static str {
    match stage {
        Stage::Healthy => reasons::HEALTHY,
        Stage::Waiting => reasons::WAITING,
        Stage::Restarting => reasons::RESTARTING,
        Stage::Reapplying => reasons::REAPPLYING,
        Stage::Rebooting => reasons::REBOOTING,
        Stage::Silent => reasons::SILENT,
        Stage::Exhausted => reasons::EXHAUSTED,
    }
}
