//! An instruction with a script, and its answer. Pure, except for random keys.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::infrastructure::{HostInstruction, HostInstructionAnswer, HostRegistration};
use capstan_pki::seal;
use capstan_plan::instruction::{
    HostScript, INSTRUCTION_BYTES, Instruction, InstructionAnswer, InstructionOutcome, RegisteredHost,
    ScriptOutput, next_number,
};
use capstan_plan::{Content, SigningKey};
use jiff::Timestamp;
use kube::ResourceExt as _;
use rcgen::{KeyPair, PublicKeyData as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

use crate::error::SshError;
use crate::facts::plain;
use crate::transport::Output;

/// A refusal is cut here.
const LONGEST_REFUSAL: usize = 600;

/// An instruction that was written, and how to read the answer to it.
pub(super) struct Letter {
    pub(super) number: u64,
    pub(super) instruction: Instruction,
    host: RegisteredHost,
    answers: KeyPair,
}

impl Letter {
    /// Seals and signs a script for the machine of a registration.
    pub(super) fn write(
        registration: &HostRegistration,
        doing: &'static str,
        script: &str,
        limit: Duration,
        key: &SigningKey,
        now: Timestamp,
    ) -> Result<Self, SshError> {
        let failed = |why: String| SshError::Failed { doing, why };
        let host = RegisteredHost {
            registration: registration.name_any(),
            public_key: registration.spec.public_key.clone(),
        };
        let number = next_number(last_number(registration), now.as_millisecond())
            .ok_or_else(|| failed("there is no number left for another instruction".to_owned()))?;
        let answers = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        let content = HostScript {
            script: script.into(),
            timeout_seconds: u32::try_from(limit.as_secs()).unwrap_or(u32::MAX),
            answer_key: answers.subject_public_key_info().into(),
        };
        let text = serde_json::to_vec(&content).map_err(|error| failed(error.to_string()))?;
        let sealed = BASE64_STANDARD
            .decode(&host.public_key)
            .map_err(|_| seal::SealError::Key)
            .and_then(|machine| seal::seal(&machine, &host.instruction_context(number), &text));
        let sealed = sealed.map_err(|error| failed(format!("spec.publicKey: {error}")))?;
        if sealed.len() > INSTRUCTION_BYTES {
            return Err(failed(format!(
                "the script has {} bytes, and a machine that dials out takes at most {INSTRUCTION_BYTES}: make the \
                 bootstrap data smaller",
                sealed.len()
            )));
        }
        Ok(Self { number, instruction: Instruction::sign(number, sealed, &host, key), host, answers })
    }

    /// The output in an answer, or why there is none.
    pub(super) fn open(&self, answer: &InstructionAnswer, doing: &'static str) -> Result<Output, SshError> {
        let failed = |why: String| SshError::Failed { doing, why };
        match answer.outcome {
            InstructionOutcome::Interrupted => {
                Err(SshError::Lost { address: self.host.registration.clone(), doing })
            }
            InstructionOutcome::Refused => {
                let why = plain(answer.message.as_deref().unwrap_or_default(), LONGEST_REFUSAL);
                Err(failed(format!("the agent refuses the instruction: {why}")))
            }
            InstructionOutcome::Executed => {
                let sealed = answer.sealed.as_ref().map(Content::as_bytes).unwrap_or_default();
                let context = self.host.answer_context(self.number);
                let opened = seal::open(&self.answers.serialize_der(), &context, sealed).ok();
                let output: Option<ScriptOutput> = opened.and_then(|text| serde_json::from_slice(&text).ok());
                let output = output.ok_or_else(|| failed("the answer makes no sense".to_owned()))?;
                Ok(Output {
                    code: output.code,
                    stdout: output.stdout.as_bytes().to_vec(),
                    stderr: output.stderr.as_bytes().to_vec(),
                })
            }
        }
    }
}

/// The answer of the machine, if it can be understood.
pub(super) fn answer(registration: &HostRegistration) -> Option<InstructionAnswer> {
    let answer: &HostInstructionAnswer = registration.status.as_ref()?.answer.as_ref()?;
    convert(answer)
}

/// Whether another process waits for the answer to an instruction, which was written less than this time ago.
pub(super) fn is_busy(registration: &HostRegistration, limit: Duration, now: Timestamp) -> bool {
    let Some(HostInstruction { number, .. }) = registration.spec.instruction else { return false };
    let answered = answer(registration).is_some_and(|answer| i64::try_from(answer.number) == Ok(number));
    let age = now.as_millisecond().saturating_sub(number);
    !answered && (0..i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)).contains(&age)
}

