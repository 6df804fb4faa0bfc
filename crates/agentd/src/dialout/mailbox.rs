//! The instructions in the registration, one after the other: journal, execution, answer. Decisions are those of
//! [`next_step`].

use capstan_pki::seal;
use capstan_plan::PublicKey;
use capstan_plan::instruction::{
    HostScript, Instruction, InstructionAnswer, InstructionJournal, InstructionOutcome, InstructionStep,
    RegisteredHost, ScriptOutput, next_step,
};
use serde_json::Value;

use crate::Failure;

/// Who this machine is, and whose instructions it executes.
pub(super) struct Recipient {
    pub(super) host: RegisteredHost,
    /// The private key, as a PKCS #8 document.
    pub(super) private_key: Vec<u8>,
    pub(super) instruction_key: PublicKey,
}

/// What an instruction reaches: the journal, the machine, and the registration.
pub(super) trait Outside {
    fn journal(&self) -> Result<InstructionJournal, Failure>;
    /// Writes the journal. It lasts once this returns.
    fn write_journal(&mut self, journal: &InstructionJournal) -> Result<(), Failure>;
    async fn run(&mut self, script: &HostScript) -> ScriptOutput;
    async fn answer(&mut self, answer: &InstructionAnswer) -> Result<(), Failure>;
}

/// Does what the registration asks for, if anything. May be stopped anywhere and begun again.
pub(super) async fn obey(
    recipient: &Recipient,
    registration: &Value,
    outside: &mut impl Outside,
) -> Result<(), Failure> {
    let read = |value: &Value| serde_json::from_value::<Instruction>(value.clone()).ok();
    let instruction = read(&registration["spec"]["instruction"]);
    let answered: Option<InstructionAnswer> =
        serde_json::from_value(registration["status"]["answer"].clone()).ok();
    let journal = outside.journal()?;
    let Recipient { host, instruction_key, .. } = recipient;
    match next_step(instruction.as_ref(), &journal, answered.as_ref(), host, instruction_key) {
        InstructionStep::Rest => Ok(()),
        InstructionStep::Answer(answer) => outside.answer(&answer).await,
        InstructionStep::Execute => {
            let Some(instruction) = instruction else { return Ok(()) };
            let begun = instruction.number;
            // From here on it is not executed again, whatever happens.
            outside.write_journal(&InstructionJournal { begun, answer: None })?;
            let answer = execute(recipient, &instruction, outside).await;
            outside.write_journal(&InstructionJournal { begun, answer: Some(answer.clone()) })?;
            outside.answer(&answer).await
        }
    }
}

