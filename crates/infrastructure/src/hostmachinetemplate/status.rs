//! Status of a HostMachineTemplate, from the count. Pure.

use capstan_api::infrastructure::HostMachineTemplate;
use serde_json::{Value, json};

/// Numbers up to this one are exact in the status.
const EXACT: usize = 20;

/// A number of hosts as the status shows it: exact if it is small, otherwise rounded down to its first digit. An exact
/// number would cause a write of every template for every claim.
fn shown(mut count: usize) -> usize {
    let mut unit = 1;
    if count > EXACT {
        while count >= 10 {
            count /= 10;
            unit *= 10;
        }
    }
    count * unit
}

/// The patch of the status; `None` if the status is up to date.
pub(super) fn patch(template: &HostMachineTemplate, claimable: Option<usize>) -> Option<Value> {
    let number = claimable.and_then(|number| i32::try_from(shown(number)).ok());
    let before = template.status.as_ref().and_then(|status| status.claimable_hosts);
    (number != before).then(|| json!({"status": {"claimableHosts": number}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_written_once_and_taken_back_when_it_is_not_known() {
        let template = |status: &Value| -> HostMachineTemplate {
            serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
                "metadata": {"name": "t"}, "spec": {"template": {"spec": {}}}, "status": status,
            }))
            .expect("a HostMachineTemplate")
        };
        let (new, counted) = (template(&json!({})), template(&json!({"claimableHosts": 2})));
        assert_eq!(patch(&new, Some(2)), Some(json!({"status": {"claimableHosts": 2}})));
        assert_eq!(patch(&new, None), None);
        assert_eq!(patch(&counted, Some(2)), None);
        assert_eq!(patch(&counted, None), Some(json!({"status": {"claimableHosts": null}})));
    }

    #[test]
    fn many_hosts_are_rounded_down_and_few_are_exact() {
        for (count, expected) in
            [(0, 0), (1, 1), (20, 20), (21, 20), (29, 20), (99, 90), (100, 100), (4_321, 4_000)]
        {
            assert_eq!(shown(count), expected, "{count}");
        }
    }
}
