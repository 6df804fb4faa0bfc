//! Traces of reconciles for an OpenTelemetry collector, over OTLP/HTTP. A trace is one reconcile with its requests to API
//! servers. Exported are names of controllers and objects, times, and methods, paths and status codes of requests; never the
//! content of an object.
//!
//! What must not live here: which spans there are. That is for `capstan_controller` to say.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls::RootCertStore;
use tokio::runtime::Handle;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, Registry};

/// Where spans come from: controllers, and their requests.
const TARGET: &str = "capstan_controller";

/// How long one export, and the last one, may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest response of a collector that is read.
const MOST_BYTES: usize = 1 << 20;

/// URL of a collector, without the path of the signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(String);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| Err(format!("{why}: write it like https://collector:4318"));
        let Ok(uri) = text.parse::<Uri>() else { return wrong("it is not a URL") };
        let Some(host) = uri.host() else { return wrong("it has no host") };
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_local => {}
            Some("http") => return wrong("without TLS only a collector on this machine is allowed"),
            _ => return wrong("it does not begin with https://"),
        }
        match uri.query() {
            None => Ok(Self(text.trim_end_matches('/').to_owned())),
            Some(_) => wrong("it has a query"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The exporter of traces.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the exporter. A collector that does not respond stops no controller: spans are dropped.
    pub(crate) fn start(endpoint: &Endpoint) -> Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new()?)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_headers(HashMap::new())
            .with_timeout(TIMEOUT)
            .build()
            .with_context(|| format!("cannot export traces to {endpoint}"))?;
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => Resource::builder(),
            None => Resource::builder().with_service_name("capstan"),
        };
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build());
        Ok(Self(provider.build()))
    }

    /// What turns spans into traces.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let tracer = self.0.tracer("capstan");
        let layer =
            tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        Box::new(layer.with_filter(Targets::new().with_target(TARGET, LevelFilter::DEBUG)))
    }

    /// Exports what is left.
    pub(crate) async fn finish(self) {
        let last = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(TIMEOUT)).await;
        if let Ok(Err(error)) = last {
            tracing::warn!(%error, "the last traces were not exported");
        }
    }
}

/// A client of the collector.
#[derive(Clone)]
struct Collector {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The exporter has a thread of its own, without a runtime.
    runtime: Handle,
}

impl Collector {
    fn new() -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self { http: Client::builder(TokioExecutor::new()).build(https), runtime: Handle::try_current()? })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

async fn send(
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (parts, body) = http.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

impl HttpClient for Collector {
    fn send_bytes<'own, 'sent>(
        &'own self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'own: 'sent,
        Self: 'sent,
    {
        let http = self.http.clone();
        // The timer is made in the runtime, too.
        let sent =
            self.runtime.spawn(async move { tokio::time::timeout(TIMEOUT, send(http, request)).await });
        Box::pin(async move { sent.await?? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_elsewhere_needs_tls() {
        for (url, error) in [
            ("https://collector:4318", None),
            ("https://collector.example/otlp/", None),
            ("http://localhost:4318", None),
            ("http://127.0.0.1:4318/", None),
            ("http://[::1]:4318", None),
            ("http://collector:4318", Some("without TLS")),
            ("http://10.0.0.1:4318", Some("without TLS")),
            ("collector:4318", Some("https://")),
            ("grpc://collector", Some("https://")),
            ("https://collector?x=y", Some("query")),
            ("", Some("URL")),
        ] {
            match (url.parse::<Endpoint>(), error) {
                (Ok(endpoint), None) => assert!(!endpoint.to_string().ends_with('/'), "{url}"),
                (Err(said), Some(error)) => assert!(said.contains(error), "{url}: {said}"),
                (parsed, _) => panic!("{url}: {parsed:?}"),
            }
        }
    }
}
