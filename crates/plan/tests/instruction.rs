//! Instructions to machines that dial out: their serialized form, and that each is executed at most once and in order.

#![cfg(test)]

mod common;

use capstan_api::infrastructure::{HostInstruction, HostInstructionAnswer, HostRegistrationSpec};
use capstan_plan::SigningKey;
use capstan_plan::instruction::{
    Instruction, InstructionAnswer, InstructionJournal, InstructionOutcome, InstructionStep, RegisteredHost,
    next_number, next_step,
};
use common::key;
use proptest::prelude::*;
use serde_json::json;

fn host() -> RegisteredHost {
    RegisteredHost { registration: "host-1".to_owned(), public_key: "AAAA".to_owned() }
}

fn signed(number: u64) -> Instruction {
    Instruction::sign(number, b"sealed".to_vec(), &host(), &key())
}

fn executed(number: u64) -> InstructionAnswer {
    let outcome = InstructionOutcome::Executed;
    InstructionAnswer { number, outcome, message: None, sealed: Some(b"output".to_vec().into()) }
}

fn journal(begun: u64, answer: Option<InstructionAnswer>) -> InstructionJournal {
    InstructionJournal { begun, answer }
}

/// The next step after this instruction, with this answer in the registration.
fn step(
    instruction: &Instruction,
    journal: &InstructionJournal,
    answered: Option<&InstructionAnswer>,
) -> InstructionStep {
    next_step(Some(instruction), journal, answered, &host(), &key().public())
}

#[test]
fn the_next_step_follows_from_journal_and_registration() {
    let nothing = next_step(None, &journal(3, None), None, &host(), &key().public());
    assert_eq!(nothing, InstructionStep::Rest);
    let answer = InstructionStep::Answer;
    for (case, instruction, journal, answered, expected) in [
        ("the first one", signed(1), journal(0, None), None, InstructionStep::Execute),
        (
            "a later one",
            signed(9),
            journal(4, Some(executed(4))),
            Some(executed(4)),
            InstructionStep::Execute,
        ),
        ("the answer was not sent", signed(4), journal(4, Some(executed(4))), None, answer(executed(4))),
        ("it was sent", signed(4), journal(4, Some(executed(4))), Some(executed(4)), InstructionStep::Rest),
        ("it was cut short", signed(4), journal(4, None), None, answer(InstructionAnswer::interrupted(4))),
        (
            "that was said",
            signed(4),
            journal(4, None),
            Some(InstructionAnswer::interrupted(4)),
            InstructionStep::Rest,
        ),
        (
            "the journal was lost after the answer",
            signed(4),
            journal(0, None),
            Some(executed(4)),
            InstructionStep::Rest,
        ),
        (
            "the disk is that of a time before the answer",
            signed(4),
            journal(3, Some(executed(3))),
            Some(executed(5)),
            InstructionStep::Rest,
        ),
    ] {
        assert_eq!(step(&instruction, &journal, answered.as_ref()), expected, "{case}");
    }
}

#[test]
fn what_is_not_signed_for_this_machine_or_is_replayed_is_refused_once() {
    let other = RegisteredHost { registration: "host-2".to_owned(), ..host() };
    let other_key = RegisteredHost { public_key: "BBBB".to_owned(), ..host() };
    let stranger = SigningKey::from_seed(&[8; 32]);
    let sealed = || b"sealed".to_vec();
    for (case, instruction, says) in [
        ("another key", Instruction::sign(5, sealed(), &host(), &stranger), "not signed"),
        ("another machine", Instruction::sign(5, sealed(), &other, &key()), "not signed"),
        ("another key of the machine", Instruction::sign(5, sealed(), &other_key, &key()), "not signed"),
        ("another number", Instruction { number: 6, ..signed(5) }, "not signed"),
        ("other content", Instruction { sealed: b"Sealed".to_vec().into(), ..signed(5) }, "not signed"),
        ("no signature", Instruction { signature: Vec::new().into(), ..signed(5) }, "not signed"),
        ("too large", Instruction::sign(5, vec![0; 700_001], &host(), &key()), "not signed"),
        ("an earlier one", signed(3), "replayed"),
    ] {
        let journal = journal(4, Some(executed(4)));
        let InstructionStep::Answer(answer) = step(&instruction, &journal, Some(&executed(4))) else {
            panic!("{case}")
        };
        assert_eq!(
            (answer.number, answer.outcome),
            (instruction.number, InstructionOutcome::Refused),
            "{case}"
        );
        assert!(answer.message.as_ref().is_some_and(|why| why.contains(says)), "{case}: {answer:?}");
        assert_eq!(step(&instruction, &journal, Some(&answer)), InstructionStep::Rest, "{case}");
    }
}

#[test]
fn numbers_increase_whatever_the_clock_says() {
    assert_eq!(next_number(0, 1_000), Some(1_000));
    assert_eq!(next_number(1_000, 1_000), Some(1_001));
    assert_eq!(next_number(5_000, 1_000), Some(5_001));
    assert_eq!(next_number(0, -1), Some(1));
    assert_eq!(next_number((1 << 53) - 1, 0), None);
    assert_eq!(next_number(u64::MAX, 0), None);
}

#[test]
fn instruction_and_answer_are_those_of_the_object() {
    let instruction = json!(signed(1_700_000_000_000));
    let read: HostInstruction = serde_json::from_value(instruction.clone()).unwrap();
    assert_eq!(json!(read), instruction);
    for answer in [executed(7), InstructionAnswer::interrupted(7)] {
        let written = json!(answer);
        let read: HostInstructionAnswer = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(json!(read), written);
    }
    let spec = json!({"publicKey": "AAAA", "nonce": "n", "token": "edge", "proof": "0".repeat(64)});
    let read: HostRegistrationSpec = serde_json::from_value(spec).unwrap();
    let of_object = RegisteredHost { registration: "host-1".to_owned(), public_key: read.public_key };
    assert!(signed(1).is_signed(&of_object, &key().public()));
}

/// What happens to a machine.
#[derive(Clone, Debug)]
enum Event {
    /// The instruction with this number is in the registration.
    Instruct(u64),
    /// The agent takes a step, which is cut short after this many writes.
    Step(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![(1_u64..8).prop_map(Event::Instruct), (0_usize..4).prop_map(Event::Step)];
    prop::collection::vec(one, 1..60)
}

proptest! {
    #[test]
    fn each_instruction_is_executed_at_most_once_and_in_order(events in events()) {
        let (mut current, mut journal, mut answered) = (None, InstructionJournal::default(), None);
        let mut ran: Vec<u64> = Vec::new();
        for event in events {
            let writes = match event {
                Event::Instruct(number) => {
                    current = Some(signed(number));
                    continue;
                }
                Event::Step(writes) => writes,
            };
            match next_step(current.as_ref(), &journal, answered.as_ref(), &host(), &key().public()) {
                InstructionStep::Rest => {}
                InstructionStep::Answer(answer) => answered = (writes > 0).then_some(answer).or(answered),
                InstructionStep::Execute => {
                    let number = current.as_ref().map_or(0, |instruction| instruction.number);
                    if writes > 0 {
                        journal = InstructionJournal { begun: number, answer: None };
                        ran.push(number);
                    }
                    if writes > 1 {
                        journal.answer = Some(executed(number));
                    }
                    if writes > 2 {
                        answered.clone_from(&journal.answer);
                    }
                }
            }
        }
        prop_assert!(ran.windows(2).all(|pair| pair[0] < pair[1]), "{ran:?}");
    }
}
