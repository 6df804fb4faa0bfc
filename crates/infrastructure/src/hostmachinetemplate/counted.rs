//! When the hosts of each template were counted last, and counts that templates with the same selectors share.

use capstan_api::infrastructure::HostMachineTemplate;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::AGAIN;

/// The fields of a template that a count depends on: its generation, and its owners.
type Looks = (Option<i64>, Vec<String>);

/// By UID of the template: its fields when the hosts were counted, and the time.
#[derive(Default)]
pub(super) struct Counted(Mutex<HashMap<String, (Looks, Instant)>>);

impl Counted {
    /// How much longer the last count is valid, if it is.
    pub(super) fn rests(&self, template: &HostMachineTemplate, now: Instant) -> Option<Duration> {
        // What is inside spares work, nothing more: a panic elsewhere has not broken it.
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (looks, at) = counted.get(&template.uid()?)?;
        let left = AGAIN.checked_sub(now.saturating_duration_since(*at))?;
        (*looks == looks_of(template) && !left.is_zero()).then_some(left)
    }

    /// Records a count.
    pub(super) fn note(&self, template: &HostMachineTemplate, now: Instant) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, (_, at)| now.saturating_duration_since(*at) < AGAIN);
        counted.extend(template.uid().map(|uid| (uid, (looks_of(template), now))));
    }
}

/// How long templates share a count.
const SHARED: Duration = Duration::from_secs(10);

/// Numbers of hosts, by namespace and selectors. Most templates of a large namespace have the same selectors, and each
/// count evaluates all hosts.
#[derive(Default)]
pub(super) struct SharedCounts(Mutex<HashMap<(String, String), Count>>);

/// A number of hosts, if it is known, and the time of the count.
type Count = (Option<usize>, Instant);

impl SharedCounts {
    /// The shared count, or a new one by `count`.
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
