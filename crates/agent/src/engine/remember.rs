//! The accepted plan on the disk of the machine, with its Secret data, so that a machine that boots without its
//! management plane continues with it. It is trusted no more than data from the plane: its signature is verified again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::{Digest, OpenGates, SecretData, VerifiedPlan};
use std::collections::BTreeMap;

use super::Engine;
use crate::clock::Clock;
use crate::decide::{Decision, decide};
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

    /// Whether a plan would be applied, or was.
    pub fn obeys(&self, plan: &VerifiedPlan) -> bool {
        let (gates, now) = (OpenGates::none(plan.id()), self.clock.now());
        let decision = decide(plan, &gates, self.history(), &self.sights, &self.protected, now);
        !matches!(decision, Decision::Refuse(_))
    }
}
