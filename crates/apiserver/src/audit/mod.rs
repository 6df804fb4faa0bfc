//! The audit log: each request with its user and its response code, as one line of JSON in the form of
//! `audit.k8s.io/v1`, level Metadata; a watch has two, at its start and its end. An audit policy ([`policy`]) changes
//! that. Content of objects is recorded only if the policy or an audit annotation of a ValidatingAdmissionPolicy
//! requires it.
//!
//! Lines go through a bounded queue to a thread that writes them. Requests wait while it is full, so that a client
//! cannot hide requests in a flood; lines are lost only if the file cannot be written, which is logged.

mod objects;

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use bytes::Bytes;
use capstan_files::{RotatingFile, Rotation};
use http::{Response, header::USER_AGENT};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    audit_policy::{AuditPolicy, Decision, Level, Stage},
    options::Clock,
    rbac::Access,
    request::{Head, Query, RequestInfo, body::media_type},
    response_body::Body,
    sender::Sender,
    user::User,
};
use objects::Recorded;

/// Eleven files of 100 MB: weeks of a settled fleet. A client that floods the log replaces its oldest lines.
const ROTATION: Rotation = Rotation { bytes: 100_000_000, files: 10 };
/// As many lines as may wait to be written.
const QUEUE: usize = 1024;
/// The most of a path or a header that is noted.
const LONGEST: usize = 1024;
/// Parameters whose values say how something was asked, and nothing of what is in objects.
const HARMLESS: [&str; 15] = [
    "allowWatchBookmarks",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "includeObject",
    "limit",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
    "watch",
];
/// Parameters that are named, without their values: those may be labels or fields of objects.
const NAMED: [&str; 4] = ["continue", "fieldSelector", "labelSelector", "orphanDependents"];

/// The log, open.
pub(crate) struct Audit {
    policy: Option<AuditPolicy>,
    lines: Mutex<Option<mpsc::Sender<String>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Audit {
    /// Opens the file, which only its owner may read, to write at its end.
    pub(crate) fn open(path: &Path, policy: Option<AuditPolicy>) -> io::Result<Self> {
        let file = RotatingFile::open(path, 0o600, ROTATION)?;
        let (lines, queue) = mpsc::channel(QUEUE);
        let thread =
            thread::Builder::new().name("apiserver-audit".to_owned()).spawn(move || write(queue, file))?;
        Ok(Self { policy, lines: Mutex::new(Some(lines)), thread: Mutex::new(Some(thread)) })
    }

    /// What is recorded of a request; nothing if the policy says so.
    pub(crate) fn entry(
        &self,
        id: &str,
        sender: &Sender,
        acting: Option<&User>,
        head: &Head,
        now: Timestamp,
    ) -> Option<Entry> {
        let decision = self.decide(&sender.user, head);
        (decision.level > Level::None).then(|| Entry::new(id, decision, sender, acting, head, now))
    }

    /// Without a policy, one line for each request, without bodies.
    fn decide(&self, user: &User, head: &Head) -> Decision {
        let Some(policy) = &self.policy else {
            let omitted = vec![Stage::RequestReceived];
            return Decision { level: Level::Metadata, omitted, omit_managed_fields: false };
        };
        match &head.info {
            Some(RequestInfo::Resource(request)) => policy.decide(user, &request.access()),
            Some(RequestInfo::Other) | None => {
                let verb = head.parts.method.as_str().to_lowercase();
                policy.decide(user, &Access::Path { verb: &verb, path: head.parts.uri.path() })
            }
        }
    }

    fn queue(&self) -> Option<mpsc::Sender<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a line, as soon as there is room for it.
    pub(crate) async fn note(&self, line: String) {
        if let Some(queue) = self.queue() {
            // Nobody listens any more only when the server has ended.
            _ = queue.send(line).await;
        }
    }

    /// The same from where nobody can wait.
    fn note_later(&self, line: String) {
        let Some(queue) = self.queue() else { return };
        if let Err(mpsc::error::TrySendError::Full(line)) = queue.try_send(line)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { _ = queue.send(line).await });
        }
    }

    /// Writes what is left.
    pub(crate) fn close(&self) {
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            _ = thread.join();
        }
    }
}

