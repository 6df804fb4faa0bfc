//! Whether what a cluster was made from has been changed since. Pure.
//!
//! Machines hold the originals: plans made from others would lock every machine out, one after the other.

use capstan_controller::secrets::{self, Purpose, pair};
use capstan_plan::Digest;
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;

use super::decide::{NEEDED, keys};

/// Digests of what counts in each Secret, by its purpose.
pub(crate) type KeyDigests = BTreeMap<String, String>;

/// The digests of Secrets that are complete. Salted with the key of the CA, so that a token which a user has chosen cannot
/// be guessed from its digest.
pub(crate) fn digests(found: &BTreeMap<Purpose, Secret>) -> KeyDigests {
    let bytes = |purpose: Purpose, key: &str| {
        found.get(&purpose).and_then(|secret| secrets::get(secret, key)).unwrap_or_default().to_vec()
    };
    let salt = bytes(Purpose::Ca, pair::KEY);
    let digest = |purpose: Purpose| {
        let mut all = salt.clone();
        for key in keys(purpose) {
            let value = bytes(purpose, key);
            all.extend(u64::try_from(value.len()).unwrap_or(u64::MAX).to_be_bytes());
            all.extend(value);
        }
        Digest::of(&all).to_string()
    };
    NEEDED.into_iter().map(|purpose| (format!("{purpose:?}"), digest(purpose))).collect()
}

/// Why nothing may be made from these Secrets: the first that is not what it was. A change of the CA changes the salt of all
/// others, so it comes first.
pub(crate) fn changed(recorded: &KeyDigests, now: &KeyDigests, cluster: &str) -> Option<String> {
    let differs = |purpose: &Purpose| {
        let name = format!("{purpose:?}");
        recorded.get(&name).is_some_and(|recorded| now.get(&name) != Some(recorded))
    };
    let purpose = NEEDED.into_iter().find(differs)?;
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
