//! Whether a machine that is replaced gets another host. Pure.
//!
//! Where hosts are kept there may be none left: then a machine that is deleted to be replaced is only lost.

use capstan_api::infrastructure::HostMachineTemplate;
use kube::core::DynamicObject;
use kube::{Resource as _, ResourceExt as _};

use crate::knowledge::Knowledge;

pub use capstan_planner::spare::Spare;

/// Whether hosts are free for a machine that is created from this template.
pub fn of(template: &DynamicObject) -> Knowledge<Spare> {
    let (group, kind) = (HostMachineTemplate::group(&()), HostMachineTemplate::kind(&()));
    let is_ours = template.types.as_ref().is_some_and(|types| {
        types.kind == kind && types.api_version.split_once('/').map(|(of, _)| of) == Some(&*group)
    });
    if !is_ours {
        return Knowledge::Known(Spare::OnDemand);
    }
    let number = template.data.pointer("/status/claimableHosts").and_then(serde_json::Value::as_u64);
    match number.and_then(|number| usize::try_from(number).ok()) {
        Some(number) => Knowledge::Known(Spare::Hosts(number)),
        None => Knowledge::Unknown(format!(
            "{kind} {} does not say in status.claimableHosts how many hosts are free",
            template.name_any()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(kind: &str, status: &serde_json::Value) -> Knowledge<Spare> {
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": kind,
            "metadata": {"name": "t"}, "status": status,
        });
        of(&serde_json::from_value(object).expect("an object"))
    }

    #[test]
    fn hosts_must_be_known_to_be_free() {
        assert_eq!(
            template("HostMachineTemplate", &json!({"claimableHosts": 2})),
            Knowledge::Known(Spare::Hosts(2))
        );
        let none = template("HostMachineTemplate", &json!({"claimableHosts": 0}));
        assert!(none.check().is_err_and(|why| why.contains("no clean host")));
        let unknown = template("HostMachineTemplate", &json!(null));
        assert!(unknown.check().is_err_and(|why| why.contains("status.claimableHosts")));
        assert_eq!(template("DockerMachineTemplate", &json!(null)).check(), Ok(()));
    }
}
