//! The two hand-offs that provision a Machine: bootstrap data, then infrastructure. Copies results of the providers
//! into the Machine. Pure.
//!
//! The flags of `status.initialization` are never reset.

use capstan_api::core::{Machine, MachineInitializationStatus};
use capstan_api::meta::annotations;
use capstan_controller::{Error, Next, Result};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use std::time::Duration;

use super::ownership::is_control_plane_machine;
use crate::external::{Reading, field, flag, is_deleting};

/// Requeue while an object does not exist: no event of it can trigger the Machine that does not own it yet.
const UNTIL_IT_EXISTS: Duration = Duration::from_secs(5);

pub(in crate::machine) fn bootstrap(machine: &mut Machine, reading: &Reading) -> Result<Next> {
    let object = match reading {
        Reading::Found(object) => object,
        Reading::Missing if !deleting(machine) => return Ok(Next::After(UNTIL_IT_EXISTS)),
        _ => return Ok(Next::Changed),
    };
    if machine.spec.bootstrap.data_secret_name.is_some() {
        initialization(machine).bootstrap_data_secret_created = Some(true);
        return Ok(Next::Changed);
    }
    if is_deleting(object) || !flag(object, "/status/initialization/dataSecretCreated") {
        return Ok(Next::Changed);
    }
    let name = text(object, "/status/dataSecretName").ok_or_else(|| {
        let what = "is empty although dataSecretCreated is true; the bootstrap provider must set it";
        Error::user(format!("{} status.dataSecretName", named(object)), what)
    })?;
    machine.spec.bootstrap.data_secret_name = Some(name);
    initialization(machine).bootstrap_data_secret_created = Some(true);
    Ok(Next::Changed)
}

pub(in crate::machine) fn infrastructure(machine: &mut Machine, reading: &Reading) -> Result<Next> {
    let object = match reading {
        Reading::Found(object) => object,
        Reading::Missing if deleting(machine) => return Ok(Next::Changed),
        Reading::Missing if provisioned(machine) => {
            let reference = &machine.spec.infrastructure_ref;
            let field = format!("Machine {} spec.infrastructureRef", machine.name_any());
            let what =
                format!("{} {} has been deleted after being provisioned", reference.kind, reference.name);
            return Err(Error::user(field, what));
        }
        Reading::Missing => return Ok(Next::After(UNTIL_IT_EXISTS)),
        _ => return Ok(Next::Changed),
    };
    let done = flag(object, "/status/initialization/provisioned") || provisioned(machine);
    let (false, true, Some(provider_id)) = (is_deleting(object), done, text(object, "/spec/providerID"))
    else {
        return Ok(Next::Changed);
    };
    if let Some(domain) = text(object, "/spec/failureDomain") {
        machine.spec.failure_domain = Some(domain);
    }
    machine.spec.provider_id = Some(provider_id);
    let status = machine.status.get_or_insert_default();
    // They may change at any time. A provider that says nothing does not know them now: the last known ones stay.
    if let Some(addresses) = field(object, "/status/addresses").filter(|list: &Vec<_>| !list.is_empty()) {
        status.addresses = addresses;
    }
    if let Some(domain) = text(object, "/status/failureDomain") {
        status.failure_domain = Some(domain);
    }
    initialization(machine).infrastructure_provisioned = Some(true);
    Ok(Next::Changed)
}

/// Expiry of the certificates of a control plane machine: from the Machine, otherwise from its bootstrap config.
pub(in crate::machine) fn certificates(machine: &mut Machine, bootstrap: &Reading) -> Result<Next> {
    if !is_control_plane_machine(machine) {
        return Ok(Next::Changed);
    }
    let said = |annotations: &std::collections::BTreeMap<String, String>, who: String| {
        annotations.get(annotations::CERTIFICATES_EXPIRY).map(|text| (text.clone(), who))
    };
    let found = said(machine.annotations(), format!("Machine {}", machine.name_any()))
        .or_else(|| bootstrap.found().and_then(|object| said(object.annotations(), named(object))));
    let expiry = match found {
        None => None,
        Some((text, who)) => Some(Time(text.parse::<Timestamp>().map_err(|error| {
            let field = format!("{who} annotation {}", annotations::CERTIFICATES_EXPIRY);
            Error::user(field, format!("is not a time as in RFC 3339: {error}"))
        })?)),
    };
    if expiry.is_some() || machine.status.is_some() {
        machine.status.get_or_insert_default().certificates_expiry_date = expiry;
    }
    Ok(Next::Changed)
}

/// The provider ID of a machine, also if the Machine does not have it yet.
pub(in crate::machine) fn provider_id(machine: &Machine, infrastructure: &Reading) -> Option<String> {
    machine
        .spec
        .provider_id
        .clone()
        .or_else(|| text(infrastructure.found().filter(|_| deleting(machine))?, "/spec/providerID"))
}

pub(in crate::machine) fn deleting(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

pub(in crate::machine) fn provisioned(machine: &Machine) -> bool {
    flags(machine).and_then(|flags| flags.infrastructure_provisioned).unwrap_or_default()
}

pub(in crate::machine) fn data_secret_created(machine: &Machine) -> bool {
    flags(machine).and_then(|flags| flags.bootstrap_data_secret_created).unwrap_or_default()
}

fn flags(machine: &Machine) -> Option<&MachineInitializationStatus> {
    machine.status.as_ref()?.initialization.as_ref()
}

fn initialization(machine: &mut Machine) -> &mut MachineInitializationStatus {
    machine.status.get_or_insert_default().initialization.get_or_insert_default()
}

/// A string that is set and not empty.
fn text(object: &DynamicObject, pointer: &str) -> Option<String> {
    field(object, pointer).filter(|text: &String| !text.is_empty())
}

fn named(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    format!("{kind} {}", object.name_any())
}
