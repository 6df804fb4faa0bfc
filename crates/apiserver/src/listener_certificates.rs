//! The certificates of the listeners, and whether they are about to expire.

use std::sync::{Mutex, PoisonError};

use capstan_pki::Certificate;
use capstan_text::health::Health;
use jiff::{SignedDuration, Timestamp};

use crate::tls::Tls;

/// A certificate with less than this left, or less than a tenth of its lifetime if that is shorter, is about to expire.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(24);

/// Certificates of the listeners, by which clients know the server and the server knows clients.
#[derive(Default)]
pub(crate) struct ListenerCertificates(Mutex<Vec<Listener>>);

struct Listener {
    serving: Option<Lifetime>,
    /// Of the CA bundle for client certificates, the certificate that expires last: a bundle holds the previous CA too.
    client_ca: Option<Lifetime>,
}

#[derive(Clone, Copy)]
struct Lifetime {
    from: Timestamp,
    to: Timestamp,
}

/// How much of a lifetime is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Enough,
    Little,
    Nothing,
}

impl Lifetime {
    fn all_in(pem: &str) -> impl Iterator<Item = Self> + use<> {
        let read = Certificate::all_in(pem.as_bytes()).into_iter();
        read.map(|certificate| Self { from: certificate.not_before, to: certificate.not_after })
    }

    fn left(self, now: Timestamp) -> Left {
        let soon = EXPIRES_SOON.min(self.to.duration_since(self.from) / 10);
        match self.to.duration_since(now) {
            left if left <= SignedDuration::ZERO => Left::Nothing,
            left if left < soon => Left::Little,
            _ => Left::Enough,
        }
    }
}

impl ListenerCertificates {
    /// A listener uses these from now on.
    pub(crate) fn add(&self, tls: &Tls) {
        let serving = Lifetime::all_in(&tls.certificate).next();
        let bundle = tls.client_ca.as_deref().unwrap_or_default();
        let client_ca = Lifetime::all_in(bundle).max_by_key(|lifetime| lifetime.to);
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Listener { serving, client_ca });
    }

    pub(crate) fn health(&self, now: Timestamp) -> Health {
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let results = listeners.iter().map(|listener| listener.health(now));
        results.reduce(worse).unwrap_or(Health::Ok)
    }
}

impl Listener {
    fn health(&self, now: Timestamp) -> Health {
        let judged =
            |lifetime: Option<Lifetime>| lifetime.map_or(Left::Enough, |lifetime| lifetime.left(now));
        let until =
            |lifetime: Option<Lifetime>| lifetime.map(|lifetime| lifetime.to.to_string()).unwrap_or_default();
        match (judged(self.client_ca), judged(self.serving)) {
            (Left::Nothing, _) => Health::NotReady(format!(
                "the CA of client certificates expired at {}",
                until(self.client_ca)
            )),
            // The serving certificate is read or issued at each start.
            (_, Left::Nothing) => {
                Health::NeedsRestart(format!("the serving certificate expired at {}", until(self.serving)))
            }
            (Left::Little, _) => Health::NotReady(format!(
                "the CA of client certificates expires at {}",
                until(self.client_ca)
            )),
            (_, Left::Little) => Health::NotReady(format!(
                "the serving certificate expires at {}: restart the server with a new one",
                until(self.serving)
            )),
            (Left::Enough, Left::Enough) => Health::Ok,
        }
    }
}

/// The worse of two results, the first if they are alike.
fn worse(one: Health, other: Health) -> Health {
    match (&one, &other) {
        (Health::Ok, _) | (Health::NotReady(_), Health::NeedsRestart(_)) => other,
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// A certificate that is valid until the first day of a month of 2027, from a year before.
    fn certificate(month: u8) -> String {
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) =
            (date_time_ymd(2026, month, 1), date_time_ymd(2027, month, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn health(serving: u8, client_ca: &[u8], now: &str) -> Health {
        let certificates = ListenerCertificates::default();
        let client_ca: String = client_ca.iter().map(|month| certificate(*month)).collect();
        certificates.add(&Tls {
            certificate: certificate(serving),
            key: String::new(),
            client_ca: (!client_ca.is_empty()).then_some(client_ca),
        });
        certificates.health(now.parse().unwrap())
    }

    #[test]
    fn certificates_fail_the_check_before_they_expire() {
        assert_eq!(health(3, &[6], "2027-02-27T00:00:00Z"), Health::Ok);
        let Health::NotReady(reason) = health(3, &[6], "2027-02-28T12:00:00Z") else { panic!("ready") };
        assert!(reason.contains("serving certificate expires at 2027-03-01T00:00:00Z"), "{reason}");
        let Health::NotReady(reason) = health(9, &[6], "2027-05-31T12:00:00Z") else { panic!("ready") };
        assert!(reason.contains("CA of client certificates expires at 2027-06-01"), "{reason}");
    }

    #[test]
    fn a_restart_is_for_an_expired_serving_certificate_but_not_for_an_expired_ca() {
        assert!(matches!(health(3, &[6], "2027-03-01T00:00:00Z"), Health::NeedsRestart(_)));
        assert!(matches!(health(3, &[], "2027-03-01T00:00:00Z"), Health::NeedsRestart(_)));
        assert!(matches!(health(3, &[6], "2027-07-01T00:00:00Z"), Health::NotReady(_)));
    }

    #[test]
    fn a_bundle_with_a_newer_ca_is_valid() {
        assert_eq!(health(9, &[3, 6], "2027-04-01T00:00:00Z"), Health::Ok);
        assert_eq!(health(9, &[6, 3], "2027-04-01T00:00:00Z"), Health::Ok);
    }

    #[test]
    fn one_listener_of_several_fails_the_check() {
        let certificates = ListenerCertificates::default();
        for month in [9, 3, 9] {
            certificates.add(&Tls { certificate: certificate(month), key: String::new(), client_ca: None });
        }
        let now: Timestamp = "2027-04-01T00:00:00Z".parse().unwrap();
        assert!(matches!(certificates.health(now), Health::NeedsRestart(_)));
        assert_eq!(ListenerCertificates::default().health(now), Health::Ok);
    }
}
