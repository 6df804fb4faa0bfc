//! Deletes old certificate requests. Only time makes a request old, so this runs every hour.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_pki::Certificate;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use super::engine;
use crate::certificates::{REQUESTS, conditions, conditions_of, is_issued};
use crate::{object, plane::Plane, request::options::DeleteOptions, shutdown::stopped, store::GroupResource};

const EVERY: Duration = Duration::from_secs(60 * 60);
/// How long what has been decided is kept, in seconds.
const DECIDED: i64 = 60 * 60;
/// How long what waits for somebody is kept.
const WAITING: i64 = 24 * 60 * 60;

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, mut stopping: watch::Receiver<bool>) {
    let requests = GroupResource::new(REQUESTS.0, REQUESTS.1);
    loop {
        let now = plane.now();
        for stored in plane.store.list(&requests, None).items.iter().filter(|s| is_old(&s.value, now)) {
            if let Err(error) = engine::remove(&plane, stored, &DeleteOptions::default()).await {
                tracing::warn!(%error, "cannot remove an old certificate request");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stopped(&mut stopping) => return,
        }
    }
}

/// Whether a request has served its time.
fn is_old(request: &Value, now: Timestamp) -> bool {
    let older = |time: &str, seconds: i64| {
        time.parse::<Timestamp>().is_ok_and(|time| now.as_second() - time.as_second() > seconds)
    };
    let since = |kind: &str, seconds: i64| {
        conditions_of(request, kind).any(|c| older(object::text(c, &["lastUpdateTime"]), seconds))
    };
    let forgotten =
        conditions(request).is_empty() && older(object::meta_str(request, "creationTimestamp"), WAITING);
    let approved = since("Approved", if is_issued(request) { DECIDED } else { WAITING });
    forgotten || approved || since("Denied", DECIDED) || since("Failed", DECIDED) || has_expired(request, now)
}

/// Whether the certificate that was issued is over.
fn has_expired(request: &Value, now: Timestamp) -> bool {
    let until = || {
        let pem = STANDARD.decode(object::text(request, &["status", "certificate"])).ok()?;
        Some(Certificate::first_in(&pem)?.not_after)
    };
    is_issued(request) && until().is_some_and(|until| until.as_second() < now.as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_sort_has_its_time() {
        let made = "2026-01-01T00:00:00Z";
        let now: Timestamp = made.parse().unwrap();
        let after = |seconds: i64| Timestamp::from_second(now.as_second() + seconds).unwrap();
        let request = |kinds: &[&str], certificate: &str| {
            let conditions: Vec<Value> =
                kinds.iter().map(|kind| json!({"type": kind, "lastUpdateTime": made})).collect();
            json!({
                "metadata": {"creationTimestamp": made},
                "status": {"conditions": conditions, "certificate": certificate},
            })
        };
        let cases = [
            (request(&[], ""), WAITING),
            (request(&["Approved"], ""), WAITING),
            (request(&["Approved"], "x"), DECIDED),
            (request(&["Denied"], ""), DECIDED),
            (request(&["Approved", "Failed"], ""), DECIDED),
        ];
        for (request, seconds) in cases {
            assert!(!is_old(&request, after(seconds)), "{request}");
            assert!(is_old(&request, after(seconds + 1)), "{request}");
        }
    }

    #[test]
    fn certificates_end() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
        let request = json!({"status": {"certificate": STANDARD.encode(certificate)}});
        assert!(!has_expired(&request, Timestamp::now()));
        assert!(has_expired(&request, "9000-01-01T00:00:00Z".parse().unwrap()));
    }
}
