//! Carries out whatever the newest plan is, for ever: what an agent does between two ends of wires.
//!
//! Plans come in as the data of their Secret, reports go out as values; how they travel is not known here. Only the
//! newest of each counts, so that nobody has to catch up.

use capstan_plan::{
    Epoch, KeyId, MachineIdentity, OpenGates, Phase, Progress, PublicKey, Report, SecretData, SignedGates,
    SignedPlan, Standing, Successions, TrustedKeys, VerifiedPlan,
};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::engine::{Advance, Engine, EngineError};
use crate::machine::Machine;
use crate::probes::Prober;
use crate::report;
use crate::store::Store;

/// The machine, and the plane that it obeys.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Identity of the machine.
    pub machine: MachineIdentity,
    /// Key that verifies plans, unless the journal has a later one.
    pub plan_key: PublicKey,
    /// Keys that have followed earlier ones.
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

/// What the loop is about to do, for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A step is tried; the first is 1.
    Trying(usize),
    /// A step has failed, and is retried at this time.
    Waiting(Timestamp),
    /// Neither.
    Done,
}

/// The latest data of the plan Secret; `None` before there is one.
pub type Plans = watch::Receiver<Option<SecretData>>;

/// Applies the latest plan until there is a newer one, runs its probes, and reports its state.
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
) -> Result<(), EngineError> {
    engine.follow(identity.epoch).await?;
    let mut prober = Prober::default();
    loop {
        let data = plans.borrow_and_update().clone();
        let key = trusted(engine, identity, data.as_ref()).await?;
        let reports = Reports { sender: reports, plan_key: key.id() };
        let orders = match data.as_ref().map(|data| Orders::read(data, &identity.machine, key)) {
            None => Err(Standing::Idle),
            Some(Err(standing)) => Err(*standing),
            Some(Ok(orders)) => Ok(orders),
        };
        // Somebody else must act before this time, or there is something new to say.
        let mut overdue = Timestamp::MAX;
        let standing = match orders {
            Err(standing) => standing,
            Ok(orders) => {
                let Some(progress) = carry_out(engine, &orders, plans, &reports, &prober, &looking).await?
                else {
                    continue;
                };
                let plan = &orders.plan;
                if progress.phase == Phase::Waiting {
                    overdue = plan.plan().expires;
                } else if engine.history().current.as_ref().is_some_and(|current| current.plan == plan.id()) {
                    prober.watch(plan, engine.clock().now());
                }
                Standing::Plan(progress)
            }
        };
        reports.tell(engine, &prober, standing.clone()).await;
        // At rest, until there is another plan; the probes go on meanwhile.
        loop {
            let next = prober.next().unwrap_or(Timestamp::MAX).min(overdue);
            tokio::select! {
                changed = plans.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return Ok(()),
                },
                () = engine.clock().sleep_until(next) => {
                    if engine.clock().now() >= overdue {
                        break;
                    }
                    if prober.probe_due(engine.machine(), engine.clock()).await {
                        reports.tell(engine, &prober, standing.clone()).await;
                    }
                }
            }
        }
    }
}

/// The key that verifies plans: the pinned one, or the last that has followed it. Recorded before it is used, so that the key
/// before it is never trusted again.
async fn trusted<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    identity: &Identity,
    data: Option<&SecretData>,
) -> Result<PublicKey, EngineError> {
    let known = engine.history().plan_key.unwrap_or(identity.plan_key);
    // Links that cannot be read lead nowhere; the plan beside them is rejected with the reason.
    let links = data.and_then(|data| Successions::from_secret_data(data).ok()).unwrap_or_default();
    let heir = links.heir(identity.successions.heir(known));
    if heir != known {
        engine.trust(heir).await?;
    }
    Ok(heir)
}

/// Carries a plan out to its end, or to a gate that is closed. `None` when a newer one has come.
async fn carry_out<M: Machine, S: Store, C: Clock>(
    engine: &mut Engine<M, S, C>,
    orders: &Orders,
    plans: &mut Plans,
    reports: &Reports<'_>,
    prober: &Prober,
    looking: &impl Fn(&M, Moment),
) -> Result<Option<Progress>, EngineError> {
    let facts = engine.machine().facts().await;
    loop {
        if let Some(step) = engine.next_step(&orders.plan, &orders.gates) {
            looking(engine.machine(), Moment::Trying(step + 1));
        }
        let history = engine.history().clone();
        let now = engine.clock().now();
        let mut on = |progress: &Progress| {
            let standing = Standing::Plan(orders.complain(progress.clone()));
            reports.send(report::report(standing, &history, prober.results(), facts.clone(), now));
        };
        let turn = engine.advance(&orders.plan, &orders.gates, &mut on).await?;
        looking(engine.machine(), Moment::Done);
        match turn {
            Advance::Rest(progress) | Advance::Gate(progress) => return Ok(Some(orders.complain(progress))),
            Advance::Moved if plans.has_changed().unwrap_or_default() => return Ok(None),
            Advance::Moved => {}
            Advance::Wait(until) => {
                looking(engine.machine(), Moment::Waiting(until));
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

/// Where reports go, and the key that plans are verified with, which each of them names.
struct Reports<'a> {
    sender: &'a watch::Sender<Report>,
    plan_key: KeyId,
}

impl Reports<'_> {
    fn send(&self, report: Report) {
        self.sender.send_replace(Report { plan_key: Some(self.plan_key.clone()), ..report });
    }

    async fn tell<M: Machine, S: Store, C: Clock>(
        &self,
        engine: &Engine<M, S, C>,
        prober: &Prober,
        standing: Standing,
    ) {
        let facts = engine.machine().facts().await;
        let now = engine.clock().now();
        self.send(report::report(standing, engine.history(), prober.results(), facts, now));
    }
}
