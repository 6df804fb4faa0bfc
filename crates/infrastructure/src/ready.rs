//! `Ready`, summarized from the other conditions of an object. Pure.

use capstan_api::conditions::{Conditioned, MergeStrategy, Reasons, Summary, reasons, set, types};
use jiff::Timestamp;

/// Sets `Ready` from the conditions of these types.
pub(crate) fn sum_up<T: Conditioned>(object: &mut T, of: &[&str], now: Timestamp) {
    let words = Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY };
    let summary = Summary::over(of.iter().copied()).strategy(MergeStrategy::new().reasons(words));
    // Fails only for no types, or for `Ready` among them.
    if let Ok(ready) = summary.summarize(object, types::READY) {
        set(object, ready, now);
    }
}
