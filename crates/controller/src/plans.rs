//! The progress of a machine's plan, its setup, and the machine's report about it. Pure.
//!
//! The planner writes the plan Secret first, and then `status.plan` of the CapstanConfig, which names the plan without
//! its content. A client that checks whether a machine matches its objects reads that status and the MachineReport: it
//! needs no right to read Secrets, and never renders a plan. The status may be older than the Secret, and is dropped by
//! a move. So the planner decides nothing from it, and writes it again.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::{CapstanConfig, CapstanConfigPlanStatus, CapstanConfigSpec};
use capstan_plan::{Digest, PlanId, Report};
use serde_json::{Value, json};

use crate::identity;

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

/// `status.plan` for a plan of the machine with this ID that implements a setup. `None` if the setup is not a value of
/// [`setup`]: an API server would reject it.
pub fn status(plan: PlanId, setup: &str, machine_id: &str) -> Option<CapstanConfigPlanStatus> {
    let setup: Digest = setup.parse().ok()?;
    Some(CapstanConfigPlanStatus {
        digest: plan.digest().to_string(),
        revision: i64::try_from(plan.revision().get()).ok()?,
        setup: setup.to_string(),
        machine_id: machine_id.to_owned(),
    })
}

/// The plan in `status.plan` of a CapstanConfig, if it implements this setup and is for this life of the machine.
pub fn planned(config: &CapstanConfig, setup: &str) -> Option<PlanId> {
    let plan = config.status.as_ref()?.plan.as_ref()?;
    if plan.setup != setup || plan.machine_id != identity::of(config)? {
        return None;
    }
    serde_json::from_value(json!({"digest": plan.digest, "revision": plan.revision})).ok()
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
    fn a_status_names_one_plan_for_one_setup_and_one_life() {
        let id: PlanId =
            serde_json::from_value(json!({"digest": "ab".repeat(32), "revision": 7})).expect("an ID");
        let wanted = setup("v1.36.0", &CapstanConfigSpec::default());
        let told = |machine_id: &str| -> CapstanConfig {
            let plan = status(id, &wanted, machine_id).expect("a status");
            serde_json::from_value(json!({
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
                "metadata": {"name": "m", "annotations": {identity::MACHINE_ID: "new"}}, "spec": {},
                "status": {"plan": plan},
            }))
            .expect("a CapstanConfig")
        };
        assert_eq!(planned(&told("new"), &wanted), Some(id));
        assert_eq!(planned(&told("old"), &wanted), None, "a former life");
        assert_eq!(planned(&told("new"), &setup("v1.36.1", &CapstanConfigSpec::default())), None);
        let mut nobody = told("new");
        nobody.metadata.annotations = None;
        assert_eq!(planned(&nobody, &wanted), None, "a machine without an ID");
        nobody.status = None;
        assert_eq!(planned(&nobody, &wanted), None);
        assert_eq!(status(id, "edited by a user", "new"), None);
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