fn write(mut queue: mpsc::Receiver<String>, mut file: RotatingFile) {
    let mut failed = false;
    while let Some(line) = queue.blocking_recv() {
        let written = file
            .write_line(line.as_bytes())
            .and_then(|()| if queue.is_empty() { file.flush() } else { Ok(()) });
        match written {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                tracing::error!(%error, "cannot write the audit log");
                failed = true;
            }
            Err(_) => {}
        }
    }
}

/// What is noted of one request.
#[derive(Clone)]
pub(crate) struct Entry {
    event: Value,
    decision: Decision,
    /// Whether it is about a resource. Bodies of other requests are not objects, and may be keys or a backup.
    is_resource: bool,
    /// Of the body of the request.
    media_type: String,
    /// The body of the request, if it is to be recorded.
    body: Arc<OnceLock<Bytes>>,
}

impl Entry {
    /// What can be said when a request comes in.
    fn new(
        id: &str,
        decision: Decision,
        sender: &Sender,
        acting: Option<&User>,
        head: &Head,
        now: Timestamp,
    ) -> Self {
        let Head { parts, query, info } = head;
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": decision.level.as_str(), "auditID": id, "stage": "",
            "requestURI": uri(parts.uri.path(), query), "verb": parts.method.as_str().to_lowercase(), "user": sender.user.info(),
        });
        if let Some(acting) = acting.filter(|acting| **acting != sender.user) {
            event["impersonatedUser"] = acting.info();
        }
        if let Some(address) = sender.address {
            event["sourceIPs"] = json!([address]);
        }
        if let Some(agent) = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()) {
            event["userAgent"] = cut(agent).into();
        }
        if let Some(RequestInfo::Resource(request)) = info {
            event["verb"] = request.verb.as_str().into();
            let fields = [
                ("resource", &request.resource),
                ("namespace", &request.namespace),
                ("name", &request.name),
                ("apiGroup", &request.group),
                ("apiVersion", &request.version),
                ("subresource", &request.subresource),
            ];
            let said = fields.into_iter().filter(|(_, text)| !text.is_empty());
            event["objectRef"] =
                said.map(|(field, text)| (field.to_owned(), Value::from(cut(text)))).collect();
        }
        event["requestReceivedTimestamp"] = micro(now).into();
        let is_resource = matches!(info, Some(RequestInfo::Resource(_)));
        let media_type = media_type(&parts.headers).to_owned();
        Self { event, decision, is_resource, media_type, body: Arc::default() }
    }

    /// Where to put the body of the request, if it is to be recorded.
    pub(crate) fn body(&self) -> Option<Arc<OnceLock<Bytes>>> {
        (self.is_resource && self.decision.level >= Level::Request).then(|| Arc::clone(&self.body))
    }

    /// Notes that the request has come in.
    pub(crate) async fn received(&self, audit: &Audit) {
        self.note(audit, Stage::RequestReceived, |event| {
            event["stageTimestamp"] = event["requestReceivedTimestamp"].clone();
        })
        .await;
    }

    /// Adds the bodies that the policy asks for. Watches have no object in their response.
    pub(crate) async fn add_objects(&mut self, response: Response<Body>, watching: bool) -> Response<Body> {
        let omit = self.decision.omit_managed_fields;
        if let Some(bytes) = self.body.get() {
            let recorded = objects::recorded(&self.media_type, bytes, omit);
            self.add_object("requestObject", recorded);
        }
        if !self.is_resource || watching || self.decision.level < Level::RequestResponse {
            return response;
        }
        let (response, recorded) = objects::of_response(response, omit).await;
        self.add_object("responseObject", recorded);
        response
    }

    fn add_object(&mut self, field: &str, recorded: Recorded) {
        match recorded {
            Recorded::Nothing => {}
            Recorded::Object(object) => self.event[field] = object,
            // The annotation that kube-apiserver has for it.
            Recorded::TooLarge => self.event["annotations"]["audit.k8s.io/truncated"] = "true".into(),
        }
    }

    /// Adds what policies note: the only content of objects in the log, and only as a policy says.
    pub(crate) fn annotate(&mut self, annotations: &BTreeMap<String, String>) {
        for (key, value) in annotations {
            self.event["annotations"][key] = value.as_str().into();
        }
    }

    /// The line for a stage, unless the policy omits it.
    fn line(&self, stage: Stage, complete: impl FnOnce(&mut Value)) -> Option<String> {
        if self.decision.omitted.contains(&stage) {
            return None;
        }
        let mut event = self.event.clone();
        event["stage"] = stage.as_str().into();
        complete(&mut event);
        Some(format!("{event}\n"))
    }

    async fn note(&self, audit: &Audit, stage: Stage, complete: impl FnOnce(&mut Value)) {
        if let Some(line) = self.line(stage, complete) {
            audit.note(line).await;
        }
    }

    /// Notes that the request has been answered, or that a watch has begun; what it gives says that it has ended.
    pub(crate) async fn answered(
        self,
        clock: &Clock,
        audit: &Arc<Audit>,
        code: u16,
        watching: bool,
    ) -> Option<Ending> {
        let stage = if watching { Stage::ResponseStarted } else { Stage::ResponseComplete };
        self.note(audit, stage, status(code, clock())).await;
        watching.then(|| Ending { clock: Arc::clone(clock), audit: Arc::clone(audit), entry: self, code })
    }
}

