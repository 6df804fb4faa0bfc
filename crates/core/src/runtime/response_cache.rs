//! A cache of the answers of extensions, so that the same question is not asked again at every reconcile.
//!
//! The key is a digest of exactly what is sent and of the extension that it is sent to. Pure: the time is an argument.
//! The caller decides what is kept; a failure never comes here.

use capstan_api::runtime::hooks::{Body, Hook, Message};
use capstan_plan::Digest;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::call::{self, CallError};
use super::registry::Handler;

/// How many answers are kept.
const MOST: usize = 1_000;
/// How long an answer counts. An upgraded extension may answer otherwise, and sends no event.
const VALID: SignedDuration = SignedDuration::from_mins(10);

/// A request to an extension, as a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    /// Name of the ExtensionConfig.
    extension: String,
    /// Resource version of the ExtensionConfig when the handler was read.
    identity: Digest,
    /// Extension, handler, hook and request body.
    digest: Digest,
}

impl CacheKey {
    /// The request `request` to this handler of the hook `H`.
    ///
    /// # Errors
    /// If the request cannot be written as JSON.
    pub(crate) fn new<H: Hook>(handler: &Handler, request: H::Request) -> Result<Self, CallError>
    where
        H::Request: Body + Serialize,
    {
        let body = call::message(&Message(request), &handler.settings)?;
        let identity =
            digest(&(&handler.extension, &handler.uid, handler.generation, &handler.client_config))?;
        let (extension, body) = (identity.to_string(), Digest::of(&body).to_string());
        let digest = digest(&(extension, &handler.name, H::NAME, body))?;
        Ok(Self { extension: handler.extension.clone(), identity, digest })
    }
}

fn digest(parts: &impl Serialize) -> Result<Digest, CallError> {
    let json = serde_json::to_vec(parts);
    let json = json.map_err(|error| CallError::Malformed(format!("cannot write the request: {error}")))?;
    Ok(Digest::of(&json))
}

/// Answers of type `A`, by question.
#[derive(Debug)]
pub(crate) struct ResponseCache<A>(Mutex<HashMap<String, Known<A>>>);

#[derive(Debug)]
struct Known<A> {
    extension: String,
    identity: Digest,
    answer: A,
    since: Timestamp,
}

impl<A> Default for ResponseCache<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone> ResponseCache<A> {
    /// The answer to this question, if there is one that still counts.
    pub(crate) fn get(&self, key: &CacheKey, now: Timestamp) -> Option<A> {
        let mut known = self.lock();
        forget(&mut known, key, now);
        known.get(&key.digest.to_string()).map(|known| known.answer.clone())
    }

    /// Keeps an answer. The oldest one is dropped if there are too many.
    pub(crate) fn put(&self, key: CacheKey, answer: A, now: Timestamp) {
        let mut known = self.lock();
        forget(&mut known, &key, now);
        if known.len() >= MOST
            && let Some(oldest) =
                known.iter().min_by_key(|(_, known)| known.since).map(|(key, _)| key.clone())
        {
            known.remove(&oldest);
        }
        let CacheKey { extension, identity, digest } = key;
        known.insert(digest.to_string(), Known { extension, identity, answer, since: now });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known<A>>> {
        // The content only saves calls: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops what is too old, and what the extension answered before its ExtensionConfig was changed.
fn forget<A>(known: &mut HashMap<String, Known<A>>, key: &CacheKey, now: Timestamp) {
    known.retain(|_, known| {
        let is_changed = known.extension == key.extension && known.identity != key.identity;
        !is_changed && now.duration_since(known.since) < VALID
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fixtures::handler;
    use capstan_api::runtime::hooks::{CommonRequest, MachineObjects, UpdateMachine, UpdateMachineRequest};
    use serde_json::json;

    fn asked(handler: &Handler, machine: &str) -> CacheKey {
        let machine = crate::machineset::fixtures::machine(machine).done();
        let desired = MachineObjects { machine, infrastructure_machine: json!({}), bootstrap_config: None };
        let request = UpdateMachineRequest { common: CommonRequest::default(), desired };
        CacheKey::new::<UpdateMachine>(handler, request).expect("a question")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn only_the_same_question_to_the_same_extension_has_the_answer() {
        let first = handler("e", "https://a", 1);
        let mut settings = first.clone();
        settings.settings.insert("a".to_owned(), "c".to_owned());
        let mut again = first.clone();
        again.uid = Some("v".to_owned());
        let mut other_handler = first.clone();
        other_handler.name = "other.e".to_owned();
        for (case, key, is_known) in [
            ("the same", asked(&first, "m"), true),
            ("another request", asked(&first, "n"), false),
            ("other settings", asked(&settings, "m"), false),
            ("another handler", asked(&other_handler, "m"), false),
            ("another address", asked(&handler("e", "https://b", 1), "m"), false),
            ("another generation", asked(&handler("e", "https://a", 2), "m"), false),
            ("made again", asked(&again, "m"), false),
            ("another extension", asked(&handler("f", "https://a", 1), "m"), false),
        ] {
            let cache = ResponseCache::default();
            cache.put(asked(&first, "m"), 7, at(0));
            assert_eq!(cache.get(&key, at(1)).is_some(), is_known, "{case}");
        }
    }

    #[test]
    fn an_answer_counts_for_ten_minutes() {
        let (cache, key) = (ResponseCache::default(), asked(&handler("e", "https://a", 1), "m"));
        cache.put(key.clone(), 7, at(0));
        assert_eq!(cache.get(&key, at(599)), Some(7));
        assert_eq!(cache.get(&key, at(600)), None);
        assert_eq!(cache.lock().len(), 0, "what is too old is dropped");
    }

    #[test]
    fn a_changed_extension_config_drops_its_responses_and_no_others() {
        let (old, new) = (handler("e", "https://a", 1), handler("e", "https://a", 2));
        let other = asked(&handler("f", "https://a", 1), "m");
        let cache = ResponseCache::default();
        cache.put(asked(&old, "m"), 1, at(0));
        cache.put(asked(&old, "n"), 2, at(0));
        cache.put(other.clone(), 3, at(0));
        assert_eq!(cache.get(&asked(&new, "x"), at(1)), None);
        assert_eq!(cache.lock().len(), 1);
        assert_eq!(cache.get(&other, at(1)), Some(3));
    }

    #[test]
    fn the_oldest_responses_are_evicted() {
        let (cache, handler) = (ResponseCache::default(), handler("e", "https://a", 1));
        let key = |number: usize| asked(&handler, &format!("m{number}"));
        for number in 0..=MOST {
            let second = i64::try_from(number).expect("a small number") / 10;
            cache.put(key(number), number, at(second + i64::from(number > 0)));
        }
        assert_eq!(cache.lock().len(), MOST);
        assert_eq!(cache.get(&key(0), at(102)), None, "the oldest");
        assert_eq!(cache.get(&key(MOST), at(102)), Some(MOST));
    }
}
