//! Probes over TLS, with certificates in files of the machine.

use crate::support::mirror::{Behaviour, Mirror};
use crate::support::path;
use capstan_agent::Machine as _;
use capstan_agent::machine::HttpGet;
use capstan_agent::real::Linux;
use std::fs;
use std::time::Duration;

#[tokio::test]
async fn a_server_is_verified_unless_the_probe_asks_for_none() {
    let mirror = Mirror::start(b"x").await;
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("ca.pem"), &mirror.ca).unwrap();
    fs::write(root.path().join("other.pem"), Mirror::start(b"x").await.ca.clone()).unwrap();
    let linux = Linux::rooted(root.path()).unwrap();
    let get = async |host: &str, is_insecure, ca: Option<&str>| {
        let url = format!("https://{host}:{}/healthz", mirror.port);
        let request = HttpGet { url, is_insecure, identity: None, ca: ca.map(path) };
        linux.http_get(&request, Duration::from_secs(30)).await
    };
    assert_eq!(get("localhost", false, Some("/ca.pem")).await.unwrap(), 200);
    assert_eq!(get("localhost", true, None).await.unwrap(), 200);
    for (host, ca) in [
        ("localhost", None),
        ("localhost", Some("/other.pem")),
        ("localhost", Some("/missing.pem")),
        // The certificate is for the name only.
        ("127.0.0.1", Some("/ca.pem")),
    ] {
        assert!(get(host, false, ca).await.is_err(), "{host} {ca:?}");
    }
    mirror.behave(Behaviour::Status("503 Service Unavailable"));
    assert_eq!(get("localhost", false, Some("/ca.pem")).await.unwrap(), 503);
    let asked = mirror.asked();
    assert!(asked.iter().all(|request| request.starts_with("GET /healthz HTTP/1.1\r\n")), "{asked:?}");
}
