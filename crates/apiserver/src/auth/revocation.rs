//! Credentials that are not valid any more although they have not expired.
//!
//! A revocation names a user or a group, and a time. Every certificate and token of that user or group that was issued before
//! that time is rejected. Revocations are kept in the store, so that backups hold them, but under a name that the API does
//! not serve: a role cannot grant the right to change them.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    status::{ApiError, Result},
    store::{Action, Expect, GroupResource, Key, Store, Write, WriteError},
    user::User,
};

/// The most revocations that are kept. One subject has one.
const MOST: usize = 1000;
/// How often a write is repeated that meets another one.
const ATTEMPTS: usize = 10;

/// Rejects all credentials of a subject that were issued before a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Revocation {
    pub(crate) kind: SubjectKind,
    pub(crate) name: String,
    pub(crate) issued_before: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SubjectKind {
    User,
    Group,
}

impl Revocation {
    fn covers(&self, user: &User, issued: i64) -> bool {
        let is_subject = match self.kind {
            SubjectKind::User => user.name == self.name,
            SubjectKind::Group => user.is_in(&self.name),
        };
        is_subject && issued < self.issued_before.as_second()
    }
}

/// The revocations in the store, parsed once for each change.
#[derive(Default)]
pub(crate) struct Revocations(Mutex<Option<Parsed>>);

#[derive(Clone)]
struct Parsed {
    revision: u64,
    /// `None`: they cannot be read.
    all: Option<Arc<Vec<Revocation>>>,
}

impl Revocations {
    /// Whether a credential of a user that was issued at this time, in Unix seconds, is revoked. If the revocations cannot
    /// be read, all credentials are.
    pub(crate) fn cover(&self, store: &Store, user: &User, issued: i64) -> bool {
        self.all(store).is_none_or(|all| all.iter().any(|revocation| revocation.covers(user, issued)))
    }

    fn all(&self, store: &Store) -> Option<Arc<Vec<Revocation>>> {
        let Some(stored) = store.get(&key()) else { return Some(Arc::default()) };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(parsed) if parsed.revision == stored.revision => parsed.all.clone(),
            _ => {
                let all = parse(&stored.value.once());
                if all.is_none() {
                    tracing::error!(
                        "the revocations in the store cannot be read: every client certificate and token is rejected"
                    );
                }
                let all = all.map(Arc::new);
                *kept = Some(Parsed { revision: stored.revision, all: all.clone() });
                all
            }
        }
    }
}

fn key() -> Key {
    Key::new(GroupResource::new("internal.capstan.dev", "revocations"), "", "all")
}

fn parse(object: &Value) -> Option<Vec<Revocation>> {
    Vec::deserialize(object.get("revocations")?).ok()
}

/// All revocations, as JSON.
pub(crate) fn list(revocations: &Revocations, store: &Store) -> Result<Value> {
    let all = revocations.all(store).ok_or_else(unreadable)?;
    Ok(json!({"revocations": *all}))
}

fn unreadable() -> ApiError {
    ApiError::internal("the revocations in the store cannot be read")
}

/// Adds the revocation that a request asks for. One without a time holds for all credentials issued until now.
pub(crate) async fn add(store: &Store, now: Timestamp, body: &[u8]) -> Result<Value> {
    let added = asked_for(body, now)?;
    for _ in 0..ATTEMPTS {
        let stored = store.get(&key());
        let (before, expect) = match &stored {
            None => (Vec::new(), Expect::Absent),
            Some(stored) => {
                (parse(&stored.value.once()).ok_or_else(unreadable)?, Expect::Revision(stored.revision))
            }
        };
        let all = with(before, added.clone())?;
        let object = json!({
            "apiVersion": "internal.capstan.dev/v1", "kind": "Revocations", "metadata": {"name": "all"}, "revocations": all,
        });
        let write = Write { key: key(), expect, action: Action::Put(object), guards: Vec::new() };
        match store.write(write).await {
            Ok(_) => return Ok(json!(added)),
            Err(WriteError::Conflict) => {}
            Err(error) => return Err(ApiError::internal(&capstan_text::chain(&error))),
        }
    }
    Err(ApiError::too_many_requests())
}

