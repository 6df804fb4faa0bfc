//! The accepted plan on the disk of the machine, with its Secret data, so that a machine that boots without its
//! management plane continues with it. It is trusted no more than data from the plane: its signature is verified again. Beside it
//! are the last runs of its periodic commands.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::{Digest, OpenGates, SecretData, VerifiedPlan};
use std::collections::BTreeMap;

use super::Engine;
use crate::clock::Clock;
use crate::decide::{Decision, decide};
use crate::journal::End;
use crate::machine::Machine;
use crate::store::Store;

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Stores the plan and its Secret data, unless they are stored already. If the disk is full, the plan is carried
    /// out without this copy, and the copy is written later.
    pub async fn remember(&mut self, data: &SecretData) {
        let text: BTreeMap<&String, String> =
            data.iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
        let Ok(bytes) = serde_json::to_vec(&text) else { return };
        let digest = Digest::of(&bytes);
        if self.remembered != Some(digest) && self.journal.put_plan(&bytes).await.is_ok() {
            self.remembered = Some(digest);
        }
    }

    /// The stored data; `None` if it cannot be read.
    pub async fn recall(&mut self) -> Option<SecretData> {
        let bytes = self.journal.plan().await.ok()??;
        let text: BTreeMap<String, String> = serde_json::from_slice(&bytes).ok()?;
        let data = text.into_iter().map(|(key, value)| Some((key, STANDARD.decode(value).ok()?)));
        let data = data.collect::<Option<SecretData>>()?;
        self.remembered = Some(Digest::of(&bytes));
        Some(data)
    }

    /// Stores the last runs of periodic commands. If the disk is full, they run without this record: one of them may be what makes
    /// room.
    pub(crate) async fn remember_runs(&mut self, bytes: &[u8]) {
        let _ = self.journal.put_runs(bytes).await;
    }

    /// The last runs of periodic commands; `None` if there are none, or they cannot be read.
    pub(crate) async fn recall_runs(&mut self) -> Option<Vec<u8>> {
        self.journal.runs().await.ok()?
    }

    /// Whether the applied plan is this one.
    pub(crate) fn has_applied(&self, plan: &VerifiedPlan) -> bool {
        let current = self.history().current.as_ref().filter(|current| current.plan == plan.id());
        current.is_some_and(|current| current.end == Some(End::Applied))
    }

    /// Whether a plan would be applied, or was.
    pub fn obeys(&self, plan: &VerifiedPlan) -> bool {
        let (gates, now) = (OpenGates::none(plan.id()), self.clock.now());
        let decision = decide(plan, &gates, self.history(), &self.sights, &self.protected, now);
        !matches!(decision, Decision::Refuse(_))
    }
}
