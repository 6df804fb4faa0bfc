//! The bytes of one plan, which must never change: otherwise every machine would get a plan with another digest.
//!
//! `CAPSTAN_UPDATE_GOLDEN=1 cargo test -p capstan-plan --test golden` writes them.

#![cfg(test)]

mod common;

use capstan_plan::{OpenGates, SealedPlan};
use std::path::Path;

fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("CAPSTAN_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "{}", path.display());
}

#[test]
fn bytes_digest_and_signature_stay() {
    let sealed = common::plan().seal().unwrap();
    // A line end, because files have one; the plan has none.
    golden("plan.json", &format!("{}\n", std::str::from_utf8(sealed.bytes()).unwrap()));
    let signed = sealed.sign(&common::key());
    let data = signed.to_secret_data();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = |key: &str| String::from_utf8(data[key].clone()).unwrap();
    golden(
        "secret.txt",
        &format!(
            "digest {}\nkey-id {}\nrevision {}\nsignature {}\n",
            text("digest"),
            text("key-id"),
            text("revision"),
            hex(&data["signature"]),
        ),
    );
}

#[test]
fn open_gates_stay() {
    let id = common::plan().seal().unwrap().id();
    let gates = OpenGates::new(id, [common::name("drained"), common::name("after")]);
    let data = gates.seal(&common::key()).to_secret_data();
    let hex = data["gates-signature"].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    golden("gates.txt", &format!("{}\nsignature {hex}\n", std::str::from_utf8(&data["gates"]).unwrap()));
}

#[test]
fn inputs_stay() {
    let inputs = common::plan().inputs();
    let lines: String = inputs.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect();
    golden("inputs.txt", &lines);
}

#[test]
fn a_plan_of_yesterday_is_read_today() {
    let text = include_str!("golden/plan.json");
    let sealed = SealedPlan::parse(text.trim_end().as_bytes()).unwrap();
    assert_eq!(*sealed.plan(), common::plan());
}
