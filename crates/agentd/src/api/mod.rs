//! The few requests that an agent makes of its management plane, over TLS with the pinned authority.
//!
//! Three objects by their names, and nothing else: the Secret of its plan to read, the status of its report and its
//! Lease to write. A machine that dials out has one more: its registration.

mod follow;

pub(crate) use follow::follow;

use bytes::Bytes;
use capstan_agent::https::{Connection, Trust};
use capstan_agent::route::Route;
use capstan_plan::{HttpsUrl, SecretText};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(30);

/// An answer that is longer than this is none: an object has at most a megabyte and a half, and its plan is in base64.
const LONGEST: usize = 4 * 1024 * 1024;

const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Why there is no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nobody answers, or somebody else.
    #[error("cannot reach the management plane: {0}")]
    Connection(io::Error),
    /// It said no.
    #[error("the management plane answered {code}: {message}")]
    Refused {
        /// Status of the answer.
        code: u16,
        /// What it said.
        message: String,
    },
    /// It said something that nobody understands.
    #[error("the management plane's answer cannot be understood: {0}")]
    Answer(String),
}

impl ApiError {
    pub(crate) fn is_status(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }
}

/// The management plane, as somebody it knows.
pub(crate) struct Api {
    server: HttpsUrl,
    trust: Trust,
    route: Route,
    /// What we show: the enrolment token, and later our own.
    token: Option<SecretText>,
    /// A connection that is open and has nothing to do.
    spare: Mutex<Option<Connection>>,
}

impl Api {
    pub(crate) fn new(server: HttpsUrl, trust: Trust, route: Route, token: Option<SecretText>) -> Self {
        Self { server, trust, route, token, spare: Mutex::default() }
    }

    async fn connect(&self) -> Result<Connection, ApiError> {
        let (host, port) = (self.server.host(), self.server.port());
        let opened = Connection::open_through(self.route.to(host, port), &self.trust, host, port).await;
        opened.map_err(ApiError::Connection)
    }

    /// What is at a path.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Method::GET, path, None).await
    }

    /// Creates an object in a collection. A repetition after a lost answer is a conflict: the object has a name.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Method::POST, path, Some((JSON, object))).await
    }

    /// Changes some fields of what is at a path, and returns what it is then.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.call(Method::PATCH, path, Some((MERGE_PATCH, patch))).await
    }

    /// Replaces what is at a path, and returns what it is then. A repetition after a lost answer is a conflict: the
    /// object names its resource version.
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Method::PUT, path, Some((JSON, object))).await
    }

    /// Everything we ask may be asked twice, so a connection that was closed meanwhile is no reason to give up.
    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Value, ApiError> {
        let request = || self.request(method.clone(), path, body);
        let spare = self.spare.lock().await.take().filter(Connection::is_open);
        let mut connection = match spare {
            Some(mut connection) => match exchange(&mut connection, request()?).await {
                Err(ApiError::Connection(_)) => self.connect().await?,
                answered => {
                    self.keep(connection).await;
                    return answered;
                }
            },
            None => self.connect().await?,
        };
        let answered = exchange(&mut connection, request()?).await;
        self.keep(connection).await;
        answered
    }

    async fn keep(&self, connection: Connection) {
        if connection.is_open() {
            *self.spare.lock().await = Some(connection);
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Request<Full<Bytes>>, ApiError> {
        let prefix = self.server.path().trim_end_matches('/');
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{prefix}{path}"))
            .header(HOST, self.server.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("capstan-agent/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| ApiError::Answer("the token cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let bytes = match body {
            Some((kind, body)) => {
                request = request.header(CONTENT_TYPE, kind);
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        request.body(Full::new(bytes)).map_err(|error| ApiError::Answer(error.to_string()))
    }
}

async fn exchange(connection: &mut Connection, request: Request<Full<Bytes>>) -> Result<Value, ApiError> {
    let late =
        || ApiError::Connection(io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time"));
    let work = async {
        let answer = connection.send(request).await.map_err(ApiError::Connection)?;
        read(answer).await
    };
    timeout(ANSWERING, work).await.map_err(|_| late())?
}

/// Reads an answer to its end.
async fn read(answer: Response<Incoming>) -> Result<Value, ApiError> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| ApiError::Connection(io::Error::other(error)))?.to_bytes();
    if status != StatusCode::OK && status != StatusCode::CREATED {
        return Err(refused(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| ApiError::Answer(error.to_string()))
}

/// What was said with a no, cut to what people read.
fn refused(status: StatusCode, body: &[u8]) -> ApiError {
    let said = serde_json::from_slice::<Value>(body).ok();
    let message = said.as_ref().and_then(|said| said["message"].as_str()).unwrap_or("it did not say why");
    ApiError::Refused { code: status.as_u16(), message: message.chars().take(512).collect() }
}

/// The management plane with the current credential, which is renewed while the agent runs.
#[derive(Clone)]
pub(crate) struct Client(Arc<StdMutex<Arc<Api>>>);

impl Client {
    pub(crate) fn new(api: Api) -> Self {
        Self(Arc::new(StdMutex::new(Arc::new(api))))
    }

    /// As whom we ask now.
    pub(crate) fn api(&self) -> Arc<Api> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses another credential from now on.
    pub(crate) fn become_(&self, api: Api) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(api);
    }
}
