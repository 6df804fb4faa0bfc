//! The machines of a control plane: created, changed in place, replaced and deleted, one at a time.

mod decide;
mod leave;
mod remediate;

pub use decide::{Step, Wanted, decide};
pub use leave::{Leaving, leave, stray};
pub use remediate::{Limits, Remediated};
