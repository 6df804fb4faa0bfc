//! Plans, what is beside them in their Secrets, and reports about them.

use aws_lc_rs::signature::Ed25519KeyPair;
use capstan_plan::{
    Digest, MachinePlan, OpenGates, PlanId, PublicKey, Report, SealedPlan, SecretData, SignedGates,
    SignedPlan, SigningKey, Successions, TrustedKeys, keys,
};
use std::collections::BTreeMap;

const SEED: [u8; 32] = [7; 32];

fn key() -> SigningKey {
    SigningKey::from_seed(&SEED)
}

fn trusted() -> TrustedKeys {
    [key().public()].into_iter().collect()
}

/// A plan has one encoding, and comes through a Secret unchanged.
pub(crate) fn plan(input: &[u8]) {
    if let Ok(sealed) = SealedPlan::parse(input) {
        assert_eq!(sealed.bytes(), input);
    }
    let Ok(plan) = serde_json::from_slice::<MachinePlan>(input) else { return };
    let Ok(sealed) = plan.seal() else { return };
    let again = SealedPlan::parse(sealed.bytes()).expect("a plan that was sealed can be parsed");
    assert_eq!(again, sealed);
    let signed = SignedPlan::from_secret_data(&sealed.sign(&key()).to_secret_data());
    let verified =
        signed.expect("a signed plan comes through a Secret").verify(&trusted(), &sealed.plan().machine);
    let verified = verified.expect("a plan that was signed for a machine is accepted by it");
    assert_eq!((verified.plan(), verified.id()), (sealed.plan(), sealed.id()));
    for step in &sealed.plan().steps {
        _ = verified.inputs(step);
    }
    let names = sealed.plan().steps.iter().map(|step| step.name.clone());
    gates(&OpenGates::new(sealed.id(), names).seal(&key()), sealed.id(), true);
}

/// The data of a plan Secret as a JSON object, each character of its values one byte; or the open gates, with a signature.
pub(crate) fn secret(input: &[u8]) {
    let id = SealedPlan::parse(PLAN.as_bytes()).expect("a plan").id();
    let sentence = [&b"capstan.dev/open-gates/v1\0"[..], &Digest::of(input).as_bytes()[..]].concat();
    let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).expect("any 32 bytes are a seed");
    let signed: SecretData = [
        (keys::GATES.to_owned(), input.to_vec()),
        (keys::GATES_SIGNATURE.to_owned(), pair.sign(&sentence).as_ref().to_vec()),
    ]
    .into();
    read_gates(&signed, id);
    successions(input);
    let Ok(texts) = serde_json::from_slice::<BTreeMap<String, String>>(input) else { return };
    // Other characters are cut to a byte: any byte is as good as another.
    let bytes = |text: &String| text.chars().map(|letter| u32::from(letter).to_le_bytes()[0]).collect();
    let data: SecretData = texts.iter().map(|(key, text)| (key.clone(), bytes(text))).collect();
    if let Ok(plan) = SignedPlan::from_secret_data(&data) {
        let again = SignedPlan::from_secret_data(&plan.to_secret_data());
        assert_eq!(again.expect("a plan that was read from a Secret can be read again"), plan);
        if let Ok(sealed) = SealedPlan::parse(plan.bytes()) {
            _ = plan.verify(&trusted(), &sealed.plan().machine);
        }
    }
    read_gates(&data, id);
    if let Some(bytes) = data.get(keys::SUCCESSIONS) {
        successions(bytes);
    }
}

/// A plan with one step.
const PLAN: &str = r#"{"apiVersion":"agent.capstan.dev/v1alpha1","kind":"MachinePlan","machine":{"name":"web-0","machineID":"m"},"revision":1,"epoch":1,"expires":"2026-11-16T12:00:00Z","steps":[{"name":"go","timeoutSeconds":60,"repeat":"untilSuccess","action":{"gate":{}}}]}"#;

fn read_gates(data: &SecretData, plan: PlanId) {
    if let Ok(Some(signed)) = SignedGates::from_secret_data(data) {
        gates(&signed, plan, false);
    }
}

fn gates(signed: &SignedGates, plan: PlanId, must_hold: bool) {
    match OpenGates::verify(signed, &trusted(), plan) {
        Ok(gates) => assert_eq!(gates.seal(&key()), *signed, "gates have one encoding"),
        Err(error) => assert!(!must_hold, "{error}"),
    }
}

/// No bytes make a machine trust another key without the signature of its own.
fn successions(bytes: &[u8]) {
    let Ok(links) = Successions::from_bytes(bytes) else { return };
    assert_eq!(links.to_bytes(), bytes);
    let trusted: PublicKey = key().public();
    let heir = links.heir(trusted);
    assert_eq!(heir, trusted, "a machine trusts a key that the fuzzer has made up");
    _ = links.before(heir).count();
}

/// A report that was read is written in a form that is read as the same.
pub(crate) fn report(input: &[u8]) {
    let Ok(report) = serde_json::from_slice::<Report>(input) else { return };
    let write = |report: &Report| serde_json::to_string(report).expect("a report can be written");
    let written = write(&report);
    let again: Report = serde_json::from_str(&written).expect("a report that was written can be read");
    assert_eq!(write(&again), written);
    if let Some(plan) = report.applied() {
        _ = report.about(plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the signature ends every attempt.
    #[test]
    fn gates_with_our_signature_are_parsed() {
        let id = SealedPlan::parse(PLAN.as_bytes()).unwrap().id();
        let sealed = OpenGates::none(id).seal(&key()).to_secret_data();
        let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).unwrap();
        let sentence =
            [&b"capstan.dev/open-gates/v1\0"[..], &Digest::of(&sealed[keys::GATES]).as_bytes()[..]].concat();
        assert_eq!(pair.sign(&sentence).as_ref(), sealed[keys::GATES_SIGNATURE]);
    }
}
