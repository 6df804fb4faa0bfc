//! The loop of the agent: applies the newest plan, runs its probes, sends reports.
//!
//! Plans come in as data of their Secret, reports go out as values; this module does not transport them. Only the
//! newest of each counts, so a slow reader never has a backlog.

use capstan_plan::{
    Epoch, KeyId, MachineIdentity, OpenGates, Phase, PlanId, Progress, PublicKey, Report,
    ReportedCapabilities, ReportedProgram, SecretData, SignedGates, SignedPlan, Standing, Successions,
    TrustedKeys, VerifiedPlan,
};
use jiff::Timestamp;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::engine::{Advance, Engine, EngineError, Restart};
use crate::journal::Outcome;
use crate::machine::Machine;
use crate::periodic::{Begun, Timetable};
use crate::probes::Prober;
use crate::report;
use crate::store::Store;

/// The machine, and its management plane.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Identity of the machine.
    pub machine: MachineIdentity,
    /// Key that verifies plans, unless the journal has a later one.
    pub plan_key: PublicKey,
    /// The chain of plan keys.
    pub successions: Successions,
    /// The epoch of the last hand-over: plans of earlier epochs are rejected.
    pub epoch: Epoch,
}

/// The verified content of a plan Secret.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The plan.
    pub plan: VerifiedPlan,
    /// The open gates.
    pub gates: OpenGates,
    /// Why the open gates in the Secret are not accepted.
    pub complaint: Option<String>,
}

impl Orders {
    /// Verifies the data of a plan Secret.
    ///
    /// # Errors
    /// If the plan is rejected, with the state to report.
    pub fn read(data: &SecretData, machine: &MachineIdentity, key: PublicKey) -> Result<Self, Box<Standing>> {
        let keys: TrustedKeys = [key].into_iter().collect();
        let signed = SignedPlan::from_secret_data(data)
            .map_err(|error| Box::new(Standing::Unreadable { message: error.to_string() }))?;
        let plan = signed
            .verify(&keys, machine)
            .map_err(|error| Box::new(Standing::Plan(Progress::refused(signed.id(), error))))?;
        let gates = SignedGates::from_secret_data(data).map_err(|error| error.to_string());
        let gates = gates.and_then(|signed| match signed {
            None => Ok(OpenGates::none(plan.id())),
            Some(signed) => OpenGates::verify(&signed, &keys, plan.id()).map_err(|error| error.to_string()),
        });
        // A plan is not refused for its gates: they are closed, and it says why.
        Ok(match gates {
            Ok(gates) => Self { plan, gates, complaint: None },
            Err(complaint) => Self { gates: OpenGates::none(plan.id()), plan, complaint: Some(complaint) },
        })
    }

    fn complain(&self, mut progress: Progress) -> Progress {
        if let (Phase::Waiting, Some(complaint)) = (progress.phase, &self.complaint) {
            let waits = progress.message.unwrap_or_default();
            progress.message = Some(format!("{waits} ({complaint})"));
        }
        progress
    }
}

/// The next operation of the loop, for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A step is tried; the number is from 1.
    Trying(usize),
    /// A step has failed, and is retried at this time.
    Waiting(Timestamp),
    /// None of these.
    Done,
}

/// Why the loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// No more plans come.
    NoMorePlans,
    /// The program of the agent was replaced: the process must end, so that the new one is started.
    Replaced,
}

/// The latest data of the plan Secret; `None` before there is one.
pub type Plans = watch::Receiver<Option<SecretData>>;

/// A run of a periodic command that takes longer is reported while it runs.
const LONG_RUN: Duration = Duration::from_secs(2);

/// What the agent does again and again while a plan is in place.
#[derive(Debug, Default)]
struct Routine {
    prober: Prober,
    timetable: Timetable,
}

