//! Authentication and authorization of callers by the management plane: a TokenReview, and a SubjectAccessReview for the
//! path. Answers are cached for a short time, under a digest of the token.

use capstan_plan::Digest;
use http::{HeaderMap, Method, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a positive answer is cached.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a negative answer is cached: a new role takes effect soon.
const REFUSED: Duration = Duration::from_secs(10);
/// How long the plane may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most entries of the cache, whatever callers send.
const MOST: usize = 1024;

/// Why a caller cannot be reviewed.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    /// The management plane does not answer.
    #[error("the management plane has not answered for {PATIENCE:?}")]
    Late,
    /// The management plane refuses the request.
    #[error("cannot create a {kind}")]
    Request {
        /// Kind of the review.
        kind: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ReviewError {
    fn of(kind: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request { kind, source: Box::new(source) }
    }
}

/// The answer for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// Authenticated and authorized.
    Allowed,
    /// Authenticated under this name, and not authorized.
    Denied(String),
    /// Not authenticated.
    Unknown,
}

impl Decision {
    fn lasts(&self) -> Duration {
        match self {
            Self::Allowed => ALLOWED,
            Self::Denied(_) | Self::Unknown => REFUSED,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    token: String,
    verb: String,
    path: String,
}

/// Reviews callers with requests to the management plane.
pub struct Reviews {
    client: Client,
    audience: Option<&'static str>,
    known: Mutex<Known>,
    began: Instant,
}

impl Reviews {
    /// Reviews of tokens for the API server itself.
    pub fn new(client: Client) -> Self {
        Self { client, audience: None, known: Mutex::default(), began: Instant::now() }
    }

    /// Reviews of tokens that were issued for this audience. Other tokens are not accepted.
    pub fn of_audience(client: Client, audience: &'static str) -> Self {
        Self { audience: Some(audience), ..Self::new(client) }
    }

    /// Whether the owner of a token may use this verb on a path.
    async fn decide(&self, token: &str, verb: &str, path: &str) -> Result<Decision, ReviewError> {
        let question = Question {
            token: Digest::of(token.as_bytes()).to_string(),
            verb: verb.to_owned(),
            path: path.to_owned(),
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = known().get(&question, self.began.elapsed()) {
            return Ok(decision);
        }
        let decision = tokio::time::timeout(PATIENCE, self.ask(token, verb, path))
            .await
            .map_err(|_| ReviewError::Late)??;
        known().put(question, decision.clone(), self.began.elapsed());
        Ok(decision)
    }

    /// The response for a caller of an HTTP server that must not be served: its status and its text. `Some` also if the
    /// management plane does not answer.
    pub async fn refusal(
        &self,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Option<(StatusCode, String)> {
        let unauthenticated = || Some((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
        let Some(token) = bearer(headers) else { return unauthenticated() };
        let verb = method.as_str().to_lowercase();
        match self.decide(token, &verb, path).await {
            Ok(Decision::Allowed) => None,
            Ok(Decision::Unknown) => unauthenticated(),
            Ok(Decision::Denied(user)) => Some((
                StatusCode::FORBIDDEN,
                format!("user {user:?} needs the verb {verb} on the nonResourceURL {path}"),
            )),
            Err(error) => {
                tracing::warn!(error = capstan_text::chain(&error), path, "cannot review a caller");
                let message =
                    "the management plane did not answer a TokenReview or SubjectAccessReview; see the log";
                Some((StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()))
            }
        }
    }

    async fn ask(&self, token: &str, verb: &str, path: &str) -> Result<Decision, ReviewError> {
        let audiences = self.audience.map(|audience| vec![audience.to_owned()]);
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &review).await;
        let status = review.map_err(ReviewError::of("TokenReview"))?.status.unwrap_or_default();
        // A server that does not know audiences names none: its answer is for the API server's tokens.
        let is_for_us = |audience| status.audiences.iter().flatten().any(|named| named == audience);
        if !self.audience.is_none_or(is_for_us) {
            return Ok(Decision::Unknown);
        }
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Decision::Unknown);
        };
        let name = user.username.clone().unwrap_or_default();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &access_review(user, verb, path)).await;
        match review.map_err(ReviewError::of("SubjectAccessReview"))?.status {
            Some(status) if status.allowed && status.denied != Some(true) => Ok(Decision::Allowed),
            _ => Ok(Decision::Denied(name)),
        }
    }
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn access_review(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReview {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

/// Decisions with their expiry. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Known(HashMap<Question, (Decision, Duration)>);

impl Known {
    fn get(&self, question: &Question, now: Duration) -> Option<Decision> {
        self.0.get(question).filter(|(_, until)| now < *until).map(|(decision, _)| decision.clone())
    }

    fn put(&mut self, question: Question, decision: Decision, now: Duration) {
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let until = now + decision.lasts();
        self.0.insert(question, (decision, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(token: usize) -> Question {
        Question { token: token.to_string(), verb: "get".to_owned(), path: "/metrics".to_owned() }
    }

    #[test]
    fn decisions_are_forgotten_in_time_and_refusals_sooner() {
        let mut known = Known::default();
        known.put(question(1), Decision::Allowed, Duration::ZERO);
        known.put(question(2), Decision::Unknown, Duration::ZERO);
        let at = |token, time| known.get(&question(token), time);
        assert_eq!((at(1, REFUSED), at(2, REFUSED)), (Some(Decision::Allowed), None));
        assert_eq!(at(2, REFUSED / 2), Some(Decision::Unknown));
        assert_eq!(at(1, ALLOWED), None);
        let put = Question { verb: "put".to_owned(), ..question(1) };
        assert_eq!(known.get(&put, Duration::ZERO), None, "reading is not writing");
    }

    #[test]
    fn callers_cannot_fill_the_memory() {
        let mut known = Known::default();
        for token in 0..3 * MOST {
            known.put(question(token), Decision::Unknown, Duration::ZERO);
            assert!(known.0.len() <= MOST);
        }
    }
}
