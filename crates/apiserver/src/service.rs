//! The server without a socket: a tower service that answers as a given user.

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, BodyStream, LengthLimitError, Limited, StreamBody};
use tokio::sync::watch;
use tower_service::Service;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    audit::Entry,
    auth::{User, authenticate::ClientCertificate, impersonate},
    dispatch,
    fair_seats::Seat,
    limits::{MOST_BYTES, Pass},
    metrics::Labels,
    plane::Plane,
    request::{Query, RequestInfo, Verb},
    respond::{self, Body},
    status::{ApiError, Result},
    watch_guard::GuardedWatch,
};

/// Serves requests of this process as one user. See [`crate::ApiServer::service`].
#[derive(Clone)]
pub struct InProcess {
    pub(crate) plane: Arc<Plane>,
    pub(crate) user: User,
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { plane, user, shutdown } = self.clone();
        let sender = Sender { user, pass: None, address: None, certificate: None };
        Box::pin(async move { Ok(respond(&plane, &sender, request, shutdown).await) })
    }
}

/// Who sends a request, and what has let it in.
pub(crate) struct Sender {
    pub(crate) user: User,
    pub(crate) pass: Option<Pass>,
    /// `None` for a client in this process.
    pub(crate) address: Option<IpAddr>,
    /// Of its connection. `None` for a client in this process, which needs no credential.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// Answers.
pub(crate) async fn respond<B>(
    plane: &Arc<Plane>,
    sender: &Sender,
    request: Request<B>,
    shutdown: watch::Receiver<bool>,
) -> Response<Body>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let started = Instant::now();
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), &Query::parse(parts.uri.query()));
    let (verb, group, resource) = kind_of(plane, info.as_ref());
    let watching = (verb == "watch").then(|| plane.metrics.watch());
    let guard = guarded(plane, sender, info, &parts.headers);
    let id = Uuid::new_v4().to_string();
    let acting = impersonate::user(plane, sender.user.clone(), &parts.headers);
    let entry = plane
        .audit
        .as_ref()
        .map(|audit| (audit, Entry::new(&id, sender, acting.as_ref().ok(), &parts, plane.now())));
    let body = Unread { body, pass: sender.pass.as_ref(), stall_timeout: plane.limits.stall_timeout };
    let mut response = match acting {
        // What is logged on the way can be told from other requests, and found again by the `audit-id` of the answer.
        Ok(user) => {
            let span = tracing::debug_span!("request", id);
            dispatch::handle(plane, user, parts, body, shutdown).instrument(span).await
        }
        Err(error) => respond::error(&error),
    };
    dispatch::audit(&mut response, &id);
    let code = response.status().as_u16();
    tracing::debug!(id, verb, group, resource, code, user = sender.user.name, took = ?started.elapsed(), "answered");
    plane.metrics.note(Labels { verb, group, resource, code }, started.elapsed());
    let ending = match entry {
        Some((audit, entry)) => entry.answered(plane, audit, code, verb == "watch" && code == 200).await,
        None => None,
    };
    if watching.is_none() {
        return response;
    }
    let held = (watching, ending);
    let response = response.map(|body| body.map_frame(move |frame| (&held, frame).1).boxed_unsync());
    match guard {
        Some(guard) if code == 200 => response
            .map(|body| StreamBody::new(BodyStream::new(body).take_until(guard.until_lost())).boxed_unsync()),
        _ => response,
    }
}

/// What a watch is guarded by. Clients in this process cannot lose their rights.
fn guarded(
    plane: &Arc<Plane>,
    sender: &Sender,
    info: Option<RequestInfo>,
    headers: &HeaderMap,
) -> Option<GuardedWatch> {
    let (Some(RequestInfo::Resource(request)), Some(certificate)) = (info, &sender.certificate) else {
        return None;
    };
    (request.verb == Verb::Watch).then(|| GuardedWatch {
        plane: Arc::clone(plane),
        certificate: certificate.clone(),
        headers: headers.clone(),
        user: sender.user.clone(),
        request,
    })
}

/// Answers whoever is not let in.
pub(crate) async fn refuse<B>(
    plane: &Arc<Plane>,
    sender: &Sender,
    request: Request<B>,
    error: &ApiError,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let id = Uuid::new_v4().to_string();
    let mut response = respond::error(error);
    dispatch::audit(&mut response, &id);
    if let Some(audit) = &plane.audit {
        let entry = Entry::new(&id, sender, None, &parts, plane.now());
        entry.answered(plane, audit, response.status().as_u16(), false).await;
    }
    response
}

/// What a request is counted as. Nothing that a client makes up: only what is served has a name.
fn kind_of(plane: &Plane, info: Option<&RequestInfo>) -> (&'static str, String, String) {
    match info {
        Some(RequestInfo::Resource(request)) => {
            match plane.registry().get(&request.group, &request.resource) {
                Some(_) => (request.verb.as_str(), request.group.clone(), request.resource.clone()),
                None => (request.verb.as_str(), String::new(), String::new()),
            }
        }
        Some(RequestInfo::Other) | None => ("other", String::new(), String::new()),
    }
}

/// A body that nobody has asked for yet: whoever may not do what the request wants has none read.
pub(crate) struct Unread<'a, B> {
    body: B,
    pass: Option<&'a Pass>,
    stall_timeout: Duration,
}

impl<B> Unread<'_, B>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads it whole, and waits until the request may be worked on.
    pub(crate) async fn read_and_sit(self) -> Result<(Bytes, Option<Seat>)> {
        let pass = self.pass;
        let bytes = self.read().await?;
        let seat = match pass {
            Some(pass) => pass.seat().await,
            None => None,
        };
        Ok((bytes, seat))
    }

    /// Reads it whole.
    pub(crate) async fn read(self) -> Result<Bytes> {
        let announced = self.body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        if let Some(pass) = self.pass {
            pass.weigh(announced.unwrap_or(MOST_BYTES).min(MOST_BYTES))?;
        }
        let collected = Limited::new(self.body, MOST_BYTES).collect();
        match tokio::time::timeout(self.stall_timeout, collected).await {
            Err(_) => Err(ApiError::too_slow()),
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MOST_BYTES)),
            Ok(Err(error)) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
        }
    }
}
