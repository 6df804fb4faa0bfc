//! FlowSchemas and PriorityLevelConfigurations, compiled: which level a request has, and how many seats that level has.
//!
//! The compiled ones are kept, and the store announces changes, so that a request costs no look into the store. Seats are handed
//! out by `crate::fair_seats`; which of them a client may have does not depend on its level.

mod rule;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    fair_seats::Share,
    object,
    rbac::Access,
    registry::kinds::flow_control::{
        FLOW_SCHEMAS, GROUP, PRIORITY_LEVELS, mandatory_levels, mandatory_schemas,
    },
    store::{GroupResource, Store},
    user::User,
};
use rule::Rules;

const SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// What a request has been classified as.
#[derive(Clone)]
pub(crate) struct Classification(Arc<Flow>);

/// A FlowSchema with its level.
struct Flow {
    name: String,
    precedence: i64,
    uid: Option<HeaderValue>,
    rules: Rules,
    level: Arc<Level>,
}

struct Level {
    uid: Option<HeaderValue>,
    /// `None` for levels that do not wait.
    share: Option<Share>,
}

impl Classification {
    /// The seats that the request shares with others; nothing if it need not wait.
    pub(crate) fn share(&self) -> Option<&Share> {
        self.0.level.share.as_ref()
    }

    /// Tells the client what its request was classified as.
    pub(crate) fn note(&self, headers: &mut HeaderMap) {
        for (name, uid) in [(SCHEMA_HEADER, &self.0.uid), (LEVEL_HEADER, &self.0.level.uid)] {
            if let Some(uid) = uid {
                headers.insert(name, uid.clone());
            }
        }
    }
}

/// All FlowSchemas, kept compiled.
pub(crate) struct Flows {
    changes: [watch::Receiver<u64>; 2],
    /// Seats of all levels together.
    seats: usize,
    current: RwLock<Current>,
}

struct Current {
    /// The revisions of the last changes; nothing before the first look.
    seen: Option<[u64; 2]>,
    compiled: Arc<Compiled>,
}

#[derive(Default)]
struct Compiled {
    /// In the order in which they are tried.
    flows: Vec<Arc<Flow>>,
    /// Seats of the levels, by name.
    seats: BTreeMap<String, usize>,
}

impl Flows {
    pub(crate) fn new(store: &Store, seats: usize) -> Self {
        let changes = [FLOW_SCHEMAS, PRIORITY_LEVELS].map(|name| store.subscribe(Some(&resource(name))));
        Self { changes, seats, current: RwLock::new(Current { seen: None, compiled: Arc::default() }) }
    }

    /// The first FlowSchema that is about a request. One always is, unless the user is in no group at all.
    pub(crate) fn classify(&self, store: &Store, user: &User, access: &Access<'_>) -> Option<Classification> {
        let compiled = self.compiled(store);
        let mut flows = compiled.flows.iter();
        let found = flows.find(|flow| flow.rules.match_request(user, access)).or(compiled.flows.last());
        found.cloned().map(Classification)
    }

    /// The seats of each level that has any, by name.
    pub(crate) fn seats(&self, store: &Store) -> BTreeMap<String, usize> {
        self.compiled(store).seats.clone()
    }

    fn compiled(&self, store: &Store) -> Arc<Compiled> {
        // Before the store is read: a change meanwhile is looked at again the next time.
        let seen = Some([*self.changes[0].borrow(), *self.changes[1].borrow()]);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.seen == seen {
                return Arc::clone(&current.compiled);
            }
        }
        // One request compiles; others that come meanwhile wait for it.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.seen != seen {
            current.compiled = Arc::new(compile(store, self.seats));
            current.seen = seen;
        }
        Arc::clone(&current.compiled)
    }
}

fn resource(name: &str) -> GroupResource {
    GroupResource::new(GROUP, name)
}

