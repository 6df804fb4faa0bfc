//! Requests to one server of images, and to those that it names: servers of tokens, and those that redirects lead to.
//!
//! The credential of a server goes to that server and to the server of tokens that it names, and to no other.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use capstan_agent::https::{Connection, Trust};
use capstan_plan::{HttpsUrl, SecretText};
use capstan_sentinel::registries::answer::{self, Challenge};
use capstan_sentinel::registries::{Endpoint, Registries};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, USER_AGENT, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;
use tokio::time::timeout;

use super::refusal::Refusal;
use super::{Registry, download};

/// How long an answer may take to begin.
const ANSWERING: Duration = Duration::from_secs(60);

/// Most redirects of one request.
const REDIRECTS: usize = 5;

/// Largest answer that is an error, or a token.
const SMALL: usize = 64 * 1024;

/// Largest file with certificates.
const PEM: u64 = 1024 * 1024;

/// An answer, and the connection that its body comes from.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) connection: Connection,
}

/// A server of images, while one image is pulled.
pub(super) struct Session<'a> {
    registry: &'a Registry,
    /// The file with the credentials, for messages.
    file: &'a str,
    registries: &'a Registries,
    endpoint: &'a Endpoint,
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    pub(super) const fn new(
        registry: &'a Registry,
        file: &'a str,
        registries: &'a Registries,
        endpoint: &'a Endpoint,
    ) -> Self {
        Self { registry, file, registries, endpoint, authorization: None }
    }

    /// The content at an address of the server. Redirects are followed, without the credential where they lead to another
    /// server.
    pub(super) async fn get(&mut self, url: &HttpsUrl, accept: &str) -> Result<Answer, Refusal> {
        let mut target = url.clone();
        let (mut redirects, mut is_authorized) = (0, false);
        loop {
            let is_own = answer::is_same_server(url, &target);
            let mut request = Request::get(target.path()).header(ACCEPT, accept);
            if let Some(authorization) = self.authorization.as_ref().filter(|_| is_own) {
                request = request.header(AUTHORIZATION, authorization);
            }
            let request = request.header(HOST, target.authority()).body(Full::default());
            let answer = self.send(&target, request.map_err(Refusal::lasting)?).await?;
            let status = answer.response.status();
            match status {
                StatusCode::OK => return Ok(answer),
                // Also in the middle of an image: tokens are short-lived.
                StatusCode::UNAUTHORIZED if is_own && !is_authorized => {
                    is_authorized = true;
                    let challenge = challenge(&answer)?;
                    self.authorize(challenge).await?;
                }
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    redirects += 1;
                    if redirects > REDIRECTS {
                        return Err(Refusal::lasting(format!("it redirected more than {REDIRECTS} times")));
                    }
                    let location =
                        answer.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                    let next = location.and_then(|location| answer::redirected(&target, location));
                    target = next.ok_or_else(|| {
                        Refusal::lasting("it redirected to an address that is not https://")
                    })?;
                }
                _ => return Err(self.refused(answer, &target, is_own).await),
            }
        }
    }

    async fn refused(&self, answer: Answer, target: &HttpsUrl, is_own: bool) -> Refusal {
        let status = answer.response.status();
        let body = download::to_memory(answer, SMALL).await.unwrap_or_default();
        let code = answer::code(&body).map(|code| format!(" ({code})")).unwrap_or_default();
        let place = if is_own { String::new() } else { format!("{} ", target.authority()) };
        let text = format!("{place}answered {}{code}", status.as_u16());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if is_own => {
                Refusal::Lasting(format!("{text}; {}", self.remedy()))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Refusal::Passing(text)
            }
            _ if status.is_server_error() => Refusal::Passing(text),
            _ => Refusal::Lasting(text),
        }
    }

    fn remedy(&self) -> String {
        let unused = match self.registry.names_providers {
            true => "; imageCredentialProviderConfig is not used",
            false => "",
        };
        format!("check configs.\"{}\".auth in {}{unused}", self.endpoint.authority(), self.file)
    }

    /// Meets a challenge.
    async fn authorize(&mut self, challenge: Challenge) -> Result<(), Refusal> {
        let credential = self.registries.credential(self.endpoint.authority());
        let credential = credential.map_err(|error| Refusal::lasting(format!("{}: {error}", self.file)))?;
        let basic = credential.basic.as_ref().map(basic).transpose()?;
        let authorization = match challenge {
            Challenge::Basic => basic.ok_or_else(|| {
                Refusal::lasting(format!("it asks for a user and a password; {}", self.remedy()))
            })?,
            Challenge::Bearer { realm, service, scope } => {
                let scope = scope.unwrap_or_else(|| self.endpoint.scope());
                let service = service.unwrap_or_default();
                let values = [("service", service.as_str()), ("scope", scope.as_str())];
                let token = match &credential.identity_token {
                    Some(identity) => self.exchange(&realm, &values, identity).await?,
                    None => self.token(&realm, &values, basic).await?,
                };
                secret(&format!("Bearer {token}"))?
            }
        };
        self.authorization = Some(authorization);
        Ok(())
    }

    /// A token for user and password, or without a credential.
    async fn token(
        &self,
        realm: &HttpsUrl,
        values: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<String, Refusal> {
        let values: Vec<(&str, &str)> =
            values.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
        let url = answer::with_query(realm, &answer::form(&values));
        let url = url.ok_or_else(|| Refusal::lasting("the address of its tokens is too long"))?;
        let mut request = Request::get(url.path());
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.header(HOST, url.authority()).body(Full::default());
        self.token_of(&url, request.map_err(Refusal::lasting)?).await
    }

    /// A token for an identity token.
    async fn exchange(
        &self,
        realm: &HttpsUrl,
        values: &[(&str, &str)],
        identity: &SecretText,
    ) -> Result<String, Refusal> {
        let own = [
            ("grant_type", "refresh_token"),
            ("client_id", "capstan-agent"),
            ("refresh_token", identity.expose()),
        ];
        let form = answer::form(&[values, &own[..]].concat());
        let request = Request::builder()
            .method(Method::POST)
            .uri(realm.path())
            .header(HOST, realm.authority())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(form)));
        self.token_of(realm, request.map_err(Refusal::lasting)?).await
    }

    /// Redirects are not followed: the request has a credential.
    async fn token_of(&self, url: &HttpsUrl, request: Request<Full<Bytes>>) -> Result<String, Refusal> {
        let answer = self.send(url, request).await?;
        let status = answer.response.status();
        if status != StatusCode::OK {
            let text = format!(
                "its token server {} answered {}; {}",
                url.authority(),
                status.as_u16(),
                self.remedy()
            );
            let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(if is_passing { Refusal::Passing(text) } else { Refusal::Lasting(text) });
        }
        let body = download::to_memory(answer, SMALL).await?;
        answer::token(&body).ok_or_else(|| {
            Refusal::lasting(format!("its token server {} answered without a token", url.authority()))
        })
    }

    async fn send(&self, url: &HttpsUrl, mut request: Request<Full<Bytes>>) -> Result<Answer, Refusal> {
        let agent = HeaderValue::from_static(concat!("capstan-agent/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        let trust = self.trust(url.authority())?;
        let unreachable = |error: io::Error| {
            let text = format!("cannot reach {}: {error}", url.authority());
            // A certificate that is not trusted now is not trusted in a minute.
            match error.kind() {
                io::ErrorKind::InvalidData => Refusal::Lasting(format!(
                    "{text}; name its CA in configs.\"{}\".tls.ca_file of {}",
                    url.authority(),
                    self.file
                )),
                _ => Refusal::Passing(text),
            }
        };
        let proxy = self.registry.route.to(url.host(), url.port());
        let opened = Connection::open_through(proxy, &trust, url.host(), url.port()).await;
        let mut connection = opened.map_err(unreachable)?;
        let answer = timeout(ANSWERING, connection.send(request)).await;
        let answer = answer.map_err(|_| Refusal::passing("there was no answer in time"))?;
        Ok(Answer { response: answer.map_err(Refusal::passing)?, connection })
    }

    fn trust(&self, authority: &str) -> Result<Trust, Refusal> {
        let of_file = |error: &dyn std::fmt::Display| Refusal::lasting(format!("{}: {error}", self.file));
        let certificates = self.registries.certificates(authority).map_err(|error| of_file(&error))?;
        let read =
            |path: &String| self.pem(path).map_err(|error| of_file(&format!("cannot read {path}: {error}")));
        let ca = certificates.ca.as_ref().map(read).transpose()?;
        let client = match &certificates.client {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Trust::system_and(ca.as_deref(), client).map_err(|error| of_file(&error))
    }

    fn pem(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(self.registry.paths.below(path))?.take(PEM + 1).read_to_end(&mut content)?;
        if content.len() as u64 > PEM {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than one megabyte"));
        }
        Ok(content)
    }
}

fn challenge(answer: &Answer) -> Result<Challenge, Refusal> {
    let headers = answer.response.headers().get_all(WWW_AUTHENTICATE);
    Challenge::of(headers.iter().filter_map(|value| value.to_str().ok())).map_err(Refusal::lasting)
}

fn basic((user, password): &(String, SecretText)) -> Result<HeaderValue, Refusal> {
    secret(&format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.expose()))))
}

/// The value of a header that is not printed.
fn secret(text: &str) -> Result<HeaderValue, Refusal> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| Refusal::lasting("its credential cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}
