//! A webhook on loopback: HTTPS, and a function that answers.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::pki::Authority;

/// Answers the request of a review at a path with a response.
type Answer = Arc<dyn Fn(&str, &Value) -> Value + Send + Sync>;

/// A running webhook. Dropping it ends it.
pub(crate) struct Webhook {
    pub(crate) url: String,
    authority: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    task: JoinHandle<()>,
}

impl Webhook {
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        let authority = Authority::new().expect("an authority");
        let tls = authority.server_of(&["hook.system.svc"]).expect("a certificate");
        let certificate = CertificateDer::from_pem_slice(tls.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(serve(listener, acceptor, Arc::new(answer), Arc::clone(&asked)));
        Self { url, authority: authority.pem(), asked, task }
    }

    /// By URL.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("{}{path}", self.url), "caBundle": STANDARD.encode(&self.authority)})
    }

    /// By the service `system/hook`.
    pub(crate) fn by_service(&self, path: &str) -> Value {
        let service = json!({"namespace": "system", "name": "hook", "path": path});
        json!({"service": service, "caBundle": STANDARD.encode(&self.authority)})
    }

    /// Where that service is.
    pub(crate) fn services(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("system/hook".to_owned(), self.url.clone())])
    }

    /// What has been asked since the last time: paths and requests.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.asked.lock().expect("no panic"))
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answer: Answer,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
) {
    // Ends with its connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer, asked) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&asked));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request: Request<Incoming>| {
                let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.expect("a body").to_bytes();
                    let mut review: Value = serde_json::from_slice(&body).expect("a review");
                    let request = review["request"].take();
                    asked.lock().expect("no panic").push((path.clone(), request.clone()));
                    let mut response = answer(&path, &request);
                    if response.is_object() && response.get("uid").is_none() {
                        response["uid"] = request["uid"].clone();
                    }
                    review["response"] = response;
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
                }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