/// Opens a signed instruction, runs its script, and seals the output to its author.
async fn execute(
    recipient: &Recipient,
    instruction: &Instruction,
    outside: &mut impl Outside,
) -> InstructionAnswer {
    let number = instruction.number;
    let context = recipient.host.instruction_context(number);
    let opened = seal::open(&recipient.private_key, &context, instruction.sealed.as_bytes());
    let script: Option<HostScript> = opened.ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(script) = script else {
        return InstructionAnswer::refused(
            number,
            "it is not sealed to this machine, or not understood".to_owned(),
        );
    };
    let output = outside.run(&script).await;
    let text = serde_json::to_vec(&output).unwrap_or_default();
    match seal::seal(script.answer_key.as_bytes(), &recipient.host.answer_context(number), &text) {
        Ok(sealed) => InstructionAnswer {
            number,
            outcome: InstructionOutcome::Executed,
            message: None,
            sealed: Some(sealed.into()),
        },
        Err(_) => InstructionAnswer::refused(number, "the answer cannot be sealed to its author".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use capstan_plan::SigningKey;
    use rcgen::{KeyPair, PublicKeyData as _};
    use serde_json::json;

    /// A machine whose power fails before an operation with this number.
    #[derive(Default)]
    struct Machine {
        journal: InstructionJournal,
        ran: Vec<String>,
        answered: Option<InstructionAnswer>,
        fails_at: Option<usize>,
        operations: usize,
    }

    impl Machine {
        fn operate(&mut self) -> Result<(), Failure> {
            let fails = self.fails_at == Some(self.operations);
            self.operations += 1;
            if fails { Err(Failure::new("the power failed")) } else { Ok(()) }
        }
    }

    impl Outside for Machine {
        fn journal(&self) -> Result<InstructionJournal, Failure> {
            Ok(self.journal.clone())
        }

        fn write_journal(&mut self, journal: &InstructionJournal) -> Result<(), Failure> {
            self.operate()?;
            self.journal = journal.clone();
            Ok(())
        }

        async fn run(&mut self, script: &HostScript) -> ScriptOutput {
            self.ran.push(String::from_utf8_lossy(script.script.as_bytes()).into_owned());
            ScriptOutput { code: Some(0), stdout: "done".into(), stderr: "".into() }
        }

        async fn answer(&mut self, answer: &InstructionAnswer) -> Result<(), Failure> {
            self.operate()?;
            self.answered = Some(answer.clone());
            Ok(())
        }
    }

    struct Manager {
        key: SigningKey,
        answers: KeyPair,
        recipient: Recipient,
        of_machine: Vec<u8>,
    }

    impl Manager {
        fn new() -> Self {
            let (key, machine) = (SigningKey::from_seed(&[7; 32]), KeyPair::generate().expect("a key"));
            let of_machine = machine.subject_public_key_info();
            let host = RegisteredHost {
                registration: "host-1".to_owned(),
                public_key: BASE64_STANDARD.encode(&of_machine),
            };
            let recipient =
                Recipient { host, private_key: machine.serialize_der(), instruction_key: key.public() };
            Self { key, answers: KeyPair::generate().expect("a key"), recipient, of_machine }
        }

        fn instruct(&self, number: u64, script: &str) -> Instruction {
            let content = HostScript {
                script: script.into(),
                timeout_seconds: 60,
                answer_key: self.answers.subject_public_key_info().into(),
            };
            let text = serde_json::to_vec(&content).expect("JSON");
            let host = &self.recipient.host;
            let sealed =
                seal::seal(&self.of_machine, &host.instruction_context(number), &text).expect("sealed");
            Instruction::sign(number, sealed, host, &self.key)
        }

        fn read(&self, answer: &InstructionAnswer) -> ScriptOutput {
            let context = self.recipient.host.answer_context(answer.number);
            let sealed = answer.sealed.as_ref().expect("an output");
            let text = seal::open(&self.answers.serialize_der(), &context, sealed.as_bytes());
            serde_json::from_slice(&text.expect("opened")).expect("an output")
        }

        async fn show(&self, machine: &mut Machine, instruction: &Instruction) -> Result<(), Failure> {
            let registration =
                json!({"spec": {"instruction": instruction}, "status": {"answer": machine.answered}});
            obey(&self.recipient, &registration, machine).await
        }
    }

    #[tokio::test]
    async fn an_instruction_is_executed_once_and_its_author_reads_the_output() {
        let (manager, mut machine) = (Manager::new(), Machine::default());
        let first = manager.instruct(5, "one");
        for _ in 0..3 {
            manager.show(&mut machine, &first).await.expect("no error");
        }
        assert_eq!(machine.ran, ["one"]);
        let answer = machine.answered.clone().expect("an answer");
        assert_eq!(manager.read(&answer).stdout.as_bytes(), b"done");
        manager.show(&mut machine, &manager.instruct(6, "two")).await.expect("no error");
        manager.show(&mut machine, &first).await.expect("no error");
        assert_eq!(machine.ran, ["one", "two"], "the first one was replayed");
        let answer = machine.answered.expect("an answer");
        assert_eq!((answer.number, answer.outcome), (5, InstructionOutcome::Refused));
    }

    #[tokio::test]
    async fn a_power_failure_at_any_write_repeats_nothing() {
        // Journal, then journal with the answer, then the answer itself.
        for fails_at in 0..4 {
            let manager = Manager::new();
            let mut machine = Machine { fails_at: Some(fails_at), ..Machine::default() };
            let instruction = manager.instruct(5, "reset");
            let ended = manager.show(&mut machine, &instruction).await;
            assert_eq!(ended.is_err(), fails_at < 3, "{fails_at}");
            machine.fails_at = None;
            manager.show(&mut machine, &instruction).await.expect("no error");
            assert_eq!(machine.ran, ["reset"], "{fails_at}");
            let outcome = machine.answered.map(|answer| answer.outcome);
            let cut_short = fails_at == 1;
            let expected =
                if cut_short { InstructionOutcome::Interrupted } else { InstructionOutcome::Executed };
            assert_eq!(outcome, Some(expected), "{fails_at}");
        }
    }

    #[tokio::test]
    async fn what_is_hostile_is_not_executed() {
        let (manager, stranger) = (Manager::new(), Manager::new());
        let good = manager.instruct(5, "one");
        let forged = Instruction::sign(
            5,
            good.sealed.as_bytes().to_vec(),
            &manager.recipient.host,
            &SigningKey::from_seed(&[8; 32]),
        );
        let sealed_elsewhere = Instruction::sign(
            5,
            stranger.instruct(5, "one").sealed.as_bytes().to_vec(),
            &manager.recipient.host,
            &manager.key,
        );
        for (case, instruction, says) in [
            ("unsigned", Instruction { signature: Vec::new().into(), ..good.clone() }, "not signed"),
            ("signed with another key", forged, "not signed"),
            ("signed for another number", Instruction { number: 6, ..good.clone() }, "not signed"),
            ("of another machine", stranger.instruct(5, "one"), "not signed"),
            ("sealed to another machine", sealed_elsewhere, "not sealed"),
        ] {
            let mut machine = Machine::default();
            manager.show(&mut machine, &instruction).await.expect("no error");
            assert!(machine.ran.is_empty(), "{case}");
            let answer = machine.answered.expect("an answer");
            assert_eq!(answer.outcome, InstructionOutcome::Refused, "{case}");
            assert!(answer.message.is_some_and(|why| why.contains(says)), "{case}");
        }
        for nonsense in [json!(null), json!(7), json!({"number": -1}), json!({"number": 5, "sealed": "?"})] {
            let mut machine = Machine::default();
            let registration = json!({"spec": {"instruction": nonsense}});
            obey(&manager.recipient, &registration, &mut machine).await.expect("no error");
            assert!(machine.ran.is_empty() && machine.answered.is_none());
        }
    }
}
