//! When the hosts of a template were counted last, and what was counted for others that want the same hosts.

use capstan_api::infrastructure::HostMachineTemplate;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::AGAIN;

/// What a count rests on of the template itself: its generation, and its owners.
type Looks = (Option<i64>, Vec<String>);

/// By UID of the template: what it was when its hosts were counted, and when that was.
#[derive(Default)]
pub(super) struct Counted(Mutex<HashMap<String, (Looks, Instant)>>);

impl Counted {
    /// For how long the last count still holds, if it does.
    pub(super) fn rests(&self, template: &HostMachineTemplate, now: Instant) -> Option<Duration> {
        // What is inside spares work, nothing more: a panic elsewhere has not broken it.
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (looks, at) = counted.get(&template.uid()?)?;
        let left = AGAIN.checked_sub(now.saturating_duration_since(*at))?;
        (*looks == looks_of(template) && !left.is_zero()).then_some(left)
    }

    /// The hosts were counted.
    pub(super) fn note(&self, template: &HostMachineTemplate, now: Instant) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, (_, at)| now.saturating_duration_since(*at) < AGAIN);
        counted.extend(template.uid().map(|uid| (uid, (looks_of(template), now))));
    }
}

/// A count is shared for so long by templates that want the same hosts.
const SHARED: Duration = Duration::from_secs(10);

/// Numbers of hosts, by namespace and selectors. Most templates of a large namespace want the same hosts, and each count looks at
/// all of them.
#[derive(Default)]
pub(super) struct SharedCounts(Mutex<HashMap<(String, String), Count>>);

/// A number of hosts, if it is known, and when they were counted.
type Count = (Option<usize>, Instant);

impl SharedCounts {
    /// What was counted a moment ago, or what `count` says now.
    pub(super) fn get(
        &self,
        (namespace, selectors): (String, String),
        now: Instant,
        count: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < SHARED;
        let key = (namespace, selectors);
        // What is inside spares work, nothing more: a panic elsewhere has not broken it.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((counted, at)) = counts.get(&key)
            && is_fresh(at)
        {
            return *counted;
        }
        counts.retain(|_, (_, at)| is_fresh(at));
        let counted = count();
        counts.insert(key, (counted, now));
        counted
    }
}

fn looks_of(template: &HostMachineTemplate) -> Looks {
    let owners = template.owner_references().iter().map(|owner| owner.uid.clone());
    (template.metadata.generation, owners.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_with_the_same_selectors_share_a_count_for_a_while() {
        let (counts, now) = (SharedCounts::default(), Instant::now());
        let key = |selectors: &str| ("n".to_owned(), selectors.to_owned());
        assert_eq!(counts.get(key("a"), now, || Some(3)), Some(3));
        assert_eq!(counts.get(key("a"), now + SHARED / 2, || unreachable!("it is known")), Some(3));
        assert_eq!(counts.get(key("b"), now, || None), None);
        assert_eq!(counts.get(key("a"), now + SHARED, || Some(4)), Some(4));
    }

    #[test]
    fn a_count_holds_for_a_while_and_until_the_template_changes() {
        let (counted, now) = (Counted::default(), Instant::now());
        let template = serde_json::json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "HostMachineTemplate",
            "metadata": {"name": "t", "uid": "1", "generation": 1}, "spec": {"template": {"spec": {}}},
        });
        let mut template: HostMachineTemplate = serde_json::from_value(template).expect("a template");
        assert_eq!(counted.rests(&template, now), None);
        counted.note(&template, now);
        assert_eq!(counted.rests(&template, now + AGAIN / 4), Some(AGAIN * 3 / 4));
        assert_eq!(counted.rests(&template, now + AGAIN), None);
        template.metadata.generation = Some(2);
        assert_eq!(counted.rests(&template, now + AGAIN / 4), None);
    }
}
