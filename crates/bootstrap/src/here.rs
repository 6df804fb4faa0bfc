//! Which plane machines are led to, and who speaks on it. Pure.

use capstan_api::agent::EnrolledPlane;
use capstan_controller::secrets::{self, plan_key};
use capstan_plan::Digest;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// So many plan keys are remembered; then it starts afresh, which costs a request for each.
const MOST: usize = 20_000;

/// The plane all objects are on, as its machines know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Here(EnrolledPlane);

impl Here {
    pub(crate) fn new(plane: &str, server: &str, ca: &[u8]) -> Self {
        Self(EnrolledPlane {
            plane: plane.to_owned(),
            server: server.to_owned(),
            ca_digest: Digest::of(ca).to_string(),
        })
    }

    /// Its name, whatever its address.
    pub(crate) fn plane(&self) -> &str {
        &self.0.plane
    }

    /// What is written down of a machine that has enrolled here.
    pub(crate) fn record(&self) -> EnrolledPlane {
        self.0.clone()
    }

    /// All of it as one text.
    pub(crate) fn stamp(&self) -> String {
        format!("{} {} {}", self.0.plane, self.0.server, self.0.ca_digest)
    }
}

/// What plans are signed with, as far as machines are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanKey {
    pub(crate) public: Vec<u8>,
    pub(crate) epoch: u64,
    /// Where it speaks, if anybody has said so.
    pub(crate) plane: Option<String>,
}

impl PlanKey {
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let text = |key| secrets::get(secret, key).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Some(Self {
            public: secrets::get(secret, plan_key::PUBLIC)?.to_vec(),
            epoch: text(plan_key::EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(1),
            plane: text(plan_key::PLANE).map(str::to_owned),
        })
    }

    /// Whether plans of this plane are signed with it. Otherwise it was moved here, and nobody has taken it over yet.
    pub(crate) fn speaks_at(&self, here: &Here) -> bool {
        self.plane.as_deref().is_none_or(|plane| plane == here.plane())
    }
}

/// Plan keys that were read, so that a Secret that has not changed is not read again.
#[derive(Debug, Default)]
pub(crate) struct PlanKeys(Mutex<HashMap<String, (String, Option<PlanKey>)>>);

impl PlanKeys {
    /// What was read of the Secret as it is now; `None` if it was not read.
    pub(crate) fn get(&self, seen: &impl ResourceExt) -> Option<Option<PlanKey>> {
        let (uid, version) = (seen.uid()?, seen.resource_version()?);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&uid).filter(|known| known.0 == version).map(|known| known.1.clone())
    }

    /// Reads a Secret, and remembers what is in it.
    pub(crate) fn read(&self, secret: &Secret) -> Option<PlanKey> {
        let key = PlanKey::read(secret);
        if let (Some(uid), Some(version)) = (secret.uid(), secret.resource_version()) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(uid, (version, key.clone()));
        }
        key
    }
}