/// Applies the latest plan until there is a newer one, runs its probes and its periodic commands, and reports its state.
///
/// `looking` is called before and after each operation that may take long.
///
/// # Errors
/// If the journal fails. It must be opened again then.
pub async fn obey<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    identity: &Identity,
    plans: &mut Plans,
    reports: &watch::Sender<Report>,
    looking: impl Fn(&M, Moment),
) -> Result<LoopEnd, EngineError> {
    engine.follow(identity.epoch).await?;
    engine.look_at_program().await;
    engine.dismiss_periodic().await;
    let mut routine = Routine::default();
    // The plan where the machine stands; also while the management plane is away, or has another one that is refused.
    let mut accepted = recall(engine, identity).await?;
    if let Some(orders) = &accepted {
        routine.follow(engine, &orders.plan).await;
    }
    loop {
        let data = plans.borrow_and_update().clone();
        let (orders, key) = match &data {
            Some(data) => read(engine, identity, data).await?,
            None => {
                let key = follow_key(engine, identity, &SecretData::new()).await?;
                (accepted.clone().ok_or(Box::new(Standing::Idle)), key)
            }
        };
        let is_from_plane = data.is_some() && orders.is_ok();
        if is_from_plane {
            engine.confirm_program().await;
        }
        let reports = Reports::new(reports, engine, key.id());
        // The plan that names the program of the agent: one that was accepted, and that the management plane has just shown.
        let mut names_program = None;
        // Somebody else must act before this time, or there is something new to say.
        let mut overdue = Timestamp::MAX;
        let standing = match orders {
            Err(standing) => *standing,
            Ok(orders) => {
                let trust = (identity, key);
                let progress = carry_out(engine, &orders, plans, trust, &reports, &routine, &looking).await?;
                if is_current(engine, &orders.plan) {
                    accepted = Some(orders.clone());
                    names_program = is_from_plane.then(|| orders.plan.clone());
                }
                let Some(progress) = progress else { continue };
                if progress.phase == Phase::Waiting {
                    overdue = orders.plan.plan().expires;
                }
                routine.follow(engine, &orders.plan).await;
                Standing::Plan(progress)
            }
        };
        reports.publish(engine, &routine, standing.clone()).await;
        if replace_program(engine, &reports, &routine, names_program.as_ref(), &standing).await
            == Restart::Needed
        {
            return Ok(LoopEnd::Replaced);
        }
        // At rest, until there is another plan; the probes and the search for drift go on meanwhile.
        loop {
            let patrol = accepted.as_ref().map(|_| engine.next_patrol());
            let next = routine.next().into_iter().chain(patrol).min().unwrap_or(Duration::MAX);
            tokio::select! {
                changed = plans.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return Ok(LoopEnd::NoMorePlans),
                },
                () = engine.clock().sleep_until(overdue), if overdue < Timestamp::MAX => {
                    if engine.clock().now() >= overdue {
                        break;
                    }
                }
                () = engine.clock().sleep_until_elapsed(next), if next < Duration::MAX => {
                    let mut is_news = routine.prober.probe_due(engine.machine(), engine.clock()).await;
                    if let Some(orders) = &accepted
                        && engine.next_patrol() <= engine.clock().elapsed()
                    {
                        is_news |= engine.patrol(&orders.plan).await?;
                    }
                    if is_news {
                        reports.publish(engine, &routine, standing.clone()).await;
                    }
                    // A plan that has arrived waits for the run that was going on, and for no other.
                    if !plans.has_changed().unwrap_or_default()
                        && routine.run_due(engine, &reports, &standing).await
                    {
                        reports.publish(engine, &routine, standing.clone()).await;
                    }
                    let turn = replace_program(engine, &reports, &routine, names_program.as_ref(), &standing);
                    if turn.await == Restart::Needed {
                        return Ok(LoopEnd::Replaced);
                    }
                }
            }
        }
    }
}

/// Replaces the program of the agent, if the plan names another one, and reports what prevents it.
async fn replace_program<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    reports: &Reports<'_>,
    routine: &Routine,
    plan: Option<&VerifiedPlan>,
    standing: &Standing,
) -> Restart {
    let Some(plan) = plan else { return Restart::NotNeeded };
    let before = engine.agent_program();
    // Once more, if the disk was full.
    engine.confirm_program().await;
    let turn = engine.replace_program(plan).await;
    if turn == Restart::NotNeeded && engine.agent_program() != before {
        reports.publish(engine, routine, standing.clone()).await;
    }
    turn
}

fn is_current<M: Machine, S: Store, C: Clock>(engine: &Engine<M, S, C>, plan: &VerifiedPlan) -> bool {
    engine.history().current.as_ref().is_some_and(|current| current.plan == plan.id())
}

impl Routine {
    /// Runs the probes of a plan that has ended, and its periodic commands if all of its steps are done.
    async fn follow<M: Machine, S: Store, C: Clock>(
        &mut self,
        engine: &mut Engine<M, S, C>,
        plan: &VerifiedPlan,
    ) {
        let current = engine.history().current.as_ref().filter(|current| current.plan == plan.id());
        if current.is_some_and(|current| current.end.is_some()) {
            self.prober.watch(plan, engine.clock().elapsed());
        }
        if engine.has_applied(plan) {
            let kept = engine.recall_runs().await;
            self.timetable.follow(plan, kept.as_deref(), engine.clock());
        } else if current.is_some() {
            self.timetable.stop();
        }
    }