/// A watch that goes on; dropped at its end.
pub(crate) struct Ending {
    clock: Clock,
    audit: Arc<Audit>,
    entry: Entry,
    code: u16,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let line = self.entry.line(Stage::ResponseComplete, status(self.code, (self.clock)()));
        if let Some(line) = line {
            self.audit.note_later(line);
        }
    }
}

/// Says what the response was.
fn status(code: u16, now: Timestamp) -> impl FnOnce(&mut Value) {
    move |event| {
        event["responseStatus"] = json!({"metadata": {}, "code": code});
        event["stageTimestamp"] = micro(now).into();
    }
}

fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The path, and of the query what tells nothing about objects.
fn uri(path: &str, query: &Query) -> String {
    let mut shown = Vec::new();
    for (name, value) in query.pairs() {
        if HARMLESS.contains(&name) {
            shown.push(format!(
                "{name}={}",
                form_urlencoded::byte_serialize(cut(value).as_bytes()).collect::<String>()
            ));
        } else if NAMED.contains(&name) {
            shown.push(format!("{name}=..."));
        }
    }
    let path = cut(path);
    if shown.is_empty() { path } else { format!("{path}?{}", shown.join("&")) }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn what_may_be_secret_is_left_out_of_the_query() {
        let query =
            Query::parse(Some("watch=true&labelSelector=a%3Dplanted&token=planted&limit=5&planted=1"));
        assert_eq!(uri("/api/v1/pods", &query), "/api/v1/pods?watch=true&labelSelector=...&limit=5");
        assert_eq!(uri("/api", &Query::parse(None)), "/api");
        assert_eq!(micro("2026-01-01T00:00:00Z".parse().unwrap()), "2026-01-01T00:00:00.000000Z");
    }

    #[tokio::test]
    async fn whoever_makes_many_requests_waits_for_their_traces() {
        let (lines, mut queue) = mpsc::channel(1);
        let audit = Audit { policy: None, lines: Mutex::new(Some(lines)), thread: Mutex::new(None) };
        audit.note("1".to_owned()).await;
        let mut second = Box::pin(audit.note("2".to_owned()));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(queue.recv().await.unwrap(), "1");
        second.await;
        assert_eq!(queue.recv().await.unwrap(), "2");
    }

    #[test]
    fn a_full_disk_ends_nothing() {
        let (lines, queue) = mpsc::channel(2);
        for line in ["1\n", "2\n"] {
            lines.try_send(line.to_owned()).unwrap();
        }
        drop(lines);
        // With the mode that the device has.
        write(queue, RotatingFile::open(Path::new("/dev/full"), 0o666, ROTATION).unwrap());
    }
}
