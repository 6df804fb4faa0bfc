//! When the hosts of a template were counted last.

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

fn looks_of(template: &HostMachineTemplate) -> Looks {
    let owners = template.owner_references().iter().map(|owner| owner.uid.clone());
    (template.metadata.generation, owners.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
