//! Counts requests from an audit log: lines of `audit.k8s.io/v1`, as kube-apiserver and the embedded plane write them.
//! This module does no I/O.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

/// Verbs that change objects.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// Groups whose objects are answers: creating one stores nothing.
const ANSWERS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// The counted properties of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// As in RBAC: `get`, `list`, `patch`.
    pub verb: Cow<'a, str>,
    /// The resource in the plural, with its subresource: `machines/status`. For other requests, the path.
    pub kind: String,
    /// HTTP status.
    pub code: u16,
    /// The user name of the client.
    pub user: Cow<'a, str>,
    /// The client's user agent, if it sent one.
    pub agent: Option<Cow<'a, str>>,
    /// Whether the client is in another process than the server.
    pub is_remote: bool,
    /// Whether the request stores nothing although it has a verb of a write: a dry run, or a request whose result is
    /// only returned, such as a review.
    pub stores_nothing: bool,
}

impl Request<'_> {
    /// Whether the request writes an object.
    pub fn is_write(&self) -> bool {
        WRITES.contains(&self.verb.as_ref()) && !self.stores_nothing
    }

    /// Whether it renews a Lease: a heartbeat, whose rate depends on time and not on changes.
    pub fn is_heartbeat(&self) -> bool {
        self.kind == "leases" && matches!(self.verb.as_ref(), "update" | "patch")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow, rename = "requestURI")]
    uri: Cow<'a, str>,
    #[serde(borrow)]
    user: User<'a>,
    #[serde(borrow)]
    user_agent: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sourceIPs")]
    addresses: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    object_ref: Option<Object<'a>>,
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow, default)]
    username: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(borrow, default)]
    resource: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    api_group: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// Parses one line. `None` for a line that does not count: a watch is counted when it begins, any other request when it
/// has been answered.
///
/// # Errors
/// If the line is not an event of an audit log.
pub fn parse(line: &str) -> Result<Option<Request<'_>>, serde_json::Error> {
    let line: Line<'_> = serde_json::from_str(line)?;
    let counted = if line.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    let code = line.response_status.map_or(0, |status| status.code);
    // A watch that is rejected never starts.
    if line.stage != counted && !(line.verb == "watch" && line.stage == "ResponseComplete" && code >= 300) {
        return Ok(None);
    }
    let path = line.uri.split('?').next().unwrap_or_default();
    let (kind, group, subresource) = match &line.object_ref {
        Some(object) if object.subresource.is_empty() => {
            (object.resource.to_string(), object.api_group.as_ref(), "")
        }
        Some(object) => (
            format!("{}/{}", object.resource, object.subresource),
            object.api_group.as_ref(),
            object.subresource.as_ref(),
        ),
        None => (path.to_owned(), "", ""),
    };
    let stores_nothing = line.uri.contains("dryRun=") || ANSWERS.contains(&group) || subresource == "token";
    Ok(Some(Request {
        kind,
        code,
        stores_nothing,
        is_remote: line.addresses.is_some(),
        verb: line.verb,
        user: line.user.username,
        agent: line.user_agent,
    }))
}

/// Numbers of requests of one verb and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All requests.
    pub requests: u64,
    /// Writes, including those that changed nothing.
    pub writes: u64,
    /// Requests that were answered with 409.
    pub conflicts: u64,
    /// Requests that renewed a Lease.
    pub heartbeats: u64,
}

impl Tally {
    fn plus(&mut self, other: Self) {
        self.requests += other.requests;
        self.writes += other.writes;
        self.conflicts += other.conflicts;
        self.heartbeats += other.heartbeats;
    }
}

/// Requests by verb and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(String, String), Tally>);

impl Counts {
    /// Counts one request.
    pub fn add(&mut self, request: &Request<'_>) {
        let (write, heartbeat) = (request.is_write() && request.code < 300, request.is_heartbeat());
        self.0.entry((request.verb.to_string(), request.kind.clone())).or_default().plus(Tally {
            requests: 1,
            writes: u64::from(write && !heartbeat),
            conflicts: u64::from(request.code == 409),
            heartbeats: u64::from(write && heartbeat),
        });
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        for (key, tally) in &other.0 {
            self.0.entry(key.clone()).or_default().plus(*tally);
        }
    }

    /// The sum of all counts.
    pub fn total(&self) -> Tally {
        let mut sum = Tally::default();
        self.0.values().for_each(|tally| sum.plus(*tally));
        sum
    }

