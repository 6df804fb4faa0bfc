//! The tokens of service accounts: their claims, and when they are valid.
//!
//! A token is valid as long as the objects it names exist. It is checked against the store at every request, so the
//! deletion of the account, or of the object the token is bound to, invalidates it at once.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{token, token_keys::TokenKeys};
use crate::{
    object,
    rbac::go_list,
    store::{GroupResource, Key, Store, Stored},
    user::User,
};

/// As far as clocks may disagree, in seconds.
const LEEWAY: i64 = 60;

/// Issues and checks tokens.
pub(crate) struct Issuer {
    pub(crate) keys: Arc<TokenKeys>,
    /// Who says so, in every token.
    name: String,
}

/// An object that a token is bound to. A token for a pod may name its node, too.
pub(crate) struct Bound<'a> {
    /// As the claim calls it: `secret`, `pod` or `node`.
    pub(crate) claim: &'static str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// What a token is asked to say.
pub(crate) struct Grant<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: &'a Value,
    pub(crate) bound: &'a [Bound<'a>],
    pub(crate) audiences: &'a [String],
    pub(crate) now: Timestamp,
    pub(crate) seconds: i64,
}

/// Somebody, and for whom the token was meant.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
    /// When the token was issued, in Unix seconds, if it says so.
    pub(crate) issued: Option<i64>,
}

impl Issuer {
    pub(crate) fn new(keys: TokenKeys, name: String) -> Self {
        Self { keys: Arc::new(keys), name }
    }

