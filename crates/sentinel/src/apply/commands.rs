//! Commands of instructions.

use capstan_agent::Machine;
use capstan_agent::machine::{CommandKey, Exit, Invocation, MachineError, Ran, Resumed, Surroundings};
use capstan_plan::{Argv, Digest, EnvVar, MachinePath};
use jiff::Timestamp;
use std::time::Duration;

use super::{Applier, Postponed, Registry};
use crate::output::{self, Bytes, Periodic, Periodics};
use crate::periodic;
use crate::plan::{Common, Instruction, PeriodicInstruction, Plan};
use crate::progress::Progress;
use crate::time;

/// Commands have no timeout, as upstream.
const TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Program of an instruction without a command, in its execution folder.
const PROGRAM: &str = "run.sh";

/// Bytes of output in a message.
const EXCERPT: usize = 1024;

/// What a command is started with.
struct Prepared {
    argv: Argv,
    environment: Vec<EnvVar>,
    surroundings: Surroundings,
    folder: MachinePath,
}

/// Which command it is.
struct Place<'a> {
    list: &'static str,
    plan: &'a Digest,
    number: usize,
    began: Timestamp,
    attempt: u64,
}

impl Place<'_> {
    fn key(&self) -> CommandKey {
        CommandKey::Instruction {
            plan: *self.plan,
            number: u32::try_from(self.number).unwrap_or(u32::MAX),
            periodic: self.list == PERIODIC,
            begun: self.began,
        }
    }

    fn describe(&self, common: &Common) -> String {
        let name = if common.name.is_empty() { String::new() } else { format!(" ({})", common.name) };
        format!("{}[{}]{name}", self.list, self.number)
    }
}

const ONE_TIME: &str = "instructions";
const PERIODIC: &str = "periodicInstructions";

/// Why a command has no result.
pub(super) enum Failed {
    /// A value of the plan, or the program, cannot be used.
    Plan(String),
    /// The machine cannot for now.
    Machine(MachineError),
}

impl<M: Machine, R: Registry> Applier<M, R> {
    /// Runs a one-time instruction, or takes the result of its command if an earlier process has started it. The inner
    /// error is that of the instruction.
    pub(super) async fn instruction(
        &self,
        progress: &mut Progress,
        instruction: &Instruction,
    ) -> Result<Result<(), String>, Postponed> {
        let common = &instruction.common;
        let place = Place {
            list: ONE_TIME,
            plan: &progress.identity.checksum,
            number: progress.done,
            began: progress.began,
            attempt: progress.attempt,
        };
        let what = place.describe(common);
        let surroundings = Surroundings { is_merged: true, output: Some(output::END), folder: None };
        let ran = match self.command(common, &place, surroundings).await {
            Ok(ran) => ran,
            Err(Failed::Machine(error)) => return Err(error.into()),
            Err(Failed::Plan(reason)) => return Ok(Err(format!("{what}: {reason}"))),
        };
        let printed = output::text(&ran.stdout);
        let excerpt = String::from_utf8_lossy(&printed[printed.len().saturating_sub(EXCERPT)..]).into_owned();
        if instruction.save_output && !common.name.is_empty() {
            progress.saved.insert(common.name.clone(), Bytes(printed));
        }
        Ok(match ran.exit {
            Exit::Code(0) => Ok(()),
            exit => Err(format!("{what}: {}\n{excerpt}", ending(exit))),
        })
    }

    /// Runs the periodic instructions that are due; all of them after the plan was applied. One that fails does not keep
    /// the others from running. Returns when the next one is due.
    pub async fn periodics(
        &self,
        plan: &Plan,
        checksum: &Digest,
        before: &Periodics,
        is_applied_now: bool,
        now: Timestamp,
    ) -> (Periodics, Option<Timestamp>) {
        let mut results = Periodics::new();
        let mut next: Option<Timestamp> = None;
        for (number, instruction) in plan.periodic_instructions.iter().enumerate() {
            let name = &instruction.common.name;
            if name.is_empty() {
                continue;
            }
            let previous = before.get(name);
            let waits = periodic::next(instruction, previous, now).filter(|_| !is_applied_now);
            let result = match (waits, previous) {
                (Some(_), Some(previous)) => previous.clone(),
                _ => self.periodic(instruction, number, checksum, previous, now).await,
            };
            let due = periodic::next(instruction, Some(&result), now);
            next = [next, due].into_iter().flatten().min();
            results.insert(name.clone(), result);
        }
        (results, next)
    }

    async fn periodic(
        &self,
        instruction: &PeriodicInstruction,
        number: usize,
        checksum: &Digest,
        previous: Option<&Periodic>,
        now: Timestamp,
    ) -> Periodic {
        let attempt = u64::from(previous.map_or(0, |previous| previous.failures)).saturating_add(1);
        let place = Place { list: PERIODIC, plan: checksum, number, began: now, attempt };
        let surroundings = Surroundings { is_merged: false, output: Some(output::END), folder: None };
        let run = match self.command(&instruction.common, &place, surroundings).await {
            Ok(ran) => periodic::Run {
                exit_code: match ran.exit {
                    Exit::Code(code) => code,
                    Exit::Signal(_) | Exit::TimedOut => -1,
                },
                stdout: output::text(&ran.stdout),
                stderr: output::text(&ran.stderr),
            },
            Err(failed) => {
                let reason = match failed {
                    Failed::Plan(reason) => reason,
                    Failed::Machine(error) => error.to_string(),
                };
                let stderr = format!("{}: {reason}\n", place.describe(&instruction.common)).into_bytes();
                periodic::Run { exit_code: -1, stdout: Vec::new(), stderr }
            }
        };
        if !self.settings.preserves
            && let Ok(folder) = self.folder(&place)
        {
            // They would pile up. What cannot be removed now goes with the next plan.
            let _ = self.machine.remove_tree(&folder).await;
            if let Some(above) = folder.parent() {
                let _ = self.machine.remove_directory(&above).await;
            }
        }
        periodic::result(instruction, previous, run, now)
    }