    /// The sum for each verb, the most frequent first.
    pub fn by_verb(&self) -> Vec<(String, Tally)> {
        let mut sums = BTreeMap::<String, Tally>::new();
        for ((verb, _), tally) in &self.0 {
            sums.entry(verb.clone()).or_default().plus(*tally);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.requests));
        sums
    }

    /// The most frequent verbs and kinds, by the number that `of` returns.
    pub fn top(&self, most: usize, of: fn(&Tally) -> u64) -> Vec<(&str, &str, Tally)> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .filter(|(_, tally)| of(tally) > 0)
            .map(|((verb, kind), tally)| (verb.as_str(), kind.as_str(), *tally))
            .collect();
        all.sort_by_key(|(.., tally)| std::cmp::Reverse(of(tally)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, uri: &str, object: &str, code: u16) -> String {
        format!(
            r#"{{"kind":"Event","stage":"{stage}","requestURI":"{uri}","verb":"{verb}","user":{{"username":"core","groups":["a"]}},"userAgent":"x","sourceIPs":["127.0.0.1"],{object}"responseStatus":{{"metadata":{{}},"code":{code}}}}}"#
        )
    }

    fn machine(subresource: &str) -> String {
        format!(
            r#""objectRef":{{"resource":"machines","apiGroup":"cluster.x-k8s.io","subresource":"{subresource}"}},"#
        )
    }

    #[test]
    fn a_request_is_read() {
        let text = line("ResponseComplete", "patch", "/apis/x?fieldManager=a", &machine("status"), 200);
        let request = parse(&text).unwrap().unwrap();
        assert_eq!((request.verb.as_ref(), request.kind.as_str()), ("patch", "machines/status"));
        assert_eq!((request.user.as_ref(), request.agent.as_deref()), ("core", Some("x")));
        assert!(request.is_write() && request.is_remote && !request.is_heartbeat());
        let text = line("ResponseComplete", "get", "/readyz?verbose", "", 200);
        assert_eq!(parse(&text).unwrap().unwrap().kind, "/readyz");
        assert!(parse("{}").is_err());
    }

    #[test]
    fn each_request_is_counted_once() {
        let counted = |stage: &str, verb: &str, code: u16| {
            parse(&line(stage, verb, "/x", &machine(""), code)).unwrap().is_some()
        };
        assert!(counted("ResponseComplete", "get", 200) && !counted("RequestReceived", "get", 200));
        assert!(counted("ResponseStarted", "watch", 200) && !counted("ResponseComplete", "watch", 200));
        assert!(counted("ResponseComplete", "watch", 410));
    }

    #[test]
    fn what_stores_nothing_is_no_write() {
        let is_write = |uri: &str, object: &str| {
            parse(&line("ResponseComplete", "create", uri, object, 201)).unwrap().unwrap().is_write()
        };
        assert!(is_write("/x", &machine("")) && !is_write("/x?dryRun=All", &machine("")));
        let object = r#""objectRef":{"resource":"serviceaccounts","subresource":"token"},"#;
        assert!(!is_write("/x", object));
        let object = r#""objectRef":{"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io"},"#;
        assert!(!is_write("/x", object));
    }

    #[test]
    fn conflicts_are_no_writes_and_heartbeats_are_apart() {
        let mut counts = Counts::default();
        let mut add = |verb: &str, object: &str, code| {
            counts.add(&parse(&line("ResponseComplete", verb, "/x", object, code)).unwrap().unwrap());
        };
        add("patch", &machine("status"), 200);
        add("patch", &machine("status"), 409);
        add("get", &machine(""), 200);
        add("update", r#""objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io"},"#, 200);
        let expected = Tally { requests: 4, writes: 1, conflicts: 1, heartbeats: 1 };
        assert_eq!(counts.total(), expected);
        let verbs: Vec<_> =
            counts.by_verb().into_iter().map(|(verb, tally)| (verb, tally.requests)).collect();
        assert_eq!(verbs[0], ("patch".to_owned(), 2));
        let top = counts.top(5, |tally| tally.writes);
        assert_eq!(top.len(), 1);
        assert_eq!((top[0].0, top[0].1), ("patch", "machines/status"));
        let mut twice = counts.clone();
        twice.merge(&counts);
        assert_eq!(twice.total().requests, 8);
    }
}
