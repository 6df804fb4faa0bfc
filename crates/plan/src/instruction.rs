//! Instructions to a machine that dials out, and its answers.
//!
//! The manager writes one instruction at a time into the registration of the machine. The content is sealed to the machine, because
//! it may contain bootstrap data, and the sealed bytes are signed with a key that the machine knows since it registered.
//! Numbers increase, so an earlier instruction cannot be repeated. The machine writes the number into its journal before it
//! executes the instruction, so that it executes each one at most once, also if it loses power. It does not execute what the
//! registration has an answer to either, so that a machine that was restored from a snapshot does not repeat a reset.

use serde::{Deserialize, Serialize};

use crate::{Content, Digest, PublicKey, SigningKey};

const DOMAIN: &[u8] = b"capstan.dev/host-instruction/v1\0";

/// Bytes of a sealed instruction. In base64, it must fit into an object with everything else.
pub const INSTRUCTION_BYTES: usize = 700_000;
/// Bytes that an answer keeps of the standard output of a script.
pub const STDOUT_BYTES: usize = 256 * 1024;
/// Bytes that an answer keeps of the standard error of a script.
pub const STDERR_BYTES: usize = 16 * 1024;
/// Longest time for one instruction, in seconds.
pub const LONGEST_SECONDS: u32 = 120;

/// The registration that instructions belong to: its name, and the public key of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredHost {
    /// Name of the HostRegistration.
    pub registration: String,
    /// Public key of the machine: SubjectPublicKeyInfo of a P-256 key, in base64.
    pub public_key: String,
}

impl RegisteredHost {
    /// The context in which the content of an instruction is sealed to the machine.
    pub fn instruction_context(&self, number: u64) -> Vec<u8> {
        format!("capstan host instruction v1\n{}\n{number}", self.registration).into_bytes()
    }

    /// The context in which the answer to an instruction is sealed to the manager.
    pub fn answer_context(&self, number: u64) -> Vec<u8> {
        format!("capstan host answer v1\n{}\n{number}", self.registration).into_bytes()
    }

    /// What is signed. Every part has a fixed length or its length before it.
    fn sentence(&self, number: u64, sealed: &[u8]) -> Vec<u8> {
        let mut sentence = DOMAIN.to_vec();
        sentence.extend(number.to_be_bytes());
        sentence.extend(Digest::of(sealed).as_bytes());
        for text in [&self.registration, &self.public_key] {
            sentence.extend((text.len() as u64).to_be_bytes());
            sentence.extend(text.as_bytes());
        }
        sentence
    }
}

/// What a machine is to do: the sealed part of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostScript {
    /// Script for the standard input of `sh`.
    pub script: Content,
    /// The script is killed after this time.
    pub timeout_seconds: u32,
    /// Public key to which the answer is sealed: SubjectPublicKeyInfo of a P-256 key.
    pub answer_key: Content,
}

/// What a script has printed: the sealed part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScriptOutput {
    /// Exit code; none if a signal ended the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The first bytes of standard output.
    pub stdout: Content,
    /// The last bytes of standard error.
    pub stderr: Content,
}

/// An instruction as in `spec.instruction` of a HostRegistration, not verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instruction {
    /// Larger than that of every earlier instruction.
    pub number: u64,
    /// The sealed [`HostScript`].
    pub sealed: Content,
    /// The 64 bytes of the signature.
    pub signature: Content,
}

impl Instruction {
    /// Signs sealed content.
    pub fn sign(number: u64, sealed: Vec<u8>, host: &RegisteredHost, key: &SigningKey) -> Self {
        let signature = key.sign(&host.sentence(number, &sealed));
        Self { number, sealed: sealed.into(), signature: signature.into() }
    }

    /// Whether this key has signed it for this machine.
    pub fn is_signed(&self, host: &RegisteredHost, key: &PublicKey) -> bool {
        let sealed = self.sealed.as_bytes();
        sealed.len() <= INSTRUCTION_BYTES
            && key.has_signed(&host.sentence(self.number, sealed), self.signature.as_bytes())
    }
}

/// What became of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstructionOutcome {
    /// The script has run to its end, or to its timeout.
    Executed,
    /// The agent stopped while the script ran. It does not run again.
    Interrupted,
    /// The agent has not executed it.
    Refused,
}

/// The answer as in `status.answer` of a HostRegistration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionAnswer {
    /// Number of the instruction.
    pub number: u64,
    /// What became of it.
    pub outcome: InstructionOutcome,
    /// Why it was refused, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The sealed [`ScriptOutput`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Content>,
}

impl InstructionAnswer {
    /// The answer of an agent that was stopped in the middle.
    pub const fn interrupted(number: u64) -> Self {
        Self { number, outcome: InstructionOutcome::Interrupted, message: None, sealed: None }
    }

    /// The answer of an agent that has not executed the instruction.
    pub const fn refused(number: u64, why: String) -> Self {
        Self { number, outcome: InstructionOutcome::Refused, message: Some(why), sealed: None }
    }
}

/// What the agent has on disk about instructions: the last one that it has begun, and the answer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstructionJournal {
    /// Number of the last instruction that was begun; 0 before the first one.
    pub begun: u64,
    /// The answer to it, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<InstructionAnswer>,
}

/// The next step of an agent that has read its registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstructionStep {
    /// There is nothing to do.
    Rest,
    /// Write the number into the journal, then execute the instruction.
    Execute,
    /// Write this answer.
    Answer(InstructionAnswer),
}

/// The next step. `answered`: the answer in the status of the registration.
pub fn next_step(
    instruction: Option<&Instruction>,
    journal: &InstructionJournal,
    answered: Option<&InstructionAnswer>,
    host: &RegisteredHost,
    key: &PublicKey,
) -> InstructionStep {
    let Some(instruction) = instruction else { return InstructionStep::Rest };
    let number = instruction.number;
    let answer = if !instruction.is_signed(host, key) {
        InstructionAnswer::refused(
            number,
            format!(
                "it is not signed for this machine with the key {}, which it knows since it registered",
                key.id()
            ),
        )
    } else if number > journal.begun {
        // Where the disk was restored from a copy, or lost the journal, the registration still has the last answer.
        return match answered.is_some_and(|answered| answered.number >= number) {
            true => InstructionStep::Rest,
            false => InstructionStep::Execute,
        };
    } else if number == journal.begun {
        journal.answer.clone().unwrap_or_else(|| InstructionAnswer::interrupted(number))
    } else {
        InstructionAnswer::refused(
            number,
            format!("it was replayed: instruction {}, which is later, was executed already", journal.begun),
        )
    };
    match answered == Some(&answer) {
        true => InstructionStep::Rest,
        false => InstructionStep::Answer(answer),
    }
}

/// The number of the next instruction: the time in milliseconds, or one more than the last number if the clock is behind it. So a
/// management plane that was restored from a backup does not use a number again.
pub fn next_number(last: u64, now_milliseconds: i64) -> Option<u64> {
    /// The largest integer that every reader of JSON keeps.
    const LARGEST: u64 = (1 << 53) - 1;
    let next = last.checked_add(1)?.max(u64::try_from(now_milliseconds).unwrap_or(0));
    (next <= LARGEST).then_some(next)
}
