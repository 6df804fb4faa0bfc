//! What machines that dial out read, and what they write.

use capstan_plan::SigningKey;
use capstan_plan::host_join::JoinToken;
use capstan_plan::instruction::{
    Instruction, InstructionAnswer, InstructionJournal, InstructionStep, RegisteredHost, next_step,
};
use serde_json::Value;

/// A join token, or the document in one: it is read as it was written.
pub(crate) fn join_token(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        _ = JoinToken::parse(text);
    }
    let Ok(token) = serde_json::from_slice::<JoinToken>(input) else { return };
    // A token that is too long is refused.
    if let Ok(again) = JoinToken::parse(token.encode().expose()) {
        assert_eq!(again, token);
    }
}

/// An object with an instruction, an answer and a journal: only what is signed, new and not answered yet is executed.
pub(crate) fn instruction(input: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(input) else { return };
    let (key, host) = (
        SigningKey::from_seed(&[7; 32]),
        RegisteredHost { registration: "host-1".to_owned(), public_key: "AAAA".to_owned() },
    );
    let journal: InstructionJournal = serde_json::from_value(document["journal"].clone()).unwrap_or_default();
    let answered: Option<InstructionAnswer> = serde_json::from_value(document["answer"].clone()).ok();
    let Ok(found) = serde_json::from_value::<Instruction>(document["instruction"].clone()) else { return };
    let step = |instruction: &Instruction| {
        next_step(Some(instruction), &journal, answered.as_ref(), &host, &key.public())
    };
    assert!(step(&found) != InstructionStep::Execute, "it is not signed");
    let sealed = found.sealed.as_bytes().to_vec();
    let signed = Instruction::sign(found.number, sealed, &host, &key);
    let is_answered = answered.as_ref().is_some_and(|answered| answered.number >= found.number);
    assert_eq!(step(&signed) == InstructionStep::Execute, found.number > journal.begun && !is_answered);
}