/// The UIDs and specs of stored objects by name, and of those that must be there without a UID.
fn specs<const N: usize>(
    store: &Store,
    name: &str,
    mandatory: [(&'static str, Value); N],
) -> BTreeMap<String, (Option<HeaderValue>, Value)> {
    let mut specs: BTreeMap<String, (Option<HeaderValue>, Value)> =
        mandatory.into_iter().map(|(name, spec)| (name.to_owned(), (None, spec))).collect();
    for stored in &store.list(&resource(name), None).items {
        let value = stored.value.once();
        let uid = HeaderValue::try_from(object::uid(&value)).ok();
        let spec = value.get("spec").cloned().unwrap_or_default();
        specs.insert(stored.key.name.clone(), (uid, spec));
    }
    specs
}

fn compile(store: &Store, seats: usize) -> Compiled {
    let levels = specs(store, PRIORITY_LEVELS, mandatory_levels());
    let shares = |spec: &Value| {
        let part = if is_exempt(spec) { "exempt" } else { "limited" };
        let shares = object::at(spec, &[part, "nominalConcurrencyShares"]).and_then(Value::as_u64);
        shares.and_then(|shares| usize::try_from(shares).ok()).unwrap_or(0)
    };
    let all = levels.values().map(|(_, spec)| shares(spec)).fold(0, usize::saturating_add);
    let mut compiled = Compiled::default();
    let levels: BTreeMap<String, Arc<Level>> = levels
        .into_iter()
        .map(|(name, (uid, spec))| {
            let most = share_of(seats, shares(&spec), all);
            let share =
                (!is_exempt(&spec)).then(|| Share { level: Arc::from(name.as_str()), seats: most.max(1) });
            compiled.seats.insert(name.clone(), share.as_ref().map_or(most, |share| share.seats));
            (name, Arc::new(Level { uid, share }))
        })
        .collect();
    for (name, (uid, spec)) in specs(store, FLOW_SCHEMAS, mandatory_schemas()) {
        // One whose level does not exist is about nothing, as its condition says.
        let Some(level) = levels.get(object::text(&spec, &["priorityLevelConfiguration", "name"])) else {
            continue;
        };
        let precedence = spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or(i64::MAX);
        let (rules, level) = (Rules::of(&spec), Arc::clone(level));
        compiled.flows.push(Arc::new(Flow { name, precedence, uid, rules, level }));
    }
    compiled.flows.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    compiled
}

fn is_exempt(spec: &Value) -> bool {
    spec.get("type").is_some_and(|kind| kind == "Exempt")
}

/// A part of the seats, rounded up.
fn share_of(seats: usize, shares: usize, all: usize) -> usize {
    // Shares are 32-bit numbers, so a product with a number of seats fits.
    (seats as u128 * shares as u128).div_ceil((all as u128).max(1)).try_into().unwrap_or(seats)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Action, Expect, Key, Storage, Write};

    async fn put(store: &Store, plural: &str, name: &str, spec: Value) {
        let key = Key::new(resource(plural), "", name);
        let value = json!({"metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": spec});
        let expect = store.get(&key).map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
        let action = Action::Put(value);
        store.write(Write { key, expect, action, guards: Vec::new() }).await.unwrap();
    }

    fn schema(precedence: i64, level: &str, user: &str) -> Value {
        json!({
            "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": user}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        })
    }

    fn limited(shares: u32) -> Value {
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares}})
    }

    const VERSION: Access<'_> = Access::Path { verb: "get", path: "/version" };

    #[tokio::test]
    async fn the_first_schema_with_a_level_wins() {
        let store = Store::open(&Storage::Memory, 100).unwrap().start(Box::new(|_| {})).unwrap();
        let flows = Flows::new(&store, 32);
        let classified = |user: &User| {
            let found = flows.classify(&store, user, &VERSION).unwrap();
            (found.0.name.clone(), found.share().map(|share| share.seats))
        };
        let user = User::new("u", ["g"]);
        assert_eq!(classified(&user), ("catch-all".to_owned(), Some(32)));
        assert_eq!(classified(&User::admin()), ("exempt".to_owned(), None));
        assert_eq!(classified(&User::unknown()).0, "catch-all", "a user in no group has a level, too");
        put(&store, FLOW_SCHEMAS, "b", schema(1000, "low", "u")).await;
        assert_eq!(classified(&user).0, "catch-all", "its level does not exist");
        put(&store, PRIORITY_LEVELS, "low", limited(1)).await;
        assert_eq!(classified(&user), ("b".to_owned(), Some(6)));
        assert_eq!(classified(&User::new("v", ["g"])), ("catch-all".to_owned(), Some(27)));
        put(&store, FLOW_SCHEMAS, "a", schema(1000, "exempt", "u")).await;
        assert_eq!(classified(&user), ("a".to_owned(), None), "of equal precedence, by name");
        put(&store, FLOW_SCHEMAS, "z", schema(999, "low", "*")).await;
        assert_eq!(classified(&user).0, "z");
        assert_eq!(classified(&User::unknown()).0, "z");
        let mut headers = HeaderMap::new();
        flows.classify(&store, &user, &VERSION).unwrap().note(&mut headers);
        assert_eq!(headers[SCHEMA_HEADER], "uid-of-z");
        assert_eq!(headers[LEVEL_HEADER], "uid-of-low");
    }

    #[tokio::test]
    async fn schemas_are_compiled_when_they_change() {
        let store = Store::open(&Storage::Memory, 100).unwrap().start(Box::new(|_| {})).unwrap();
        let flows = Flows::new(&store, 32);
        let first = flows.compiled(&store);
        let other = Key::new(GroupResource::new("", "others"), "", "o");
        let action = Action::Put(json!({}));
        store.write(Write { key: other, expect: Expect::Absent, action, guards: Vec::new() }).await.unwrap();
        assert!(Arc::ptr_eq(&first, &flows.compiled(&store)));
        put(&store, PRIORITY_LEVELS, "low", limited(1)).await;
        assert!(!Arc::ptr_eq(&first, &flows.compiled(&store)));
    }

    #[test]
    fn every_limited_level_has_a_seat() {
        assert_eq!(
            [(1, 6), (5, 6), (0, 5), (5, 5), (0, 0)].map(|(own, all)| share_of(32, own, all)),
            [6, 27, 0, 32, 0]
        );
        assert_eq!(share_of(usize::MAX, 4_000_000_000, 4_000_000_000), usize::MAX);
    }
}