    /// When something is due next, by [`Clock::elapsed`].
    fn next(&self) -> Option<Duration> {
        self.prober.next().into_iter().chain(self.timetable.next()).min()
    }

    /// Runs one of the periodic commands that are due, while the probes go on. Returns whether there was one.
    async fn run_due<M: Machine, S: Store, C: Clock>(
        &mut self,
        engine: &mut Engine<M, S, C>,
        reports: &Reports<'_>,
        standing: &Standing,
    ) -> bool {
        let Some(begun) = self.timetable.begin(engine.clock()) else { return false };
        engine.remember_runs(&self.timetable.to_bytes()).await;
        let outcome = self.run(&begun, engine, reports, standing).await;
        self.timetable.end(&begun, &outcome, engine.clock());
        engine.remember_runs(&self.timetable.to_bytes()).await;
        true
    }

    async fn run<M: Machine, S: Store, C: Clock>(
        &mut self,
        begun: &Begun,
        engine: &Engine<M, S, C>,
        reports: &Reports<'_>,
        standing: &Standing,
    ) -> Outcome {
        let redactor = self.timetable.redactor().clone();
        let mut run = std::pin::pin!(begun.run(engine.machine(), &redactor));
        let mut shown = engine.clock().elapsed() + LONG_RUN;
        loop {
            let next = self.prober.next().unwrap_or(Duration::MAX);
            tokio::select! {
                outcome = &mut run => return outcome,
                () = engine.clock().sleep_until_elapsed(shown), if shown < Duration::MAX => {
                    shown = Duration::MAX;
                    reports.publish(engine, self, standing.clone()).await;
                }
                () = engine.clock().sleep_until_elapsed(next), if next < Duration::MAX => {
                    if self.prober.probe_due(engine.machine(), engine.clock()).await {
                        reports.publish(engine, self, standing.clone()).await;
                    }
                }
            }
        }
    }
}

/// The content of a plan Secret, and the key that verifies it.
async fn read<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    identity: &Identity,
    data: &SecretData,
) -> Result<(Result<Orders, Box<Standing>>, PublicKey), EngineError> {
    let (_, heir) = heir(engine, identity, data);
    let orders = Orders::read(data, &identity.machine, heir);
    if let Ok(orders) = &orders
        && engine.obeys(&orders.plan)
    {
        // Before it is carried out, and before the key is followed: what is kept can always be verified.
        engine.remember(data).await;
    }
    Ok((orders, follow_key(engine, identity, data).await?))
}

/// The key that verifies plans. It is recorded before a plan of it is applied, so that the previous key is never
/// trusted again.
async fn follow_key<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    identity: &Identity,
    data: &SecretData,
) -> Result<PublicKey, EngineError> {
    let (known, heir) = heir(engine, identity, data);
    if heir != known {
        engine.trust(heir).await?;
    }
    Ok(heir)
}

/// The plan on the disk: the accepted one, or one that was about to be accepted. There is none after a reset.
async fn recall<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    identity: &Identity,
) -> Result<Option<Orders>, EngineError> {
    if engine.history().current.is_none() || engine.history().resetting {
        return Ok(None);
    }
    let Some(data) = engine.recall().await else { return Ok(None) };
    let (_, heir) = heir(engine, identity, &data);
    let orders = Orders::read(&data, &identity.machine, heir).ok();
    let orders = orders.filter(|orders| engine.obeys(&orders.plan));
    if orders.is_some() {
        follow_key(engine, identity, &data).await?;
    }
    Ok(orders)
}

/// The trusted key (the pinned one, or the last recorded one) and the key that succeeds it.
fn heir<M: Machine, S: Store, C: Clock>(
    engine: &Engine<M, S, C>,
    identity: &Identity,
    data: &SecretData,
) -> (PublicKey, PublicKey) {
    let known = engine.history().plan_key.unwrap_or(identity.plan_key);
    // Links that cannot be read lead nowhere; the plan beside them is rejected with the reason.
    let links = Successions::from_secret_data(data).unwrap_or_default();
    (known, links.heir(identity.successions.heir(known)))
}