/// Whether the registration has the instruction with this number, and no answer to it.
pub(super) fn is_open(registration: &HostRegistration, number: u64) -> bool {
    let instruction = registration.spec.instruction.as_ref();
    let is_current = instruction.is_some_and(|current| u64::try_from(current.number) == Ok(number));
    is_current && answer(registration).is_none_or(|answer| answer.number != number)
}

/// The largest number that is known to be used.
fn last_number(registration: &HostRegistration) -> u64 {
    let instructed = registration.spec.instruction.as_ref().map(|instruction| instruction.number);
    // A machine that claims a large number is out of numbers itself, and no other machine is.
    let answered = registration.status.as_ref().and_then(|status| status.answer.as_ref());
    let largest = instructed.into_iter().chain(answered.map(|answer| answer.number)).max();
    largest.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// The same document as another type.
fn convert<T: DeserializeOwned>(document: &impl Serialize) -> Option<T> {
    serde_json::from_value(serde_json::to_value(document).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn registration(machine: &KeyPair, instruction: &Value, answer: &Value) -> HostRegistration {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostRegistration",
            "metadata": {"name": "host-1"},
            "spec": {"publicKey": BASE64_STANDARD.encode(machine.subject_public_key_info()), "nonce": "n",
                "token": "edge", "proof": "0".repeat(64), "instruction": instruction},
            "status": {"answer": answer},
        }))
        .expect("a HostRegistration")
    }

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).expect("a time")
    }

    fn write(registration: &HostRegistration, script: &str, now: i64) -> Result<Letter, SshError> {
        let key = SigningKey::from_seed(&[7; 32]);
        Letter::write(registration, "looking", script, Duration::from_secs(60), &key, at(now))
    }

    #[test]
    fn the_machine_reads_the_script_and_its_author_the_output() {
        let machine = KeyPair::generate().expect("a key");
        let registration = registration(&machine, &json!(null), &json!(null));
        let letter = write(&registration, "echo", 5).expect("a letter");
        let sealed = letter.instruction.sealed.as_bytes();
        let context = letter.host.instruction_context(letter.number);
        let text = seal::open(&machine.serialize_der(), &context, sealed).expect("opened");
        let script: HostScript = serde_json::from_slice(&text).expect("a script");
        assert_eq!((script.script.as_bytes(), script.timeout_seconds), (&b"echo"[..], 60));

        let output = ScriptOutput { code: Some(0), stdout: "out".into(), stderr: "err".into() };
        let seal_in = |context: &[u8]| {
            let text = serde_json::to_vec(&output).expect("JSON");
            let sealed = seal::seal(script.answer_key.as_bytes(), context, &text).expect("sealed");
            InstructionAnswer {
                number: letter.number,
                outcome: InstructionOutcome::Executed,
                message: None,
                sealed: Some(sealed.into()),
            }
        };
        let read = letter.open(&seal_in(&letter.host.answer_context(letter.number)), "looking");
        let read = read.expect("an output");
        assert_eq!(
            (read.code, read.stdout.as_slice(), read.stderr.as_slice()),
            (Some(0), &b"out"[..], &b"err"[..])
        );
        let other = letter.open(&seal_in(&letter.host.answer_context(letter.number + 1)), "looking");
        assert!(other.expect_err("of another instruction").to_string().contains("makes no sense"));
        let empty = InstructionAnswer { sealed: None, ..seal_in(b"") };
        assert!(letter.open(&empty, "looking").is_err());
    }

    #[test]
    fn a_refusal_is_told_without_control_characters() {
        let machine = KeyPair::generate().expect("a key");
        let letter = write(&registration(&machine, &json!(null), &json!(null)), "echo", 5).expect("a letter");
        let refused = InstructionAnswer::refused(letter.number, "no\u{1b}[2J way".to_owned());
        let error = letter.open(&refused, "looking").expect_err("refused").to_string();
        assert!(error.contains("refuses the instruction") && !error.contains('\u{1b}'), "{error}");
        let interrupted = letter.open(&InstructionAnswer::interrupted(letter.number), "looking");
        assert!(matches!(interrupted, Err(SshError::Lost { .. })));
    }

    #[test]
    fn numbers_follow_what_was_written_and_answered() {
        let machine = KeyPair::generate().expect("a key");
        let instruction = |number: i64| json!({"number": number, "sealed": "AA==", "signature": "AA=="});
        let answer = |number: i64| json!({"number": number, "outcome": "Interrupted"});
        for (instruction, answer, now, expected) in [
            (json!(null), json!(null), 50, Some(50)),
            (instruction(80), json!(null), 50, Some(81)),
            (instruction(10), answer(90), 50, Some(91)),
            (instruction(10), answer(i64::MAX), 50, None),
            (instruction(10), answer(-5), 50, Some(50)),
        ] {
            let registration = registration(&machine, &instruction, &answer);
            assert_eq!(write(&registration, "echo", now).ok().map(|letter| letter.number), expected);
        }
    }

    #[test]
    fn what_another_process_waits_for_is_not_overwritten() {
        let machine = KeyPair::generate().expect("a key");
        let instruction = json!({"number": 100_000, "sealed": "AA==", "signature": "AA=="});
        let answer = |number: i64| json!({"number": number, "outcome": "Interrupted"});
        for (case, instruction, answer, now, expected) in [
            ("nothing", json!(null), json!(null), 100_500, false),
            ("it waits", instruction.clone(), json!(null), 100_500, true),
            ("it waits, after an earlier answer", instruction.clone(), answer(99_000), 100_500, true),
            ("answered", instruction.clone(), answer(100_000), 100_500, false),
            ("given up", instruction.clone(), json!(null), 160_000, false),
            ("from the future", instruction.clone(), json!(null), 50_000, false),
        ] {
            let registration = registration(&machine, &instruction, &answer);
            assert_eq!(is_busy(&registration, Duration::from_secs(60), at(now)), expected, "{case}");
        }
    }

    #[test]
    fn only_an_instruction_of_our_own_without_an_answer_is_open() {
        let machine = KeyPair::generate().expect("a key");
        let instruction = json!({"number": 7, "sealed": "AA==", "signature": "AA=="});
        let answer = |number: i64| json!({"number": number, "outcome": "Interrupted"});
        for (case, instruction, answer, number, expected) in [
            ("ours", instruction.clone(), json!(null), 7, true),
            ("an earlier one was answered", instruction.clone(), answer(6), 7, true),
            ("it was answered", instruction.clone(), answer(7), 7, false),
            ("that of another process", instruction.clone(), json!(null), 6, false),
            ("we have sent none", instruction, json!(null), 0, false),
            ("there is none", json!(null), json!(null), 0, false),
        ] {
            assert_eq!(is_open(&registration(&machine, &instruction, &answer), number), expected, "{case}");
        }
    }

    #[test]
    fn what_cannot_be_sealed_or_is_too_large_is_not_sent() {
        let machine = KeyPair::generate().expect("a key");
        let registration = registration(&machine, &json!(null), &json!(null));
        let large = write(&registration, &"x".repeat(INSTRUCTION_BYTES), 5).err().expect("too large");
        assert!(large.to_string().contains("make the bootstrap data smaller"), "{large}");
        let mut stranger = registration;
        stranger.spec.public_key = "AAAA".to_owned();
        let error = write(&stranger, "echo", 5).err().expect("no key").to_string();
        assert!(error.contains("spec.publicKey"), "{error}");
    }
}