fn asked_for(body: &[u8], now: Timestamp) -> Result<Revocation> {
    // Credentials tell the second of their issue: those of this second count as issued before.
    let end = Timestamp::from_second(now.as_second() + 1).unwrap_or(now);
    let wrong = |why: String| ApiError::bad_request(format!("the revocation cannot be used: {why}"));
    let mut asked: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    if let Value::Object(fields) = &mut asked {
        fields.entry("issuedBefore").or_insert_with(|| json!(end));
    }
    let revocation: Revocation = serde_json::from_value(asked).map_err(|error| wrong(error.to_string()))?;
    if revocation.name.is_empty() {
        return Err(wrong("name is empty".to_owned()));
    }
    if revocation.issued_before > end {
        return Err(wrong(
            "issuedBefore is in the future, so that new credentials would be rejected".to_owned(),
        ));
    }
    Ok(revocation)
}

/// The later one counts if a subject has one already.
fn with(mut all: Vec<Revocation>, added: Revocation) -> Result<Vec<Revocation>> {
    let same = |other: &&mut Revocation| other.kind == added.kind && other.name == added.name;
    let is_full = all.len() >= MOST;
    match all.iter_mut().find(same) {
        Some(other) => other.issued_before = other.issued_before.max(added.issued_before),
        None if is_full => {
            return Err(ApiError::bad_request(format!(
                "there are {MOST} revocations already: revoke the credentials of a group instead"
            )));
        }
        None => all.push(added),
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn revocation(kind: SubjectKind, name: &str, second: i64) -> Revocation {
        Revocation { kind, name: name.to_owned(), issued_before: at(second) }
    }

    #[test]
    fn of_a_user_or_a_group_before_a_time() {
        let jane = User::new("jane", ["ops"]);
        for (revoked, issued, expected) in [
            (revocation(SubjectKind::User, "jane", 100), 99, true),
            (revocation(SubjectKind::User, "jane", 100), 100, false),
            (revocation(SubjectKind::Group, "ops", 100), 99, true),
            (revocation(SubjectKind::Group, "jane", 100), 99, false),
            (revocation(SubjectKind::User, "ops", 100), 99, false),
        ] {
            assert_eq!(revoked.covers(&jane, issued), expected, "{revoked:?} {issued}");
        }
    }

    #[test]
    fn a_subject_has_one_and_the_later_counts() {
        let all = with(Vec::new(), revocation(SubjectKind::User, "jane", 5)).unwrap();
        let all = with(all, revocation(SubjectKind::User, "jane", 3)).unwrap();
        let all = with(all, revocation(SubjectKind::Group, "jane", 3)).unwrap();
        assert_eq!(
            all,
            [revocation(SubjectKind::User, "jane", 5), revocation(SubjectKind::Group, "jane", 3)]
        );
        let full: Vec<_> = (0..MOST).map(|n| revocation(SubjectKind::User, &n.to_string(), 1)).collect();
        assert!(with(full.clone(), revocation(SubjectKind::User, "more", 1)).is_err());
        assert!(with(full, revocation(SubjectKind::User, "7", 1)).is_ok());
    }

    #[test]
    fn what_cannot_be_meant_is_rejected() {
        let now = at(1000);
        let asked = |text: &str| asked_for(text.as_bytes(), now).map_err(|error| error.to_string());
        assert_eq!(
            asked(r#"{"kind":"User","name":"jane"}"#),
            Ok(revocation(SubjectKind::User, "jane", 1001))
        );
        for (text, why) in [
            (r#"{"kind":"User","name":""}"#, "name is empty"),
            (r#"{"kind":"Host","name":"x"}"#, "Host"),
            (r#"{"kind":"User"}"#, "name"),
            (r#"{"kind":"User","name":"x","issuedBefore":"2030-01-01T00:00:00Z"}"#, "in the future"),
            (r#"{"kind":"User","name":"x","until":1}"#, "until"),
            ("[]", "revocation"),
        ] {
            let error = asked(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
