//! The management plane of this process as machines know it, and the plan keys of clusters. Pure.

use capstan_api::agent::EnrolledPlane;
use capstan_controller::secrets::{self, plan_key};
use capstan_plan::Digest;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// At most this many plan keys are cached. Then the cache is cleared, which costs one request for each key.
const MOST: usize = 20_000;

/// The management plane of this process: name, API server and digest of its CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThisPlane(EnrolledPlane);

impl ThisPlane {
    pub(crate) fn new(plane: &str, server: &str, ca: &[u8]) -> Self {
        Self(EnrolledPlane {
            plane: plane.to_owned(),
            server: server.to_owned(),
            ca_digest: Digest::of(ca).to_string(),
        })
    }

    /// The name, which is independent of the address.
    pub(crate) fn plane(&self) -> &str {
        &self.0.plane
    }

    /// The record in the report of a machine that has enrolled with this plane.
    pub(crate) fn record(&self) -> EnrolledPlane {
        self.0.clone()
    }

    /// All fields as one string, for an annotation.
    pub(crate) fn stamp(&self) -> String {
        format!("{} {} {}", self.0.plane, self.0.server, self.0.ca_digest)
    }
}

/// The public key with which agents verify plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanKey {
    pub(crate) public: Vec<u8>,
    /// How keys have followed each other; empty if the key was never replaced.
    pub(crate) successions: Vec<u8>,
    pub(crate) epoch: u64,
    /// The plane that signs with the key, if it is recorded.
    pub(crate) plane: Option<String>,
}

impl PlanKey {
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let text = |key| secrets::get(secret, key).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Some(Self {
            public: secrets::get(secret, plan_key::PUBLIC)?.to_vec(),
            successions: secrets::get(secret, plan_key::SUCCESSIONS).unwrap_or_default().to_vec(),
            epoch: text(plan_key::EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(1),
            plane: text(plan_key::PLANE).map(str::to_owned),
        })
    }

    /// Whether this plane signs plans with the key. Otherwise the key was moved here and is not taken over yet.
    pub(crate) fn speaks_at(&self, this_plane: &ThisPlane) -> bool {
        self.plane.as_deref().is_none_or(|plane| plane == this_plane.plane())
    }
}

/// A cache of plan keys, so that an unchanged Secret is not read again.
#[derive(Debug, Default)]
pub(crate) struct PlanKeys(Mutex<HashMap<String, (String, Option<PlanKey>)>>);

impl PlanKeys {
    /// The cached key of this version of the Secret; `None` if the Secret was not read.
    pub(crate) fn get(&self, seen: &impl ResourceExt) -> Option<Option<PlanKey>> {
        let (uid, version) = (seen.uid()?, seen.resource_version()?);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&uid).filter(|known| known.0 == version).map(|known| known.1.clone())
    }

    /// Reads a Secret into the cache.
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
