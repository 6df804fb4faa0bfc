//! The audit log: who asked for what, and what came of it; never what was in it, unless an audit annotation of a
//! ValidatingAdmissionPolicy says so. One line of JSON for each request in the form of
//! `audit.k8s.io/v1`, level Metadata; a watch has two, when it begins and when it ends.
//!
//! Lines go through a bounded queue to a thread that writes them. Requests wait while it is full, so that nobody gets rid of
//! traces by making many; only if the file itself cannot be written are lines lost, which is logged.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use capstan_files::{RotatingFile, Rotation};
use http::header::USER_AGENT;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    auth::User,
    options::Clock,
    request::{Head, Query, RequestInfo},
    sender::Sender,
};

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
    lines: Mutex<Option<mpsc::Sender<String>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Audit {
    /// Opens the file, which only its owner may read, to write at its end.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = RotatingFile::open(path, 0o600, ROTATION)?;
        let (lines, queue) = mpsc::channel(QUEUE);
        let thread =
            thread::Builder::new().name("apiserver-audit".to_owned()).spawn(move || write(queue, file))?;
        Ok(Self { lines: Mutex::new(Some(lines)), thread: Mutex::new(Some(thread)) })
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
}

impl Entry {
    /// What can be said when a request comes in.
    pub(crate) fn new(id: &str, sender: &Sender, acting: Option<&User>, head: &Head, now: Timestamp) -> Self {
        let Head { parts, query, info } = head;
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id, "stage": "",
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
        Self { event }
    }

    /// Adds what policies note: the only content of objects in the log, and only as a policy says.
    pub(crate) fn annotate(&mut self, annotations: &BTreeMap<String, String>) {
        if !annotations.is_empty() {
            self.event["annotations"] = json!(annotations);
        }
    }

    /// The line for a stage.
    fn line(&self, stage: &str, code: u16, now: Timestamp) -> String {
        let mut event = self.event.clone();
        event["stage"] = stage.into();
        event["responseStatus"] = json!({"metadata": {}, "code": code});
        event["stageTimestamp"] = micro(now).into();
        format!("{event}\n")
    }

    /// Notes that the request has been answered, or that a watch has begun; what it gives says that it has ended.
    pub(crate) async fn answered(
        self,
        clock: &Clock,
        audit: &Arc<Audit>,
        code: u16,
        watching: bool,
    ) -> Option<Ending> {
        let stage = if watching { "ResponseStarted" } else { "ResponseComplete" };
        audit.note(self.line(stage, code, clock())).await;
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
        self.audit.note_later(self.entry.line("ResponseComplete", self.code, (self.clock)()));
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
        let audit = Audit { lines: Mutex::new(Some(lines)), thread: Mutex::new(None) };
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
