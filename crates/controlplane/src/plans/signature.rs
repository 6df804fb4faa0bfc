//! Signs a plan again that an earlier key has signed. Pure.
//!
//! The plan stays the same: its bytes, its revision and its open gates do not change, so the machine only trusts the
//! new key.

use capstan_controller::identity;
use capstan_plan::{
    MachineIdentity, OpenGates, SealedPlan, SecretData, SignedGates, SignedPlan, TrustedKeys, keys,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use super::observe::data_of;
use crate::certificates::Keys;

/// The changes of the Secret of a plan; `None` if the current key or an unknown key has signed it.
pub(super) fn signed_again(secret: &Secret, machine: &str, by: &Keys) -> Option<SecretData> {
    let (data, current) = (data_of(secret), by.signing.public());
    if data.get(keys::KEY).map(Vec::as_slice) == Some(current.id().to_string().as_bytes()) {
        return None;
    }
    let earlier: TrustedKeys = by.successions.before(current).collect();
    let machine_id = secret.annotations().get(identity::MACHINE_ID)?.parse().ok()?;
    let ours = MachineIdentity { name: machine.parse().ok()?, machine_id };
    let signed = SignedPlan::from_secret_data(&data).ok()?;
    let plan = signed.verify(&earlier, &ours).ok()?.id();
    let mut again = SealedPlan::parse(signed.bytes()).ok()?.sign(&by.signing).to_secret_data();
    again.retain(|key, _| [keys::KEY, keys::SIGNATURE].contains(&key.as_str()));
    again.extend(by.successions.to_secret_data());
    let gates = SignedGates::from_secret_data(&data).ok().flatten();
    if let Some(gates) = gates.and_then(|gates| OpenGates::verify(&gates, &earlier, plan).ok()) {
        again.extend(gates.seal(&by.signing).to_secret_data());
    }
    Some(again)
}
