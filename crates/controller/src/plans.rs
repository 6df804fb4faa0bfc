//! Where a machine's plan stands, which setup it stands for, and what the machine says of it. Pure.
//!
//! The planner writes the plan; whoever wants to know whether a machine has become what an object says reads it here,
//! and never has to render it.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_plan::{Digest, Report};
use serde_json::{Value, json};

/// Annotation of a plan Secret: the setup that the plan was made for, as returned by [`setup`]. It does not cover
/// inputs from elsewhere, such as certificates.
pub const PLAN_SETUP: &str = "capstan.dev/plan-setup";

/// Condition of a CapstanConfig: the machine has a current plan.
pub const PLANNED: &str = "Planned";

/// Reason of [`PLANNED`]: there is no plan until the user changes a field.
pub const PLAN_REFUSED: &str = capstan_api::wait::causes::REFUSED.reason;

/// Name of the Secret with a machine's plan.
pub fn secret_name(machine: &str) -> String {
    format!("{machine}-plan")
}

/// Version and CapstanConfig of a machine in one value. Equal setups give equal values, independent of the order of
/// their fields.
pub fn setup(version: &str, config: &CapstanConfigSpec) -> String {
    // A config is made of texts, numbers and maps with text keys: it can always be written.
    let config = serde_json::to_value(config).unwrap_or_default();
    Digest::of(json!([version, sorted(config)]).to_string().as_bytes()).to_string()
}

/// The same value with every object's keys in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        other => other,
    }
}

/// The report of a machine, if it is about the machine with this ID and is consistent.
pub fn report(report: &MachineReport, machine: &str, id: &str) -> Option<Report> {
    if report.spec.machine_name != machine || report.spec.machine_id != id {
        return None;
    }
    let status = serde_json::to_value(report.status.as_ref()?).ok()?;
    serde_json::from_value(status).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: Value) -> CapstanConfigSpec {
        serde_json::from_value(value).expect("a config")
    }

    #[test]
    fn a_setup_is_the_same_whatever_the_order() {
        let one = config(json!({"settings": {"a": {"x": 1, "y": [2]}, "b": 0}}));
        let other = config(json!({"distro": "k3s", "settings": {"b": 0, "a": {"y": [2], "x": 1}}}));
        assert_eq!(setup("v1.36.0", &one), setup("v1.36.0", &other));
        assert_ne!(setup("v1.36.0", &one), setup("v1.36.1", &one));
        assert_ne!(setup("v1.36.0", &one), setup("v1.36.0", &config(json!({"settings": {"b": 0}}))));
    }

    #[test]
    fn a_report_of_a_former_life_does_not_count() {
        let object = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
            "spec": {"machineName": "m", "machineID": "old"}, "status": {"agentVersion": "1"},
        });
        let object: MachineReport = serde_json::from_value(object).expect("a report");
        assert!(report(&object, "m", "old").is_some());
        assert!(report(&object, "m", "new").is_none());
        assert!(report(&object, "other", "old").is_none());
    }
}
