//! When the deletion of a Machine is slow, and why, as conditions of Machines and of their owners report it. Pure.

use jiff::SignedDuration;

/// A deletion that takes longer is named in messages.
pub(crate) const LONG_DELETION: SignedDuration = SignedDuration::from_mins(15);
/// A drain that takes longer is named in messages, with its cause.
pub(crate) const LONG_DRAIN: SignedDuration = SignedDuration::from_mins(5);

/// A part of a drain's message, and the cause that it stands for.
const DELAYS: [(&str, &str); 4] = [
    ("cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"),
    ("deletionTimestamp set, but still not removed from the Node", "Pods not terminating"),
    ("failed to evict Pod", "Pod eviction errors"),
    ("waiting for completion", "Pods not completed yet"),
];

/// The end of a sentence with the causes in the messages of drains; `None` if the messages name no cause.
pub(crate) fn delay(messages: &[&str]) -> Option<String> {
    let causes: Vec<&str> = DELAYS
        .iter()
        .filter(|(part, _)| messages.iter().any(|message| message.contains(part)))
        .map(|(_, cause)| *cause)
        .collect();
    (!causes.is_empty()).then(|| format!(", delay likely due to {}", causes.join(", ")))
}
