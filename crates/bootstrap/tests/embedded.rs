//! Enrolment on the embedded plane, over the wire as machines would.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod support;

use std::sync::Arc;

use capstan_apiserver::{ApiServer, Authority, Options, Storage, Tls, User};
use kube::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use tokio::net::TcpListener;
use tower::Layer as _;

use support::{Address, Stage, story};

/// A plane in memory that is served on loopback.
async fn plane() -> (Arc<ApiServer>, Address) {
    capstan_testkit::install_crypto_provider();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let mut options = Options::new(Storage::Memory);
    options.client_authority =
        Some(Authority { certificate: authority.pem(), key: authority.key().serialize_pem() });
    let server = ApiServer::open(options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls =
        Tls { certificate: certificate.pem(), key: key.serialize_pem(), client_ca: Some(authority.pem()) };
    let bound = server.serve(listener, &tls).unwrap();
    (server, Address { server: format!("https://{bound}"), ca: authority.pem() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_enrols_renews_and_loses_its_rights() {
    let (server, address) = plane().await;
    let admin = Client::new(server.service(User::admin()), "default");
    let stage = Stage::new(admin, address, "default").await;
    Box::pin(story::story(&stage)).await;
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_it_goes_on() {
    let (server, address) = plane().await;
    let admin = Client::new(server.service(User::admin()), "default");
    let stage = Stage::new(admin, address, "crash").await;
    let connect = |crash_point: &capstan_testkit::crash::CrashPoint| {
        Client::new(crash_point.layer(server.service(User::admin())), "default")
    };
    Box::pin(story::killed_at_any_write(&stage, connect)).await;
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_machine_follows_it_goes_on() {
    let (server, address) = plane().await;
    let admin = Client::new(server.service(User::admin()), "default");
    let stage = Stage::new(admin, address, "follow").await;
    let connect = |crash_point: &capstan_testkit::crash::CrashPoint| {
        Client::new(crash_point.layer(server.service(User::admin())), "default")
    };
    Box::pin(story::killed_while_following(&stage, connect)).await;
    server.shutdown().await;
}
