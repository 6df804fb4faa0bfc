//! The server without a socket: a tower service that answers as a given user.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::sync::watch;
use tower_service::Service;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    auth::impersonate,
    dispatch::{self, Annotations},
    flow::Classification,
    metrics::Labels,
    plane::Plane,
    rbac::Access,
    request::{Head, RequestInfo, negotiate::Format},
    respond::{self, Body},
    sender::Sender,
    status::{ApiError, Result},
    unread_body::Unread,
    user::User,
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
        let (parts, body) = request.into_parts();
        Box::pin(async move { Ok(respond(&plane, &sender, Head::parse(parts), body, shutdown).await) })
    }
}

/// Answers.
pub(crate) async fn respond<B>(
    plane: &Arc<Plane>,
    sender: &Sender,
    head: Head,
    body: B,
    shutdown: watch::Receiver<bool>,
) -> Response<Body>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let started = Instant::now();
    let (verb, group, resource) = kind_of(plane, head.info.as_ref());
    let watching = (verb == "watch").then(|| plane.metrics.watch());
    let guard = guarded(plane, sender, &head);
    let id = Uuid::new_v4().to_string();
    let acting = impersonate::user(&plane.store, sender.user.clone(), &head.parts.headers);
    let entry = plane.audit.as_ref().and_then(|audit| {
        let entry = audit.entry(&id, sender, acting.as_ref().ok(), &head, plane.now())?;
        Some((audit, entry))
    });
    if let Some((audit, entry)) = &entry {
        entry.received(audit).await;
    }
    let record = entry.as_ref().and_then(|(_, entry)| entry.body());
    let class = acting.as_ref().ok().and_then(|user| classified(plane, user, &head));
    let share = class.as_ref().and_then(Classification::share);
    let stall_timeout = plane.limits.stall_timeout;
    let body = Unread { body, pass: sender.pass.as_ref(), share, record: record.as_deref(), stall_timeout };
    let format = Format::of_errors(&head.parts.headers);
    let mut response = match acting {
        // What is logged on the way can be told from other requests, and found again by the `audit-id` of the answer.
        Ok(user) => {
            let span = tracing::debug_span!("request", id);
            dispatch::handle(plane, user, head, body, shutdown).instrument(span).await
        }
        Err(error) => respond::error(&error, format),
    };
    dispatch::audit(&mut response, &id);
    if let Some(class) = class {
        class.note(response.headers_mut());
    }
    let code = response.status().as_u16();
    tracing::debug!(id, verb, group, resource, code, user = sender.user.name, took = ?started.elapsed(), "answered");
    plane.metrics.note(Labels { verb, group, resource, code }, started.elapsed());
    let ending = match entry {
        Some((audit, mut entry)) => {
            let watching = verb == "watch" && code == 200;
            entry.annotate(&response.extensions_mut().remove::<Annotations>().unwrap_or_default().0);
            response = entry.add_objects(response, watching).await;
            entry.answered(&plane.clock, audit, code, watching).await
        }
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

/// What priority and fairness make of a request.
fn classified(plane: &Plane, user: &User, head: &Head) -> Option<Classification> {
    match head.info.as_ref()? {
        RequestInfo::Resource(request) => plane.flows.classify(&plane.store, user, &request.access()),
        RequestInfo::Other => {
            let (verb, path) = (head.parts.method.as_str().to_lowercase(), head.parts.uri.path());
            plane.flows.classify(&plane.store, user, &Access::Path { verb: &verb, path })
        }
    }
}

/// What a watch is guarded by. Clients in this process cannot lose their rights.
fn guarded(plane: &Arc<Plane>, sender: &Sender, head: &Head) -> Option<GuardedWatch> {
    let (Some(RequestInfo::Resource(request)), Some(certificate)) = (&head.info, &sender.certificate) else {
        return None;
    };
    head.is_watch().then(|| GuardedWatch {
        plane: Arc::clone(plane),
        certificate: certificate.clone(),
        headers: head.parts.headers.clone(),
        user: sender.user.clone(),
        request: request.clone(),
    })
}

/// Answers whoever is not let in.
pub(crate) async fn refuse(
    plane: &Arc<Plane>,
    sender: &Sender,
    head: &Head,
    error: &ApiError,
) -> Response<Body> {
    let id = Uuid::new_v4().to_string();
    let mut response = respond::error(error, Format::of_errors(&head.parts.headers));
    dispatch::audit(&mut response, &id);
    if let Some(audit) = &plane.audit
        && let Some(entry) = audit.entry(&id, sender, None, head, plane.now())
    {
        entry.received(audit).await;
        entry.answered(&plane.clock, audit, response.status().as_u16(), false).await;
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
