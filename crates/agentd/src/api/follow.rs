//! Follows one object: reads it, watches it from its resource version, and starts again when the watch cannot continue.

use bytes::Bytes;
use capstan_agent::https::Connection;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::Value;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::timeout;

use super::{ANSWERING, Api, ApiError, Client, LONGEST, refused};
use crate::backoff::Backoff;

/// How long a watch lasts before it is asked for anew, at least.
const WATCHING: u64 = 300;

/// A watch that says nothing for so long after it should have ended has gone away without a word.
const SILENCE: Duration = Duration::from_secs(2 * WATCHING + 60);

/// Follows the object of this name in a collection. `on` is told what it is, or that there is none, each time it is
/// looked at or changes, until it says that it has seen enough; `note` how it goes with the connection.
pub(crate) async fn follow(
    client: &Client,
    collection: &str,
    name: &str,
    mut on: impl FnMut(Option<Value>) -> ControlFlow<()>,
    note: impl Fn(Result<(), &ApiError>),
) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let query = format!("{collection}?fieldSelector=metadata.name%3D{name}");
    loop {
        let mut seen = || {
            note(Ok(()));
            backoff.succeeded();
        };
        match session(client, &query, &mut on, &mut seen).await {
            Ok(ControlFlow::Break(())) => return,
            // What we know is too old to go on from: look again, but not in step with everybody else.
            Ok(ControlFlow::Continue(())) => {}
            Err(error) => note(Err(&error)),
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn session(
    client: &Client,
    query: &str,
    on: &mut impl FnMut(Option<Value>) -> ControlFlow<()>,
    seen: &mut impl FnMut(),
) -> Result<ControlFlow<()>, ApiError> {
    let mut list = client.api().get(query).await?;
    seen();
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut from = version(&list);
    let first = list["items"].as_array_mut().and_then(Vec::pop);
    if on(first).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    loop {
        let lasting = WATCHING + rand::random_range(0..WATCHING);
        let path = format!(
            "{query}&watch=true&allowWatchBookmarks=true&timeoutSeconds={lasting}&resourceVersion={from}"
        );
        let mut watch = match Watch::open(&client.api(), &path).await {
            Err(error) if error.is_status(410) => return Ok(ControlFlow::Continue(())),
            opened => opened?,
        };
        seen();
        let begun = tokio::time::Instant::now();
        while let Some(mut event) = watch.next().await? {
            let object = event["object"].take();
            let is_enough = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => {
                    from = version(&object);
                    on(Some(object))
                }
                Some("DELETED") => {
                    from = version(&object);
                    on(None)
                }
                Some("BOOKMARK") => {
                    from = version(&object);
                    ControlFlow::Continue(())
                }
                Some("ERROR") if object["code"] == 410 => return Ok(ControlFlow::Continue(())),
                _ => {
                    let said = object["message"].as_str().unwrap_or("an event of no kind");
                    return Err(ApiError::Answer(said.chars().take(512).collect()));
                }
            };
            if is_enough.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if begun.elapsed() < Duration::from_secs(1) {
            // Whoever hangs up at once should not be asked again at once.
            return Ok(ControlFlow::Continue(()));
        }
    }
}

/// Events, as they come.
struct Watch {
    // Held: without it nothing more comes.
    _connection: Connection,
    body: Incoming,
    rest: Vec<u8>,
}

impl Watch {
    async fn open(api: &Api, path: &str) -> Result<Self, ApiError> {
        let mut connection = api.connect().await?;
        let request = api.request(Method::GET, path, None)?;
        let late =
            |_| ApiError::Connection(io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time"));
        let answer = timeout(ANSWERING, connection.send(request)).await.map_err(late)?;
        let answer = answer.map_err(ApiError::Connection)?;
        let status = answer.status();
        if !status.is_success() {
            let body = timeout(ANSWERING, answer.into_body().collect()).await.map_err(late)?;
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(refused(status, &body));
        }
        Ok(Self { _connection: connection, body: answer.into_body(), rest: Vec::new() })
    }

    /// The next event; nothing when the watch has ended.
    async fn next(&mut self) -> Result<Option<Value>, ApiError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                // What was a large event should not be remembered as room for the next.
                self.rest.shrink_to(4096);
                let event =
                    serde_json::from_slice(&line).map_err(|error| ApiError::Answer(error.to_string()))?;
                return Ok(Some(event));
            }
            if self.rest.len() > LONGEST {
                return Err(ApiError::Answer("an event is too long".to_owned()));
            }
            let frame = timeout(SILENCE, self.body.frame()).await;
            let gone = || ApiError::Connection(io::Error::new(io::ErrorKind::TimedOut, "nothing more comes"));
            match frame.map_err(|_| gone())? {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(|error| ApiError::Connection(io::Error::other(error)))?;
                    let data: Bytes = frame.into_data().unwrap_or_default();
                    self.rest.extend_from_slice(&data);
                }
            }
        }
    }
}