    /// Runs a command, or takes the result of the one that an earlier process has started.
    async fn command(
        &self,
        common: &Common,
        place: &Place<'_>,
        surroundings: Surroundings,
    ) -> Result<Ran, Failed> {
        let key = place.key();
        for known in self.machine.commands().await.map_err(Failed::Machine)? {
            if !is_same(&known, &key) {
                continue;
            }
            match self.machine.resume(&known).await.map_err(Failed::Machine)? {
                Resumed::Ended(ran) => {
                    self.take_once(&known).await?;
                    return Ok(ran);
                }
                // It may be possible now. Before another one is started, this one is dismissed.
                Resumed::NotStarted(_) | Resumed::Nothing => {}
            }
        }
        let prepared = self.prepare(common, place, surroundings)?;
        self.make_folders(&prepared.folder, 0o755).await.map_err(Failed::Machine)?;
        if !common.image.is_empty()
            && let Err(failed) = self.unpack_image(&common.image, &prepared.folder).await
        {
            // It may be what has filled the disk, which others need.
            let _ = self.machine.remove_tree(&prepared.folder).await;
            return Err(failed);
        }
        let Prepared { argv, environment, surroundings, .. } = &prepared;
        let invocation = Invocation { argv, env: environment, timeout: TIMEOUT, key: Some(&key) };
        match self.machine.run_in(invocation, surroundings).await {
            Err(error) if error.is_full() => Err(Failed::Machine(error)),
            Err(error) => Err(Failed::Plan(error.to_string())),
            Ok(ran) => {
                self.take_once(&key).await?;
                Ok(ran)
            }
        }
    }

    /// The result of a periodic instruction is that of one run. That of a one-time instruction is kept until its run is
    /// reported.
    async fn take_once(&self, key: &CommandKey) -> Result<(), Failed> {
        match key {
            CommandKey::Instruction { periodic: true, .. } => {
                self.machine.dismiss(key).await.map_err(Failed::Machine)
            }
            _ => Ok(()),
        }
    }

    fn prepare(
        &self,
        common: &Common,
        place: &Place<'_>,
        mut surroundings: Surroundings,
    ) -> Result<Prepared, Failed> {
        let folder = self.folder(place).map_err(Failed::Machine)?;
        let below = folder.as_str().trim_start_matches('/');
        let outside = self.settings.root.join(below);
        let shown = outside.display().to_string();
        let program = match common.command.as_str() {
            "" => format!("{shown}/{PROGRAM}"),
            command => command.to_owned(),
        };
        let words = std::iter::once(program).chain(common.args.iter().cloned());
        let argv = Argv::new(words).map_err(|error| Failed::Plan(format!("command and args: {error}")))?;
        let own = |(name, value): &(String, String)| EnvVar::secret(name.clone(), value.clone());
        let mut environment: Vec<EnvVar> = self.settings.environment.iter().map(own).collect();
        let given = common.env.iter().filter_map(|variable| variable.0.split_once('='));
        environment.extend(given.map(|(name, value)| EnvVar::secret(name, value)));
        let path = self.settings.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_str()).unwrap_or_default();
        environment.extend([
            EnvVar::new("CATTLE_AGENT_EXECUTION_PWD", shown.clone()),
            EnvVar::new("CATTLE_AGENT_ATTEMPT_NUMBER", place.attempt.to_string()),
            EnvVar::new("PATH", format!("{path}:{shown}")),
        ]);
        surroundings.folder = Some(outside);
        Ok(Prepared { argv, environment, surroundings, folder })
    }

    fn folder(&self, place: &Place<'_>) -> Result<MachinePath, MachineError> {
        // Not the same for both lists: those of periodic instructions are removed sooner.
        let list = if place.list == PERIODIC { "p" } else { "" };
        let name = format!("{}/{}_{list}{}", time::folder_name(place.began), place.plan, place.number);
        self.below(&self.settings.work, &name)
    }
}

/// Whether two keys are of the same command. A periodic one may have begun at another time.
fn is_same(known: &CommandKey, wanted: &CommandKey) -> bool {
    match (known, wanted) {
        (
            CommandKey::Instruction { plan, number, periodic: true, .. },
            CommandKey::Instruction { plan: wanted, number: other, periodic: true, .. },
        ) => plan == wanted && number == other,
        _ => known == wanted,
    }
}

fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("it exited with {code}"),
        Exit::Signal(signal) => format!("it was ended by signal {signal}"),
        Exit::TimedOut => "it did not end".to_owned(),
    }
}
