//! IPAddresses: they come from the pool that their claim asks for.

use crate::facts::{Fact, Facts, Key, Needs};
use crate::{Operation, Write, object};
use capstan_topology::{FieldError, field};
use serde_json::Value;

const POOL: &str = "spec.poolRef";

pub(crate) fn needs(write: &Write<'_>) -> Needs {
    let of_claim = |address: &Value| Key {
        namespace: object::text(address, &["metadata", "namespace"]).to_owned(),
        name: object::text(address, &["spec", "claimRef", "name"]).to_owned(),
    };
    let claim = write.new.filter(|_| write.operation == Operation::Create).map(of_claim);
    Needs { claim, ..Needs::default() }
}

pub(crate) fn validate(address: &Value, facts: &Facts) -> Vec<FieldError> {
    let claim = match &facts.claim {
        Fact::Known(claim) => claim,
        // The claim may be deleted before the address comes.
        Fact::Absent => return Vec::new(),
        Fact::Unknown(why) => {
            return vec![field::internal("spec.claimRef", format!("cannot read the IPAddressClaim: {why}"))];
        }
    };
    let pool = |object| {
        ["apiGroup", "kind", "name"].map(|field| object::text(object, &["spec", "poolRef", field]).to_owned())
    };
    if pool(address) == pool(claim) {
        return Vec::new();
    }
    let given = object::at(address, &["spec", "poolRef"]).cloned().unwrap_or_default();
    vec![field::invalid(POOL, given, "must be the pool of the IPAddressClaim in spec.claimRef")]
}
