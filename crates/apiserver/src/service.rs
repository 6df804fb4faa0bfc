//! The server without a socket: a tower service that answers as a given user.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;
use tower_service::Service;

use crate::{
    auth::User,
    dispatch::{self, Incoming},
    metrics::Labels,
    plane::Plane,
    request::{Query, RequestInfo},
    respond::{self, Body},
    status::{ApiError, Result},
};

/// As upstream: more than any object may be.
const BODY_LIMIT: usize = 3 << 20;

/// Answers requests in this process, as one user. See [`crate::ApiServer::service`].
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
        Box::pin(async move { Ok(respond(&plane, &user, request, shutdown).await) })
    }
}

/// Reads the body and answers.
pub(crate) async fn respond<B>(
    plane: &Arc<Plane>,
    user: &User,
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
    let (verb, group, resource) = kind_of(plane, &parts);
    let watching = (verb == "watch").then(|| plane.metrics.watch());
    let mut response = match read(body).await {
        Ok(body) => {
            let incoming = Incoming { method: parts.method, uri: parts.uri, headers: parts.headers, body };
            dispatch::handle(plane, user, incoming, shutdown).await
        }
        Err(error) => respond::error(&error),
    };
    dispatch::audit(&mut response);
    let code = response.status().as_u16();
    plane.metrics.note(Labels { verb, group, resource, code }, started.elapsed());
    match watching {
        Some(watching) => {
            response.map(|body| body.map_frame(move |frame| (&watching, frame).1).boxed_unsync())
        }
        None => response,
    }
}

/// What a request is counted as. Nothing that a client makes up: only what is served has a name.
fn kind_of(plane: &Plane, parts: &http::request::Parts) -> (&'static str, String, String) {
    let query = Query::parse(parts.uri.query());
    match RequestInfo::parse(&parts.method, parts.uri.path(), &query) {
        Some(RequestInfo::Resource(request)) => {
            match plane.registry().get(&request.group, &request.resource) {
                Some(_) => (request.verb.as_str(), request.group, request.resource),
                None => (request.verb.as_str(), String::new(), String::new()),
            }
        }
        Some(RequestInfo::Other) | None => ("other", String::new(), String::new()),
    }
}

async fn read<B>(body: B) -> Result<Bytes>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_LIMIT)),
        Err(error) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
    }
}
