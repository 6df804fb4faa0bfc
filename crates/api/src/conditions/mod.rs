//! Conditions: what they are and how they are read, set, summed up, aggregated, mirrored and patched.
//!
//! Everything in here is arithmetic on lists of conditions. Nothing does I/O and nothing reads a clock: where
//! the time matters, it is an argument.
//!
//! The rules, which are those of Cluster API's contract, down to the bytes of every message:
//!
//! - **Reading.** A condition that is absent is unknown; it is neither true nor false ([`is_unknown`]).
//!   Objects that are not known as a type are read by [`External`], which also understands the v1beta1 shape.
//! - **Setting** ([`set`]). `lastTransitionTime` moves only when `status` does. It is what the caller gives,
//!   else now, in whole seconds. `observedGeneration` is always the object's generation. If nothing but the
//!   time would change, nothing changes. A list that changed is put into the order of [`sort`].
//! - **Polarity.** Normally True is good. Of a condition with negative polarity False is good (`Deleting`,
//!   `Paused`, `ScalingUp`).
//! - **Merging.** Each condition is an issue (not good), unknown, or an info (good). One issue makes the
//!   result bad, else one unknown makes it Unknown, else it is good. A condition that should be there and is
//!   not counts as unknown, with the reason `NotYetReported`.
//! - **[`Summary`]** merges several conditions of one object, and shows every message.
//! - **[`Aggregate`]** merges one condition of many objects, and shows the three messages that matter most.
//! - **[`Mirror`]** copies one condition of one object to another object, with its transition time.
//! - **[`ConditionsPatch`]** merges three ways by condition type, because several controllers write
//!   conditions of the same object: what one owns it overwrites, and for the rest a race is an error, never a
//!   lost write.

mod access;
mod aggregate;
mod catalogue;
mod condition;
mod digest;
mod external;
mod merge;
mod message;
mod mirror;
mod names;
mod order;
mod patch;
mod set;
mod summary;
#[cfg(test)]
mod tests;

pub use access::{Conditioned, Owner, StatusConditions, find, get, has, is_false, is_true, is_unknown};
pub use aggregate::Aggregate;
pub use catalogue::{ReasonInfo, reason_table};
pub use condition::{Condition, ConditionStatus};
pub use external::{External, InvalidCondition, InvalidConditions};
pub use merge::{MergeError, MergeStrategy, Polarity, Priority, Reasons, Source};
pub use mirror::Mirror;
pub use names::{reasons, types};
pub use order::sort;
pub use patch::{ConditionConflict, ConditionsPatch, Precedence};
pub use set::{NewCondition, delete, set};
pub use summary::Summary;
