//! The status of a ClusterClass: its variables, and two conditions. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, set, types};
use capstan_api::core::{ClusterClass, ClusterClassStatusVariable};
use jiff::Timestamp;

use super::decide::{Outdated, VariablesError};
use super::names::{REF_VERSIONS_UP_TO_DATE, VARIABLES_READY, reasons as own};
use crate::names::CHECK_LOGS;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 3] = [types::PAUSED, REF_VERSIONS_UP_TO_DATE, VARIABLES_READY];

/// Sets variables and conditions. `outdated` is `None` if a template could not be read or owned. Without new variables
/// those that are known stay.
pub(super) fn update(
    updated: &mut ClusterClass,
    outdated: Option<&[Outdated]>,
    variables: Result<Vec<ClusterClassStatusVariable>, VariablesError>,
    now: Timestamp,
) {
    set(updated, references(outdated), now);
    match variables {
        Ok(variables) => {
            let condition = definitions(&variables);
            updated.status.get_or_insert_default().variables = variables;
            set(updated, condition, now);
        }
        Err(problem) => {
            set(updated, failed(&problem.to_string()), now);
        }
    }
}

fn references(outdated: Option<&[Outdated]>) -> NewCondition {
    match outdated {
        None => NewCondition::new(REF_VERSIONS_UP_TO_DATE, ConditionStatus::Unknown, reasons::INTERNAL_ERROR)
            .message(CHECK_LOGS),
        Some([]) => NewCondition::new(REF_VERSIONS_UP_TO_DATE, true, own::REF_VERSIONS_UP_TO_DATE),
        Some(outdated) => {
            let lines = outdated.iter().map(|Outdated { kind, name, current, latest }| {
                format!("\n* {kind} {name}: current: {current}, latest: {latest}")
            });
            let lines: String = lines.collect();
            let message = format!("The following templateRefs are not using the latest apiVersion:{lines}");
            NewCondition::new(REF_VERSIONS_UP_TO_DATE, false, own::REF_VERSIONS_NOT_UP_TO_DATE)
                .message(message)
        }
    }
}

fn definitions(variables: &[ClusterClassStatusVariable]) -> NewCondition {
    let conflicting = variables.iter().filter(|variable| variable.definitions_conflict == Some(true));
    let conflicting: Vec<&str> = conflicting.map(|variable| variable.name.as_str()).collect();
    match conflicting.as_slice() {
        [] => NewCondition::new(VARIABLES_READY, true, own::VARIABLES_READY),
        names => failed(&format!("the following variables have conflicting schemas: {}", names.join(","))),
    }
}

fn failed(why: &str) -> NewCondition {
    NewCondition::new(VARIABLES_READY, false, own::VARIABLE_DISCOVERY_FAILED)
        .message(format!("VariableDiscovery failed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outdated_references_are_listed() {
        assert_eq!(references(None).status, ConditionStatus::Unknown);
        assert_eq!(references(Some(&[])).status, ConditionStatus::True);
        let outdated = Outdated {
            kind: "KTemplate".to_owned(),
            name: "n".to_owned(),
            current: "v1".to_owned(),
            latest: "v2".to_owned(),
        };
        let condition = references(Some(&[outdated]));
        assert_eq!(
            condition.message,
            "The following templateRefs are not using the latest apiVersion:\n* KTemplate n: current: v1, latest: v2"
        );
    }

    #[test]
    fn conflicts_are_named() {
        let variable = |name: &str, conflict: bool| -> ClusterClassStatusVariable {
            serde_json::from_value(json!({"name": name, "definitionsConflict": conflict, "definitions": []}))
                .expect("a variable")
        };
        assert_eq!(definitions(&[variable("a", false)]).status, ConditionStatus::True);
        let condition = definitions(&[variable("a", true), variable("b", false), variable("c", true)]);
        assert_eq!(
            condition.message,
            "VariableDiscovery failed: the following variables have conflicting schemas: a,c"
        );
    }
}
