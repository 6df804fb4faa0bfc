//! The name of a MachineSet that is not there yet: the MachineDeployment's name and five characters, as upstream. Pure.
//!
//! The characters are no random ones, because a rollout that is held is drafted again at every reconcile: with another name
//! every time, the question to an extension would never be the same, and no answer could be kept.

use capstan_api::core::MachineDeployment;
use capstan_controller::names::suffix_of;
use capstan_plan::Digest;
use kube::ResourceExt as _;
use serde_json::json;

/// A name and the five characters at its end leave this much room.
const LONGEST_BASE: usize = 58;

/// What names of new MachineSets begin with.
pub(in crate::machinedeployment) fn base(deployment: &MachineDeployment) -> String {
    let mut base = format!("{}-", deployment.name_any());
    // Names of objects are ASCII.
    base.truncate(LONGEST_BASE);
    base
}

/// Five characters for the MachineSet of the MachineDeployment's template at this revision. They differ from those of
/// every name that is taken. The revision is part of them, so that a template that comes back later does not get the name
/// and the label of a MachineSet that it had before.
pub(super) fn suffix(
    deployment: &MachineDeployment,
    revision: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let base = base(deployment);
    let drafted = |collisions: u32| {
        let parts = json!([deployment.uid(), deployment.spec.template, revision, collisions]);
        let digest = Digest::of(parts.to_string().as_bytes());
        suffix_of(digest.as_bytes())
    };
    let mut collisions = 0;
    loop {
        let suffix = drafted(collisions);
        if !is_taken(&format!("{base}{suffix}")) {
            return suffix;
        }
        collisions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use serde_json::Value;

    fn free(fields: &Value, revision: &str) -> String {
        suffix(&deployment(fields), revision, |_| false)
    }

    #[test]
    fn a_draft_has_the_same_name_until_it_is_of_something_else() {
        let first = free(&json!({}), "1");
        assert_eq!(first.len(), 5);
        assert_eq!(first, free(&json!({"spec": {"replicas": 7}}), "1"), "the template is the same");
        for (case, other) in [
            ("another template", free(&json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}}), "1")),
            ("another MachineDeployment", free(&json!({"metadata": {"uid": "other"}}), "1")),
            ("another revision", free(&json!({}), "2")),
        ] {
            assert_ne!(first, other, "{case}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_passed_over_in_the_same_way_every_time() {
        let deployment = deployment(&json!({}));
        let first = suffix(&deployment, "1", |_| false);
        let taken = format!("md-{first}");
        let second = suffix(&deployment, "1", |name| name == taken);
        assert_ne!(first, second);
        assert_eq!(second, suffix(&deployment, "1", |name| name == taken));
    }

    #[test]
    fn long_names_are_cut() {
        let long = deployment(&json!({"metadata": {"name": "m".repeat(80)}}));
        assert_eq!(base(&long).len(), 58);
        assert_eq!(base(&deployment(&json!({}))), "md-");
    }
}