/// Applies a plan to its end, or to a closed gate. `None` if a newer plan has arrived.
async fn carry_out<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    orders: &Orders,
    plans: &mut Plans,
    trust: (&Identity, PublicKey),
    reports: &Reports<'_>,
    routine: &Routine,
    looking: &impl Fn(&M, Moment),
) -> Result<Option<Progress>, EngineError> {
    let facts = engine.machine().facts().await;
    let (cancel, cancelled) = watch::channel(None);
    engine.heed(cancelled);
    loop {
        if let Some(step) = engine.next_step(&orders.plan, &orders.gates) {
            looking(engine.machine(), Moment::Trying(step + 1));
        }
        let (history, drift) = (engine.history().clone(), engine.drift());
        let now = engine.clock().now();
        let mut on = |progress: &Progress| {
            let standing = Standing::Plan(orders.complain(progress.clone()));
            let report = report::report(standing, &history, routine.prober.results(), facts.clone(), now);
            reports.send(Report { drift: drift.clone(), periodic: routine.timetable.results(), ..report });
        };
        let heard = hear_cancel(plans.clone(), &orders.plan, trust, engine.history().epoch, &cancel);
        let advance = tokio::select! {
            advance = engine.advance(&orders.plan, &orders.gates, &mut on) => advance?,
            never = heard => match never {},
        };
        looking(engine.machine(), Moment::Done);
        match advance {
            Advance::Rest(progress) | Advance::Gate(progress) => return Ok(Some(orders.complain(progress))),
            Advance::Moved if plans.has_changed().unwrap_or_default() => return Ok(None),
            Advance::Moved => {}
            Advance::Wait(until) => {
                looking(engine.machine(), Moment::Waiting(until));
                // What this step waits for may be what somebody has taken away.
                if engine.next_patrol_of_running_plan() <= engine.clock().elapsed()
                    && engine.patrol(&orders.plan).await?
                {
                    let standing = report::progress(&orders.plan, engine.history());
                    reports.publish(engine, routine, Standing::Plan(orders.complain(standing))).await;
                }
                tokio::select! {
                    changed = plans.changed() => {
                        if changed.is_ok() {
                            plans.mark_changed();
                        }
                        return Ok(None);
                    }
                    () = engine.clock().sleep_until(until) => {}
                }
            }
        }
    }
}

/// Says that a plan is cancelled, when a later Secret says so. Until then the Secret is not used: another plan waits for the end of the
/// step.
async fn hear_cancel(
    mut plans: Plans,
    plan: &VerifiedPlan,
    (identity, key): (&Identity, PublicKey),
    epoch: Epoch,
    cancel: &watch::Sender<Option<PlanId>>,
) -> Infallible {
    while plans.changed().await.is_ok() {
        let data = plans.borrow().clone().unwrap_or_default();
        // The key may have been replaced while the command runs.
        let links = Successions::from_secret_data(&data).unwrap_or_default();
        let key = links.heir(identity.successions.heir(key));
        // A plan that would be refused cancels nothing either.
        if let Ok(orders) = Orders::read(&data, &identity.machine, key)
            && orders.plan.plan().epoch >= epoch
            && orders.gates.cancels(plan.id())
        {
            cancel.send_replace(Some(plan.id()));
        }
    }
    std::future::pending().await
}

/// The receiver of reports, and what each of them says of the agent: the key that verifies plans, what the agent understands,
/// and its program.
struct Reports<'a> {
    sender: &'a watch::Sender<Report>,
    plan_key: KeyId,
    capabilities: ReportedCapabilities,
    program: Option<ReportedProgram>,
}

impl<'a> Reports<'a> {
    fn new<M: Machine, S: Store, C: Clock>(
        sender: &'a watch::Sender<Report>,
        engine: &Engine<M, S, C>,
        plan_key: KeyId,
    ) -> Self {
        Self { sender, plan_key, capabilities: engine.capabilities(), program: engine.agent_program() }
    }

    fn send(&self, report: Report) {
        self.sender.send_replace(Report {
            plan_key: Some(self.plan_key.clone()),
            capabilities: Some(self.capabilities.clone()),
            agent_program: report.agent_program.or_else(|| self.program.clone()),
            ..report
        });
    }

    async fn publish<M: Machine, S: Store, C: Clock>(
        &self,
        engine: &Engine<M, S, C>,
        routine: &Routine,
        standing: Standing,
    ) {
        let facts = engine.machine().facts().await;
        let now = engine.clock().now();
        let report = report::report(standing, engine.history(), routine.prober.results(), facts, now);
        let (drift, periodic) = (engine.drift(), routine.timetable.results());
        self.send(Report { drift, periodic, agent_program: engine.agent_program(), ..report });
    }
}
