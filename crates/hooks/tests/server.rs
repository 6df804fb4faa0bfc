//! What the server makes of callers who do not keep to the protocol.

use capstan_api::runtime::hooks::{
    AUDIENCE, CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, CommonResponse, GROUP, MOST_BYTES, UpdateMachineRequest,
    UpdateMachineResponse, path,
};
use capstan_apiserver::{ApiServer, Storage, User};
use capstan_controller::reviews::Reviews;
use capstan_hooks::Extension;
use capstan_hooks::server::{Authentication, Server, Serving};
use capstan_pki::serving::Authority;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Answers everything with yes.
struct Yes;

impl Extension for Yes {
    async fn can_update_machine(&self, _: CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        CanUpdateMachineResponse {
            common: CommonResponse::success(),
            machine_patch: None,
            infrastructure_machine_patch: None,
            bootstrap_config_patch: None,
        }
    }

    async fn can_update_machine_set(&self, _: CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
        CanUpdateMachineSetResponse {
            common: CommonResponse::success(),
            machine_set_patch: None,
            infrastructure_machine_template_patch: None,
            bootstrap_config_template_patch: None,
        }
    }

    async fn update_machine(&self, _: UpdateMachineRequest) -> UpdateMachineResponse {
        UpdateMachineResponse { common: CommonResponse::success(), retry_after_seconds: 0 }
    }
}

struct Stage {
    address: SocketAddr,
    tls: TlsConnector,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Stage {
    async fn start() -> Self {
        Self::with(Authentication::default()).await
    }

    async fn with(authentication: Authentication) -> Self {
        let now = Timestamp::now();
        let authority = Authority::new("capstan hooks", now).expect("an authority");
        let serving = Arc::new(Serving::default());
        serving.show(authority.issue(&["127.0.0.1".to_owned()], now).expect("a certificate").key);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = Server::new(Yes, &serving, authentication).expect("TLS");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.serve(listener, async {
            drop(stopped.await);
        }));
        let mut roots = RootCertStore::empty();
        let certificate =
            CertificateDer::from_pem_slice(authority.bundle().as_bytes()).expect("a certificate");
        roots.add(certificate).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, tls: TlsConnector::from(Arc::new(config)), stop, served }
    }

    async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, String) {
        self.send_with("", method, path, body).await
    }

    async fn send_with(&self, token: &str, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, String) {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let stream = self.tls.connect(name, stream).await.expect("a handshake");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "hooks");
        let request = match token {
            "" => request,
            token => request.header("authorization", format!("Bearer {token}")),
        };
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        connection.abort();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn serves_discovery_to_every_caller(&self) {
        let (status, body) = self.send("POST", &path("Discovery", None), b"{}".to_vec()).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    async fn end(self) {
        drop(self.stop);
        self.served.await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_hooks_are_answered() {
    let stage = Stage::start().await;
    let update = path("UpdateMachine", Some("update-machine"));
    let discovery = path("Discovery", None);
    let (status, body) = stage.send("POST", &discovery, b"{}".to_vec()).await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("Success")));
    assert_eq!(body["handlers"].as_array().map(Vec::len), Some(3));
    for (method, path, body, expected) in [
        ("GET", discovery.as_str(), vec![], StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/", vec![], StatusCode::NOT_FOUND),
        ("POST", &path("UpdateMachine", None), vec![], StatusCode::NOT_FOUND),
        ("POST", &path("UpdateMachine", Some("other")), vec![], StatusCode::NOT_FOUND),
        ("POST", &update, vec![b' '; MOST_BYTES + 1], StatusCode::PAYLOAD_TOO_LARGE),
        // Callers that are not authenticated may send it, too.
        ("POST", &discovery, vec![b' '; 100 << 10], StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        assert_eq!(stage.send(method, path, body).await.0, expected, "{method} {path}");
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_malformed_request_is_repeated() {
    let stage = Stage::start().await;
    let update = path("UpdateMachine", Some("update-machine"));
    for body in [
        b"swordfish".to_vec(),
        json!({"kind": "swordfish"}).to_string().into_bytes(),
        json!({"desired": "swordfish"}).to_string().into_bytes(),
    ] {
        let (status, response) = stage.send("POST", &update, body).await;
        assert_eq!(status, StatusCode::OK);
        assert!(response.contains("\"Failure\"") && response.contains("UpdateMachineRequest"), "{response}");
        assert!(!response.contains("swordfish"), "{response}");
    }
    stage.end().await;
}

/// A caller without a client certificate needs a token for the right audience, of a user that may post to the hooks.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_callers_are_reviewed() {
    let plane = ApiServer::open(capstan_apiserver::Options::new(Storage::Memory)).await.expect("a plane");
    let client = kube::Client::new(plane.service(User::admin()), "default");
    let rules = json!([{"nonResourceURLs": [format!("/{GROUP}/*")], "verbs": ["post"]}]);
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "caller"});
    let subject = json!({"kind": "ServiceAccount", "name": "core", "namespace": "default"});
    let access: Vec<(&str, Value)> = vec![
        ("clusterroles", json!({"metadata": {"name": "caller"}, "rules": rules})),
        (
            "clusterrolebindings",
            json!({"metadata": {"name": "caller"}, "roleRef": role_ref, "subjects": [subject]}),
        ),
    ];
    for (kind, object) in access {
        make(&client, &format!("/apis/rbac.authorization.k8s.io/v1/{kind}"), &object).await;
    }
    for name in ["core", "other"] {
        let account = json!({"metadata": {"name": name}});
        make(&client, "/api/v1/namespaces/default/serviceaccounts", &account).await;
    }
    let token = async |account: &str, audiences: &[&str]| {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        let request = json!({"spec": {"audiences": audiences, "expirationSeconds": 600}});
        let made = make(&client, &path, &request).await;
        made["status"]["token"].as_str().expect("a token").to_owned()
    };
    let tokens = Arc::new(Reviews::of_audience(client.clone(), AUDIENCE));
    let stage = Stage::with(Authentication { client_ca: None, tokens: Some(tokens) }).await;
    let update = path("UpdateMachine", Some("update-machine"));
    for (token, expected) in [
        (token("core", &[AUDIENCE]).await, StatusCode::OK),
        (token("core", &["another", AUDIENCE]).await, StatusCode::OK),
        // For the API server itself, and for another one.
        (token("core", &[]).await, StatusCode::UNAUTHORIZED),
        (token("core", &["another"]).await, StatusCode::UNAUTHORIZED),
        (token("other", &[AUDIENCE]).await, StatusCode::FORBIDDEN),
        ("nonsense".to_owned(), StatusCode::UNAUTHORIZED),
        (String::new(), StatusCode::UNAUTHORIZED),
    ] {
        let (status, body) = stage.send_with(&token, "POST", &update, b"{}".to_vec()).await;
        assert_eq!(status, expected, "{body}");
        assert!(token.is_empty() || !body.contains(&token), "a token is not repeated");
    }
    stage.serves_discovery_to_every_caller().await;
    stage.end().await;
    plane.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_can_be_required() {
    let callers = Authority::new("capstan hooks", Timestamp::now()).expect("an authority");
    let stage = Stage::with(Authentication::certificates(callers.bundle().as_bytes().to_vec())).await;
    let update = path("UpdateMachine", Some("update-machine"));
    let (status, body) = stage.send("POST", &update, b"{}".to_vec()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
    stage.serves_discovery_to_every_caller().await;
    stage.end().await;
}

async fn make(client: &kube::Client, path: &str, object: &Value) -> Value {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("a request");
    client.request(request).await.expect("it is made")
}
