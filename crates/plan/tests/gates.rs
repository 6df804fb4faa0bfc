//! A gate is open only if a trusted key has signed that for exactly this plan.

#![cfg(test)]

mod common;

use capstan_plan::{
    GatesError, OpenGates, PlanId, SecretData, SecretError, SignedGates, SignedPlan, SigningKey,
};
use common::{key, machine, name, plan, trusted};
use proptest::prelude::*;

fn id() -> PlanId {
    plan().seal().unwrap().id()
}

fn data() -> SecretData {
    let mut data = plan().seal().unwrap().sign(&key()).to_secret_data();
    data.extend(OpenGates::new(id(), [name("drained")]).seal(&key()).to_secret_data());
    data
}

fn read(data: &SecretData) -> Result<Option<OpenGates>, String> {
    let signed = SignedGates::from_secret_data(data).map_err(|error| error.to_string())?;
    signed
        .map(|signed| OpenGates::verify(&signed, &trusted(), id()).map_err(|error| error.to_string()))
        .transpose()
}

#[test]
fn open_gates_survive_the_way_through_a_secret_beside_their_plan() {
    let data = data();
    let gates = read(&data).unwrap().unwrap();
    assert!(gates.is_open(id(), &name("drained")));
    assert!(!gates.is_open(id(), &name("other")));
    assert_eq!(gates.open().collect::<Vec<_>>(), [&name("drained")]);
    let verified = SignedPlan::from_secret_data(&data).unwrap().verify(&trusted(), &machine()).unwrap();
    assert_eq!(verified.id(), id());
    assert!(!OpenGates::none(id()).is_open(id(), &name("drained")));
}

#[test]
fn a_plan_is_cancelled_by_revision_and_no_later_one_than_that_beside() {
    let sealed = |gates: OpenGates| {
        let signed = SignedGates::from_secret_data(&gates.seal(&key()).to_secret_data()).unwrap().unwrap();
        OpenGates::verify(&signed, &trusted(), id())
    };
    let revision = |number| capstan_plan::Revision::new(number).unwrap();
    assert_eq!(id().revision(), revision(4));
    let earlier = sealed(OpenGates::new(id(), [name("drained")]).cancelling(revision(3))).unwrap();
    assert_eq!((earlier.cancelled(), earlier.cancels(id())), (Some(revision(3)), false));
    assert!(earlier.is_open(id(), &name("drained")));
    let this = sealed(OpenGates::none(id()).cancelling(revision(4))).unwrap();
    assert!(this.cancels(id()) && !OpenGates::none(id()).cancels(id()));
    let later = sealed(OpenGates::none(id()).cancelling(revision(5)));
    assert_eq!(later, Err(GatesError::Cancel { cancel: revision(5), plan: revision(4) }));
}

#[test]
fn without_the_document_no_gate_is_open_and_half_of_it_is_an_error() {
    let mut only_plan = data();
    only_plan.remove("gates");
    assert_eq!(SignedGates::from_secret_data(&only_plan), Err(SecretError::Missing("gates")));
    only_plan.remove("gates-signature");
    assert_eq!(SignedGates::from_secret_data(&only_plan), Ok(None));
    let mut unsigned = data();
    unsigned.remove("gates-signature");
    assert_eq!(SignedGates::from_secret_data(&unsigned), Err(SecretError::Missing("gates-signature")));
    unsigned.insert("gates-signature".into(), vec![0; 63]);
    assert_eq!(SignedGates::from_secret_data(&unsigned), Err(SecretError::Malformed("gates-signature")));
    let mut large = data();
    large.insert("gates".into(), vec![b' '; 20_000]);
    assert!(matches!(SignedGates::from_secret_data(&large), Err(SecretError::GatesSize(_))));
}

#[test]
fn no_byte_of_them_can_be_changed() {
    let data = data();
    for key in ["gates", "gates-signature"] {
        for at in 0..data[key].len() {
            let mut tampered = data.clone();
            tampered.get_mut(key).unwrap()[at] ^= 1;
            assert!(read(&tampered).is_err(), "data.{key}[{at}]");
        }
    }
}

#[test]
fn gates_of_another_plan_or_of_a_stranger_are_closed() {
    let mut other = plan();
    other.revision = other.revision.next().unwrap();
    let other = other.seal().unwrap().id();
    let signed = OpenGates::new(other, [name("drained")]).seal(&key());
    assert_eq!(OpenGates::verify(&signed, &trusted(), id()), Err(GatesError::OtherPlan(*other.digest())));
    let stranger = OpenGates::new(id(), [name("drained")]).seal(&SigningKey::from_seed(&[9; 32]));
    assert_eq!(OpenGates::verify(&stranger, &trusted(), id()), Err(GatesError::Signature));
    // A word about gates is no word about a plan, and the other way round.
    let plan = plan().seal().unwrap().sign(&key()).to_secret_data();
    let mut mixed = data();
    mixed.insert("gates-signature".into(), plan["signature"].clone());
    assert!(read(&mixed).unwrap_err().contains("not signed"));
}

#[test]
fn a_full_set_of_gates_fits_beside_a_full_plan() {
    let long = (0..capstan_plan::limits::GATES).map(|i| name(&format!("{i:063}")));
    let data = OpenGates::new(id(), long).seal(&key()).to_secret_data();
    let size: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(size < 1024 * 1024 - capstan_plan::limits::PLAN_BYTES - 1024, "{size}");
    assert!(read(&data).unwrap().is_some());
}

proptest! {
    /// Whatever a trusted key signs by mistake: it is read as it is written, or not at all.
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        let mut data = data();
        data.insert("gates".into(), bytes);
        prop_assert!(read(&data).is_err());
    }
}