    /// Whom a token is for if nobody says.
    pub(crate) fn audiences(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    /// A new token; nothing if there is no randomness.
    pub(crate) fn issue(&self, grant: &Grant<'_>) -> Option<String> {
        let (name, uid) = (object::name(grant.account), object::uid(grant.account));
        let mut own = json!({"namespace": grant.namespace, "serviceaccount": {"name": name, "uid": uid}});
        for bound in grant.bound {
            own[bound.claim] = json!({"name": bound.name});
            if !bound.uid.is_empty() {
                own[bound.claim]["uid"] = bound.uid.into();
            }
        }
        let now = grant.now.as_second();
        self.keys.sign(&json!({
            "aud": grant.audiences,
            "exp": now.saturating_add(grant.seconds),
            "iat": now,
            "iss": self.name,
            "jti": Uuid::new_v4().to_string(),
            "kubernetes.io": own,
            "nbf": now,
            "sub": User::service_account(grant.namespace, name, uid).name,
        }))
    }

    /// Whose token this is; nothing if it is not one of ours, an error if it is but not to be believed.
    pub(crate) fn authenticate(
        &self,
        store: &Store,
        now: Timestamp,
        token: &str,
        audiences: &[String],
    ) -> Option<Result<Authenticated, String>> {
        // As upstream: what another has issued is another's business.
        token::unverified_issuer(token).filter(|issuer| *issuer == self.name)?;
        let Some(claims) = self.keys.verify(token, now) else {
            return Some(Err("the signature is not ours".to_owned()));
        };
        Some(self.check(store, now, &claims, audiences))
    }

    fn check(
        &self,
        store: &Store,
        now: Timestamp,
        claims: &Value,
        wanted: &[String],
    ) -> Result<Authenticated, String> {
        if claims["iss"] != self.name.as_str() {
            return Err("the issuer is another".to_owned());
        }
        let audiences = intersection(claims, wanted)?;
        check_times(claims, now.as_second())?;
        let own = &claims["kubernetes.io"];
        let text = |path: &[&str]| object::text(own, path);
        let (namespace, name) = (text(&["namespace"]), text(&["serviceaccount", "name"]));
        let find = |resource: &str, namespace: &str, name: &str| {
            store.get(&Key::new(GroupResource::new("", resource), namespace, name))
        };
        let live = |found: Option<Arc<Stored>>, uid: &str| {
            found.filter(|found| object::uid(&found.value) == uid && !is_gone(&found.value, now))
        };
        let uid = text(&["serviceaccount", "uid"]);
        if name.is_empty() || live(find("serviceaccounts", namespace, name), uid).is_none() {
            return Err("the service account is gone".to_owned());
        }
        let pod_bound = own.get("pod").is_some();
        for (claim, resource) in [("secret", "secrets"), ("pod", "pods"), ("node", "nodes")] {
            // Of a pod's token, the node is only told.
            let Some(bound) = own.get(claim).filter(|_| claim != "node" || !pod_bound) else { continue };
            let within = if claim == "node" { "" } else { namespace };
            let found = find(resource, within, object::text(bound, &["name"]));
            if live(found, object::text(bound, &["uid"])).is_none() {
                return Err("service account token has been invalidated".to_owned());
            }
        }
        let mut user = User::service_account(namespace, name, uid);
        let id = object::text(claims, &["jti"]);
        if !id.is_empty() {
            user = user.with_credential(format!("JTI={id}"));
        }
        for (claim, fields) in [("pod", ["pod-name", "pod-uid"]), ("node", ["node-name", "node-uid"])] {
            for (field, part) in fields.into_iter().zip(["name", "uid"]) {
                let value = text(&[claim, part]);
                if !value.is_empty() {
                    let key = format!("authentication.kubernetes.io/{field}");
                    user.extra.insert(key, vec![value.to_owned()]);
                }
            }
        }
        Ok(Authenticated { user, audiences, issued: claims["iat"].as_i64() })
    }
}

/// Whether an object was deleted some time ago and only waits for its finalizers.
fn is_gone(object: &Value, now: Timestamp) -> bool {
    let at = object::meta_str(object, "deletionTimestamp");
    !at.is_empty() && at.parse::<Timestamp>().map_or(true, |at| at.as_second() < now.as_second() - LEEWAY)
}

fn intersection(claims: &Value, wanted: &[String]) -> Result<Vec<String>, String> {
    let of: Vec<String> = match &claims["aud"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(some) => some.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let both: Vec<String> = of.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
    if both.is_empty() {
        let (of, wanted) = (go_list(&of), go_list(wanted));
        return Err(format!("token audiences {of} is invalid for the target audiences {wanted}"));
    }
    Ok(both)
}

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let time = |claim: &str| claims[claim].as_i64();
    let after = |claim: &str| time(claim).is_none_or(|at| at > now.saturating_add(LEEWAY));
    if after("nbf") {
        return Err("service account token is not valid yet".to_owned());
    }
    if time("exp").is_none_or(|at| at < now.saturating_sub(LEEWAY)) {
        return Err("service account token has expired".to_owned());
    }
    if after("iat") {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_minute_of_grace() {
        let claims = json!({"nbf": 1000, "iat": 1000, "exp": 2000});
        assert_eq!(check_times(&claims, 940), Ok(()));
        assert!(check_times(&claims, 939).unwrap_err().contains("not valid yet"));
        assert_eq!(check_times(&claims, 2060), Ok(()));
        assert!(check_times(&claims, 2061).unwrap_err().contains("expired"));
        // What is not said cannot have been meant for ever.
        for claim in ["nbf", "iat", "exp"] {
            let mut claims = claims.clone();
            claims[claim] = Value::Null;
            assert!(check_times(&claims, 1500).is_err(), "{claim}");
        }
    }

    #[test]
    fn audiences_must_meet() {
        let both = |claims: &Value, wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|word| (*word).to_owned()).collect();
            intersection(claims, &wanted).ok()
        };
        assert_eq!(both(&json!({"aud": ["a", "b"]}), &["b", "c"]), Some(vec!["b".to_owned()]));
        assert_eq!(both(&json!({"aud": "a"}), &["a"]), Some(vec!["a".to_owned()]));
        assert_eq!(both(&json!({"aud": []}), &["a"]), None);
        assert_eq!(both(&json!({}), &["a"]), None);
    }
}
