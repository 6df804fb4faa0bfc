//! Whether the certificates and keys of a cluster have changed since they were recorded. Pure.
//!
//! Machines have the originals: plans made from others would lock every machine out, one after the other.

use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use capstan_plan::{Digest, SigningKey};
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;

use super::decide::{NEEDED, keys};
use super::tokens;

/// Key of the record of the workers' token, which not every cluster has.
const AGENT_TOKEN: &str = "AgentToken";

/// Key of the record of the plan key: the name of its purpose.
pub(super) const PLAN_KEY: &str = "PlanKey";

/// Key of the record of the key that will replace the plan key.
pub(super) const NEXT_PLAN_KEY: &str = "NextPlanKey";

/// Digests of the relevant content of each Secret, by its purpose.
pub(crate) type KeyDigests = BTreeMap<String, String>;

/// The digests of complete Secrets. Salted with the key of the CA, so that a token which a user has chosen cannot be
/// guessed from its digest.
pub(crate) fn digests(found: &BTreeMap<Purpose, Secret>) -> KeyDigests {
    let bytes = |purpose: Purpose, key: &str| {
        found.get(&purpose).and_then(|secret| secrets::get(secret, key)).unwrap_or_default().to_vec()
    };
    let salt = bytes(Purpose::Ca, pair::KEY);
    let digest = |values: &[&[u8]]| {
        let mut all = salt.clone();
        for value in values {
            all.extend(u64::try_from(value.len()).unwrap_or(u64::MAX).to_be_bytes());
            all.extend(*value);
        }
        Digest::of(&all).to_string()
    };
    let of_purpose = |purpose: Purpose| {
        let values: Vec<Vec<u8>> = keys(purpose).iter().map(|key| bytes(purpose, key)).collect();
        digest(&values.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let agent_token = found.get(&Purpose::Token).and_then(tokens::agent_token);
    let agent_token = agent_token.map(|token| (AGENT_TOKEN.to_owned(), digest(&[token])));
    // The digest that the plan key will have when this is the current one.
    let next = found.get(&Purpose::PlanKey).and_then(|secret| secrets::get(secret, plan_key::NEXT));
    let next = next.and_then(|private| {
        let public = SigningKey::from_pkcs8(private).ok()?.public();
        Some((NEXT_PLAN_KEY.to_owned(), digest(&[private, public.as_bytes()])))
    });
    NEEDED
        .into_iter()
        .map(|purpose| (format!("{purpose:?}"), of_purpose(purpose)))
        .chain(agent_token)
        .chain(next)
        .collect()
}

/// Whether the workers' token is recorded.
pub(crate) fn has_agent_token(recorded: &KeyDigests) -> bool {
    recorded.contains_key(AGENT_TOKEN)
}

/// Why no plan may be made from these Secrets: the first one that differs from its record. A change of the CA changes
/// the salt of all others, so the CA comes first.
pub(crate) fn changed(recorded: &KeyDigests, now: &KeyDigests, cluster: &str) -> Option<String> {
    let is_announced = |name: &str| {
        name == PLAN_KEY && recorded.get(NEXT_PLAN_KEY).is_some_and(|next| now.get(PLAN_KEY) == Some(next))
    };
    let differs = |name: &str| {
        let changed = recorded.get(name).is_some_and(|recorded| now.get(name) != Some(recorded));
        changed && !is_announced(name)
    };
    let changed = NEEDED.into_iter().find(|purpose| differs(&format!("{purpose:?}")));
    let purpose = changed.or_else(|| differs(AGENT_TOKEN).then_some(Purpose::Token))?;
    Some(format!(
        "Secret {} was changed after the cluster began, and its machines hold the original: restore the Secret from a \
         backup. Nothing is changed on any machine until then",
        purpose.secret_name(cluster)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_controller::secrets::build;

    fn all() -> BTreeMap<Purpose, Secret> {
        let secret = |purpose: Purpose| {
            let data = keys(purpose).iter().map(|key| (*key, format!("{purpose:?}-{key}").into_bytes()));
            build("default", "c", purpose.secret_name("c"), data)
        };
        NEEDED.into_iter().map(|purpose| (purpose, secret(purpose))).collect()
    }

    /// Clusters that began without a token of workers may get one; none loses it again unnoticed.
    #[test]
    fn a_token_of_workers_may_come_and_must_stay() {
        let with = |token: Option<&str>| {
            let mut found = all();
            let data = found.get_mut(&Purpose::Token).and_then(|secret| secret.data.as_mut()).expect("data");
            let token = token.map(|token| k8s_openapi::ByteString(token.as_bytes().to_vec()));
            data.extend(token.map(|token| (secrets::AGENT_TOKEN.to_owned(), token)));
            digests(&found)
        };
        for (recorded, now, is_changed) in [
            (None, None, false),
            (None, Some("a"), false),
            (Some("a"), Some("a"), false),
            (Some("a"), Some("b"), true),
            (Some("a"), None, true),
        ] {
            let why = changed(&with(recorded), &with(now), "c");
            assert_eq!(why.is_some(), is_changed, "{recorded:?} and {now:?}");
            assert!(why.is_none_or(|why| why.contains("Secret c-token")));
            assert_eq!(has_agent_token(&with(recorded)), recorded.is_some());
        }
    }

    #[test]
    fn a_secret_that_was_edited_is_named() {
        let recorded = digests(&all());
        assert_eq!(changed(&recorded, &digests(&all()), "c"), None);
        for purpose in NEEDED {
            for key in keys(purpose) {
                let mut edited = all();
                let data = edited.get_mut(&purpose).and_then(|secret| secret.data.as_mut()).expect("data");
                data.insert((*key).to_owned(), k8s_openapi::ByteString(b"other".to_vec()));
                let why = changed(&recorded, &digests(&edited), "c").expect("it was changed");
                assert!(why.contains(&purpose.secret_name("c")), "{why}");
            }
        }
        // What else is in a Secret does not count.
        let mut labelled = all();
        let key = labelled.get_mut(&Purpose::PlanKey).and_then(|secret| secret.data.as_mut()).expect("data");
        key.insert("epoch".to_owned(), k8s_openapi::ByteString(b"7".to_vec()));
        assert_eq!(changed(&recorded, &digests(&labelled), "c"), None);
        assert_eq!(changed(&KeyDigests::new(), &recorded, "c"), None, "a cluster of before has no record");
    }
}
