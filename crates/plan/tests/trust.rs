//! Only plans that a trusted key has signed for this machine are accepted, and a plan is unchanged after a round trip
//! through a Secret.

#![cfg(test)]

mod common;

use capstan_plan::{
    MachineIdentity, PublicKey, SealedPlan, SecretData, SecretError, SignedPlan, SigningKey, TrustedKeys,
    VerifyError,
};
use common::{key, machine, plan, trusted};

fn secret() -> SecretData {
    plan().seal().unwrap().sign(&key()).to_secret_data()
}

fn obey(data: &SecretData) -> Result<capstan_plan::VerifiedPlan, String> {
    SignedPlan::from_secret_data(data)
        .map_err(|error| error.to_string())?
        .verify(&trusted(), &machine())
        .map_err(|error| error.to_string())
}

#[test]
fn a_plan_survives_the_way_through_a_secret() {
    let sealed = plan().seal().unwrap();
    let verified = obey(&secret()).unwrap();
    assert_eq!(*verified.plan(), plan());
    assert_eq!(verified.id(), sealed.id());
    assert_eq!(SealedPlan::parse(sealed.bytes()).unwrap(), sealed);
}

#[test]
fn no_byte_of_the_secret_can_be_changed() {
    let secret = secret();
    for (key, value) in &secret {
        for at in 0..value.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut tampered = secret.clone();
                tampered.get_mut(key).unwrap()[at] ^= flip;
                assert!(obey(&tampered).is_err(), "data.{key}[{at}] ^ {flip:#x} was not noticed");
            }
        }
        for change in
            [|bytes: &mut Vec<u8>| bytes.push(b'0'), |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1)]
        {
            let mut tampered = secret.clone();
            change(tampered.get_mut(key).unwrap());
            assert!(obey(&tampered).is_err(), "data.{key} of another length was not noticed");
        }
        let mut missing = secret.clone();
        missing.remove(key);
        assert!(obey(&missing).unwrap_err().contains(&format!("data.{key} is missing")));
    }
}

#[test]
fn a_tampered_plan_with_a_fitting_digest_is_refused_by_its_signature() {
    let mut other = plan();
    other.steps.pop();
    let mut data = secret();
    let sealed = other.seal().unwrap();
    data.insert("plan".into(), sealed.bytes().to_vec());
    data.insert("digest".into(), sealed.id().digest().to_string().into_bytes());
    assert!(obey(&data).unwrap_err().contains("the signature does not fit"));
}

#[test]
fn the_revision_that_is_signed_is_the_one_that_is_written() {
    let mut data = secret();
    data.insert("revision".into(), b"5".to_vec());
    assert!(obey(&data).unwrap_err().contains("the signature does not fit"));
    for odd in ["04", "+4", "4 ", "", "0", "-1", "99999999999999999999"] {
        data.insert("revision".into(), odd.into());
        assert!(obey(&data).unwrap_err().starts_with("data.revision"), "{odd:?}");
    }
}

#[test]
fn plans_of_other_machines_and_other_lives_are_refused_by_name() {
    let signed = plan().seal().unwrap().sign(&key());
    let neighbour = MachineIdentity { name: "web-1".parse().unwrap(), ..machine() };
    let next_life = MachineIdentity { machine_id: "another".parse().unwrap(), ..machine() };
    for ours in [neighbour, next_life] {
        let error = signed.verify(&trusted(), &ours).unwrap_err();
        assert!(matches!(&error, VerifyError::Machine { theirs, .. } if *theirs == machine()), "{error}");
    }
}

#[test]
fn strangers_are_not_obeyed() {
    let stranger = SigningKey::generate().unwrap();
    let signed = plan().seal().unwrap().sign(&stranger);
    let error = signed.verify(&trusted(), &machine()).unwrap_err();
    assert!(matches!(error, VerifyError::UnknownKey(id) if id == stranger.public().id()));
    assert!(signed.verify(&TrustedKeys::default(), &machine()).is_err());
    // While a key is being replaced, both are trusted.
    let both: TrustedKeys = [key().public(), stranger.public()].into_iter().collect();
    assert!(signed.verify(&both, &machine()).is_ok());
}

#[test]
fn what_is_signed_and_no_plan_is_refused() {
    let mut data = secret();
    data.insert("extra".into(), vec![]);
    assert_eq!(SignedPlan::from_secret_data(&data), Err(SecretError::Unknown("extra".into())));
    data.remove("extra");
    data.insert("plan".into(), vec![]);
    assert!(obey(&data).unwrap_err().starts_with("data.plan"));
}

#[test]
fn keys_are_kept_and_read_again() {
    let made = SigningKey::generate().unwrap();
    let read = SigningKey::from_pkcs8(&made.to_pkcs8().unwrap()).unwrap();
    assert_eq!(read.public(), made.public());
    assert_eq!(PublicKey::from_bytes(made.public().as_bytes()), Ok(made.public()));
    assert!(PublicKey::from_bytes(&[0; 31]).is_err());
    assert!(SigningKey::from_pkcs8(b"no key").is_err());
    assert_eq!(SigningKey::from_seed(&[1; 32]).public(), SigningKey::from_seed(&[1; 32]).public());
}

#[test]
fn nothing_secret_is_printed_for_debugging() {
    let sealed = plan().seal().unwrap();
    let signed = sealed.sign(&key());
    let verified = signed.verify(&trusted(), &machine()).unwrap();
    let printed = format!("{:?} {signed:?} {verified:?} {:?}", sealed.plan(), key());
    for secret in ["hunter2", "hunter3", "K10-token", "SzEwLXRva2Vu"] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
}
