//! The machines of a control plane: created, changed in place, replaced and deleted, one at a time.

mod decide;
mod leave;
mod remediation;

pub use decide::{MachineStep, Wanted, decide};
pub use leave::{Leaving, leave, stray};
pub use remediation::{Limits, Remediated};
