//! One call: a POST over HTTPS, answered in time and within bounds.

use capstan_api::runtime::hooks::{Body, Hook, MOST_BYTES, Message};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::Target;
use super::{Identity, LocalIdentity};

/// So much of an answer that is none is repeated.
const MOST_REPEATED: usize = 512;

/// Why a call of an extension failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The extension cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The extension responded with a failure and this message.
    #[error("{0}")]
    Failure(String),
    /// The request or the response is malformed.
    #[error("{0}")]
    Malformed(String),
}

/// Whom to believe, and who we are.
#[derive(Clone, Copy)]
pub(super) struct Trust<'a> {
    pub(super) ca: Option<&'a ByteString>,
    pub(super) identity: Option<Caller<'a>>,
    /// File with our bearer token for this extension.
    pub(super) token: Option<&'a Path>,
}

/// Our client certificate.
#[derive(Clone, Copy)]
pub(super) enum Caller<'a> {
    Files(&'a Identity),
    Local(&'a LocalIdentity),
}

fn unreachable(doing: &str, why: impl Display) -> CallError {
    CallError::Unreachable(format!("{doing}: {why}"))
}

/// Calls the hook `H` at `target`. `settings` go with the request, unless it has its own.
pub(super) async fn call<H: Hook>(
    target: &Target,
    trust: &Trust<'_>,
    settings: &BTreeMap<String, String>,
    request: H::Request,
    timeout: Duration,
) -> Result<H::Response, CallError>
where
    H::Request: Body + Serialize,
    H::Response: Body + DeserializeOwned,
{
    let request = message(&Message(request), settings)?;
    let posted = tokio::time::timeout(timeout, post(target, trust, request)).await;
    let answer =
        posted.map_err(|_| unreachable("it does not answer", format_args!("{timeout:?} are over")))??;
    response::<H::Response>(&answer)
}

pub(super) fn message(
    request: &impl Serialize,
    settings: &BTreeMap<String, String>,
) -> Result<Vec<u8>, CallError> {
    let unwritable =
        |error: serde_json::Error| CallError::Malformed(format!("cannot write the request: {error}"));
    let mut request = serde_json::to_value(request).map_err(unwritable)?;
    if let Some(fields) = request.as_object_mut().filter(|_| !settings.is_empty()) {
        let own = fields.entry("settings").or_insert_with(|| Value::Object(serde_json::Map::new()));
        for (key, value) in settings {
            if own.get(key).is_none() {
                own[key] = Value::String(value.clone());
            }
        }
    }
    serde_json::to_vec(&request).map_err(unwritable)
}

fn response<B: Body + DeserializeOwned>(answer: &[u8]) -> Result<B, CallError> {
    let unreadable = |error: &dyn Display| unreachable("its answer cannot be read", error);
    let answer: Value = serde_json::from_slice(answer).map_err(|error| unreadable(&error))?;
    let text = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("status").as_str() {
        "Success" => {}
        "Failure" => return Err(CallError::Failure(text("message"))),
        other => {
            return Err(CallError::Malformed(format!("its answer has the unknown status {other:?}")));
        }
    }
    let Message(body) = serde_json::from_value(answer).map_err(|error| unreadable(&error))?;
    Ok(body)
}

async fn post(target: &Target, trust: &Trust<'_>, body: Vec<u8>) -> Result<Bytes, CallError> {
    let identity = match trust.identity {
        Some(identity) => Some(read(identity).await?),
        None => None,
    };
    let config = client_config(trust.ca, identity)?;
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| CallError::Malformed(format!("{} is not a host name", target.host)))?;
    let stream = TcpStream::connect((target.host.as_str(), target.port))
        .await
        .map_err(|error| unreachable("cannot connect", error))?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| unreachable("cannot trust it", error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable("cannot speak to it", error))?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(target.path.as_str())
        .header(header::HOST, target.authority())
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(path) = trust.token {
        request = request.header(header::AUTHORIZATION, authorization(path).await?);
    }
    let request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| CallError::Malformed(format!("cannot make the request: {error}")))?;
    let exchange = async {
        let response =
            sender.send_request(request).await.map_err(|error| unreachable("cannot ask it", error))?;
        let status = response.status();
        // A redirect is no answer either: it would lead away from the host that is trusted.
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| unreachable("cannot read its answer", error))?.to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            status => Err(unreachable("it answers with another status than 200", not_ok(status, &body))),
        }
    };
    // The connection has to be driven beside the request, and goes with it.
    tokio::select! {
        answer = exchange => answer,
        ended = connection => Err(match ended {
            Ok(()) => unreachable("cannot ask it", "it closed the connection"),
            Err(error) => unreachable("cannot ask it", error),
        }),
    }
}

