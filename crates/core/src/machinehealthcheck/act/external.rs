//! External remediation: one request object for each unhealthy Machine, created from a template.
//!
//! The reference names a version, which is used: these kinds are not part of the contract.

use capstan_api::conditions::{ConditionStatus, NewCondition, set};
use capstan_api::core::{Machine, MachineHealthCheck, RemediationTemplateReference};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Grounds, Result, destroy, owners};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, PostParams, TypeMeta};
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use serde_json::json;

use super::super::MachineHealthCheckReconciler;
use super::super::names::{reasons, types};
use crate::machineset::desired::{cloned_from, cloned_kind};

impl MachineHealthCheckReconciler {
    /// Makes the request for a Machine, if there is none, and says on the Machine how that went.
    pub(super) async fn request(
        &self,
        template: &RemediationTemplateReference,
        machine: &mut Machine,
    ) -> Result<()> {
        let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
        let requests = self.api(template, cloned_kind(&template.kind), &namespace);
        let doing = || format!("cannot read {} {namespace}/{name}", cloned_kind(&template.kind));
        if requests.get_opt(&name).await.doing(doing)?.is_some() {
            return Ok(());
        }
        let failed = |reason: &str, message: String| {
            NewCondition::new(types::EXTERNALLY_REMEDIATED, ConditionStatus::False, reason).message(message)
        };
        let found = self.api(template, &template.kind, &namespace).get_opt(&template.name).await;
        let Some(from) =
            found.doing(|| format!("cannot read {} {namespace}/{}", template.kind, template.name))?
        else {
            let message = format!(
                "Error retrieving remediation template {} {namespace}/{}",
                template.kind, template.name
            );
            set(machine, failed(reasons::TEMPLATE_NOT_FOUND, message.clone()), self.core.now());
            return Err(Error::user("spec.remediation.templateRef", message));
        };
        let made = requests.create(&PostParams::default(), &request(&from, template, machine)).await;
        let condition = match &made {
            Ok(_) => failed(reasons::WAITING_FOR_REMEDIATION, String::new()),
            Err(_) => failed(reasons::REQUEST_CREATION_FAILED, crate::names::CHECK_LOGS.to_owned()),
        };
        set(machine, condition, self.core.now());
        made.map(|_| ()).doing(|| format!("cannot ask for the remediation of Machine {namespace}/{name}"))
    }

    /// Takes the request for a Machine back that has recovered.
    pub(super) async fn withdraw_request(&self, check: &MachineHealthCheck, machine: &Machine) -> Result<()> {
        let remediation = check.spec.remediation.as_ref();
        let Some(template) = remediation.and_then(|remediation| remediation.template_ref.as_ref()) else {
            return Ok(());
        };
        let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
        let requests = self.api(template, cloned_kind(&template.kind), &namespace);
        let doing = || format!("cannot withdraw the remediation of Machine {namespace}/{name}");
        match requests.get_opt(&name).await.doing(doing)? {
            Some(request) if request.metadata.deletion_timestamp.is_none() => {
                destroy::delete(&requests, &request.metadata, &Grounds::asked("the Machine has recovered"))
                    .await
            }
            _ => Ok(()),
        }
    }

    fn api(
        &self,
        template: &RemediationTemplateReference,
        kind: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let (group, version) = template.api_version.split_once('/').unwrap_or(("", &template.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.core.client.clone(), namespace, &resource)
    }
}

/// The request: all that is in the template's `spec.template`, under the Machine's name and owned by it.
fn request(
    from: &DynamicObject,
    template: &RemediationTemplateReference,
    machine: &Machine,
) -> DynamicObject {
    let group = template.api_version.split_once('/').map_or("", |(group, _)| group);
    let reference = ContractVersionedObjectReference {
        kind: template.kind.clone(),
        name: template.name.clone(),
        api_group: group.to_owned(),
    };
    let spec = from.data.pointer("/spec/template/spec").cloned().unwrap_or_else(|| json!({}));
    DynamicObject {
        types: Some(TypeMeta {
            api_version: template.api_version.clone(),
            kind: cloned_kind(&template.kind).to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(machine.name_any()),
            namespace: machine.namespace(),
            labels: Some([(labels::CLUSTER_NAME.to_owned(), machine.spec.cluster_name.clone())].into()),
            annotations: Some(cloned_from(&reference)),
            owner_references: owners::plain(machine).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: json!({ "spec": spec }),
    }
}
