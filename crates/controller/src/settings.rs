//! Concurrency and sync period of the controllers of a process, as its flags set them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::queue::Limits;

/// Settings for the controllers of a process, by name. The defaults are those of [`Limits`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Concurrent reconciles for each controller.
    pub concurrency: BTreeMap<String, usize>,
    /// An object is reconciled after this time even if no event arrives.
    pub sync_period: Option<Duration>,
}

impl Settings {
    /// The limits of a controller whose defaults are `limits`.
    pub fn limits(&self, controller: &str, mut limits: Limits) -> Limits {
        if let Some(at_once) = self.concurrency.get(controller) {
            limits = limits.with_concurrency(*at_once);
        }
        if let Some(resync) = self.sync_period {
            limits.resync = resync;
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_it_is_by_default() {
        assert_eq!(Settings::default().limits("machine", Limits::default()), Limits::default());
        let settings = Settings {
            concurrency: BTreeMap::from([("machine".to_owned(), 5)]),
            sync_period: Some(Duration::from_secs(60)),
        };
        let limits = settings.limits("machine", Limits::default());
        assert_eq!((limits.at_once, limits.in_lane, limits.resync), (5, 2, Duration::from_secs(60)));
        assert_eq!(settings.limits("cluster", Limits::summing_up()).at_once, Limits::default().at_once);
    }
}