/// The header with the token in this file.
async fn authorization(path: &Path) -> Result<HeaderValue, CallError> {
    let wrong = |why: &dyn Display| {
        CallError::Malformed(format!("cannot use our token for extensions in {}: {why}", path.display()))
    };
    let token = tokio::fs::read_to_string(path).await.map_err(|error| wrong(&error))?;
    // The error is not part of the message: it would quote the content.
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| wrong(&"it is not a bearer token"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn not_ok(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MOST_REPEATED)]).into_owned();
    format!("{status} {}", text.trim())
}

/// A certificate with its chain, and its key.
type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

async fn read(caller: Caller<'_>) -> Result<Pair, CallError> {
    let wrong = |what: &str, why: &dyn Display| {
        CallError::Malformed(format!("cannot use our {what} for extensions: {why}"))
    };
    let (certificate, key) = match caller {
        Caller::Local(own) => (own.certificate.clone().into_bytes(), own.key.clone().into_bytes()),
        Caller::Files(identity) => {
            let certificate = tokio::fs::read(&identity.certificate).await;
            let key = tokio::fs::read(&identity.key).await;
            (
                certificate.map_err(|error| wrong("certificate", &error))?,
                key.map_err(|error| wrong("key", &error))?,
            )
        }
    };
    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>();
    // The error is not part of the message: it would quote the key.
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| wrong("key", &"it is not PEM"))?;
    Ok((chain.map_err(|error| wrong("certificate", &error))?, key))
}

fn client_config(ca: Option<&ByteString>, identity: Option<Pair>) -> Result<ClientConfig, CallError> {
    let roots = match ca.filter(|ca| !ca.0.is_empty()) {
        Some(ca) => capstan_pki::roots(&ca.0)
            .map_err(|error| CallError::Malformed(format!("spec.clientConfig.caBundle: {error}")))?,
        None => {
            // As every other program on this machine would.
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    if roots.is_empty() {
        let what = "spec.clientConfig.caBundle: holds no certificate, and neither does this machine";
        return Err(CallError::Malformed(what.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CallError::Malformed(format!("cannot speak TLS: {error}")))?;
    let builder = builder.with_root_certificates(roots);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            CallError::Malformed(format!("cannot use our certificate for extensions: {error}"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::runtime::hooks::{CommonRequest, UpdateMachineResponse};
    use serde_json::json;

    #[test]
    fn settings_of_the_request_come_first() {
        let settings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let request = CommonRequest { settings: settings(&[("a", "mine")]) };
        let sent = message(&request, &settings(&[("a", "theirs"), ("b", "theirs")])).expect("written");
        let sent: Value = serde_json::from_slice(&sent).expect("JSON");
        assert_eq!(sent, json!({"settings": {"a": "mine", "b": "theirs"}}));
        let nothing = message(&CommonRequest::default(), &BTreeMap::new()).expect("written");
        assert_eq!(nothing, b"{}");
    }

    #[test]
    fn an_answer_is_a_success_or_says_why_not() {
        let read = |answer: Value| response::<UpdateMachineResponse>(answer.to_string().as_bytes());
        let kind = "UpdateMachineResponse";
        let version = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
        let good = json!({"apiVersion": version, "kind": kind, "status": "Success", "retryAfterSeconds": 5});
        assert_eq!(read(good).expect("an answer").retry_after_seconds, 5);
        let bad = json!({"status": "Failure", "message": "no disk"});
        assert_eq!(read(bad), Err(CallError::Failure("no disk".to_owned())));
        assert!(matches!(read(json!({"status": "Maybe"})), Err(CallError::Malformed(_))));
        assert!(matches!(read(json!({})), Err(CallError::Malformed(_))));
        assert!(matches!(
            read(json!({"status": "Success", "kind": "Other"})),
            Err(CallError::Unreachable(_))
        ));
        assert!(matches!(response::<UpdateMachineResponse>(b"nonsense"), Err(CallError::Unreachable(_))));
    }

    #[test]
    fn a_bundle_without_certificates_is_reported() {
        let bundle = ByteString(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_vec());
        let error = client_config(Some(&bundle), None).expect_err("no certificate");
        assert!(error.to_string().contains("caBundle"), "{error}");
    }
}
