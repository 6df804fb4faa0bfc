//! `/healthz`, `/livez` and `/readyz`: the format of kube-apiserver, the checks of the process, and who may read reasons.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use crate::support::{Caller, TestPlane};
use capstan_apiserver::{Check, Health, Options, Storage, Tls, User};
use http_body_util::BodyExt as _;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use tokio::net::TcpListener;

async fn text(caller: &Caller, path: &str) -> (u16, String) {
    let response = caller.send("GET", path, "", &Value::Null).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

/// A server with a check that passes (0), fails readiness (1), or fails liveness too (2).
async fn plane() -> (TestPlane, Arc<AtomicU8>) {
    let state = Arc::new(AtomicU8::new(0));
    let mut options = Options::new(Storage::Memory);
    let read = Arc::clone(&state);
    options.checks.push(Check::new("controllers", move || match read.load(Ordering::SeqCst) {
        0 => Health::Ok,
        1 => Health::NotReady("caches are not synced".to_owned()),
        _ => Health::NeedsRestart("a controller has ended".to_owned()),
    }));
    (TestPlane::open(options).await, state)
}

#[tokio::test]
async fn responses_have_the_form_of_kube_apiserver() {
    let (plane, state) = plane().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/", "/readyz?exclude=store"] {
        assert_eq!(text(&plane.admin, path).await, (200, "ok".to_owned()), "{path}");
    }
    let listed = |name| {
        format!("[+]ping ok\n[+]store ok\n[+]certificates ok\n[+]controllers ok\n{name} check passed\n")
    };
    for name in ["healthz", "livez", "readyz"] {
        assert_eq!(text(&plane.admin, &format!("/{name}?verbose")).await, (200, listed(name)));
    }
    assert_eq!(text(&plane.admin, "/livez/ping").await, (200, "ok".to_owned()));
    assert_eq!(text(&plane.admin, "/livez/etcd").await.0, 404);
    assert_eq!(text(&plane.admin, "/livez/ping/more").await.0, 404);

    state.store(1, Ordering::SeqCst);
    let failed = "[+]ping ok\n[+]store ok\n[+]certificates ok\n[-]controllers failed: reason withheld\nreadyz check failed\n";
    assert_eq!(text(&plane.admin, "/readyz").await, (500, failed.to_owned()));
    assert_eq!(text(&plane.admin, "/livez").await, (200, "ok".to_owned()));
    let reason = (500, "internal server error: caches are not synced\n".to_owned());
    assert_eq!(text(&plane.admin, "/readyz/controllers").await, reason);
    let excluded = text(&plane.admin, "/readyz?verbose&exclude=controllers&exclude=other").await;
    assert_eq!(excluded.0, 200);
    let end = "[+]controllers excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"other\"\nreadyz check passed\n";
    assert!(excluded.1.ends_with(end), "{}", excluded.1);

    state.store(2, Ordering::SeqCst);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(text(&plane.admin, path).await.0, 500, "{path}");
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn reasons_need_a_right_of_their_own() {
    let (plane, state) = plane().await;
    state.store(1, Ordering::SeqCst);
    let anonymous = plane.caller(User::new("system:anonymous", ["system:unauthenticated"]));
    let (code, body) = text(&anonymous, "/readyz?verbose").await;
    assert!(code == 500 && !body.contains("caches"), "{code} {body}");
    let (code, body) = text(&anonymous, "/readyz/controllers").await;
    assert!(code == 403 && !body.contains("caches"), "{code} {body}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn an_expired_serving_certificate_fails_both_and_a_closed_store_too() {
    let now = Arc::new(std::sync::Mutex::new("2026-06-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap()));
    let mut options = Options::new(Storage::Memory);
    let clock = Arc::clone(&now);
    options.clock = Arc::new(move || *clock.lock().unwrap());
    let plane = TestPlane::open(options).await;
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
    let key = KeyPair::generate().unwrap();
    let (certificate, key) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    plane.server.serve(listener, &Tls { certificate, key, client_ca: None }).unwrap();
    assert_eq!(text(&plane.admin, "/readyz").await.0, 200);
    *now.lock().unwrap() = "2026-12-31T12:00:00Z".parse().unwrap();
    assert_eq!((text(&plane.admin, "/readyz").await.0, text(&plane.admin, "/livez").await.0), (500, 200));
    let (_, reason) = text(&plane.admin, "/readyz/certificates").await;
    assert!(reason.contains("the serving certificate expires at 2027-01-01T00:00:00Z"), "{reason}");
    *now.lock().unwrap() = "2027-01-01T00:00:01Z".parse().unwrap();
    assert_eq!((text(&plane.admin, "/readyz").await.0, text(&plane.admin, "/livez").await.0), (500, 500));

    plane.server.shutdown().await;
    let (code, reason) = text(&plane.admin, "/livez/store").await;
    assert!(code == 500 && reason.contains("the writer of the store has ended"), "{code} {reason}");
}
