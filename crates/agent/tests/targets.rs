//! The targets of probes and checks: on a real machine, and what is said of them.

use crate::support;
use crate::support::world::{Unit, World};
use crate::support::{TestClock, argv, name, path, plan, shut, steps, verified};
use capstan_agent::machine::MachineError;
use capstan_agent::probes::Prober;
use capstan_agent::real::Linux;
use capstan_agent::{Clock as _, Engine, Journal, Machine};
use capstan_plan::{
    Action, Check, ClientFiles, FileTarget, HttpsTarget, HttpsUrl, Phase, Probe, SecretText, Step, Target,
};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const LONG: Duration = Duration::from_secs(60);

struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (pem, der) = (certificate.pem(), certificate.der().clone());
    Authority { pem, der, issuer: Issuer::new(params, key) }
}

/// A server on this machine that lets in only those with a certificate of the authority. It answers once to each.
async fn server(authority: &Authority, answer: &'static [u8]) -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority.issuer).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap_or_default();
            if request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n") {
                let _ = stream.write_all(answer).await;
                let _ = stream.flush().await;
            }
            // Held open: only the status is waited for.
            let _ = stream.read_u8().await;
        }
    });
    port
}

fn put(root: &Path, name: &str, content: &str) -> capstan_plan::MachinePath {
    fs::write(root.join(name), content).unwrap();
    path(&format!("/{name}"))
}

#[tokio::test]
async fn requests_over_tls_present_the_certificate_and_verify_the_server() {
    let root = TempDir::new().unwrap();
    let linux = Linux::rooted(root.path()).unwrap();
    let (ours, theirs) = (authority(), authority());
    let client = |authority: &Authority, name: &str| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["probe".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority.issuer).unwrap().pem();
        let certificate = put(root.path(), &format!("{name}.crt"), &certificate);
        ClientFiles { certificate, key: put(root.path(), &format!("{name}.key"), &key.serialize_pem()) }
    };
    let port = server(&ours, b"HTTP/1.1 204 No Content\r\n\r\n").await;
    let good = HttpsTarget {
        url: HttpsUrl::new(format!("https://127.0.0.1:{port}/readyz")).unwrap(),
        ca: Some(put(root.path(), "ca.crt", &ours.pem)),
        client: Some(client(&ours, "ours")),
    };
    assert_eq!(linux.get_https(&good, LONG).await.unwrap(), 204);
    for (case, bad) in [
        ("no certificate", HttpsTarget { client: None, ..good.clone() }),
        ("another certificate", HttpsTarget { client: Some(client(&theirs, "theirs")), ..good.clone() }),
        ("another CA", HttpsTarget { ca: Some(put(root.path(), "other.crt", &theirs.pem)), ..good.clone() }),
        ("no CA in the file", HttpsTarget { ca: Some(put(root.path(), "empty", "")), ..good.clone() }),
        ("no file", HttpsTarget { ca: Some(path("/missing")), ..good.clone() }),
    ] {
        assert!(linux.get_https(&bad, LONG).await.is_err(), "{case}");
    }
    // It is read again for each request.
    fs::write(root.path().join("other.crt"), &ours.pem).unwrap();
    let renewed = HttpsTarget { ca: Some(path("/other.crt")), ..good.clone() };
    assert_eq!(linux.get_https(&renewed, LONG).await.unwrap(), 204);

    let mute = server(&ours, b"").await;
    let mute =
        HttpsTarget { url: HttpsUrl::new(format!("https://127.0.0.1:{mute}/readyz")).unwrap(), ..good };
    let error = linux.get_https(&mute, Duration::from_millis(200)).await.unwrap_err();
    assert!(error.to_string().contains("no answer in time"), "{error}");
}

#[tokio::test]
async fn ports_accept_or_refuse() {
    let linux = Linux::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    linux.connect(&address, LONG).await.unwrap();
    drop(listener);
    let error = linux.connect(&address, LONG).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn the_age_of_what_is_there_is_found_and_links_are_not_followed() {
    let root = TempDir::new().unwrap();
    let linux = Linux::rooted(root.path()).unwrap();
    let at = put(root.path(), "last", "");
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    fs::File::options().write(true).open(root.path().join("last")).unwrap().set_modified(changed).unwrap();
    assert_eq!(linux.modified(&at).await.unwrap(), Some(Timestamp::from_second(1000).unwrap()));
    assert_eq!(linux.modified(&path("/missing")).await.unwrap(), None);
    assert_eq!(linux.modified(&path("/missing/last")).await.unwrap(), None);
    symlink("last", root.path().join("link")).unwrap();
    assert_ne!(linux.modified(&path("/link")).await.unwrap(), linux.modified(&at).await.unwrap());
    symlink(root.path(), root.path().join("way")).unwrap();
    assert!(matches!(linux.modified(&path("/way/last")).await, Err(MachineError::Link(_))));
}

fn probe(text: &str, target: Target) -> Probe {
    Probe { failure_threshold: 1, ..Probe::new(name(text), target) }
}

fn https(at: &str) -> Target {
    Target::Https(HttpsTarget::new(HttpsUrl::new(format!("https://127.0.0.1{at}")).unwrap()))
}

fn aged(at: &str, most: Option<u32>) -> Target {
    Target::File(FileTarget { path: path(at), max_age_seconds: most })
}

fn unit(text: &str) -> Target {
    Target::Unit(text.parse().unwrap())
}

#[tokio::test]
async fn each_target_succeeds_or_says_what_is_wrong() {
    let (world, clock) = (World::with(&[("/var/last", "")]), TestClock::new());
    world.state().open_ports.insert(22);
    for (name, active) in [("up.service", true), ("down.service", false)] {
        world.state().units.insert(name.to_owned(), Unit { active, ..Unit::default() });
    }
    let tcp = |text: &str| Target::Tcp(text.parse().unwrap());
    clock.pass(Duration::from_secs(100));
    let mut plan = plan(1, vec![support::run("a", "a")]);
    plan.redact = vec![SecretText::new("hunter2")];
    let cases = [
        ("https", https("/readyz"), None),
        ("https-refuses", https("/refuses"), Some("the answer was 403")),
        ("tcp", tcp("127.0.0.1:22"), None),
        ("tcp-closed", tcp("127.0.0.1:23"), Some("cannot connect to 127.0.0.1:23: connection refused")),
        ("file", aged("/var/last", None), None),
        ("file-missing", aged("/var/none", None), Some("/var/none does not exist")),
        ("file-recent", aged("/var/last", Some(100)), None),
        (
            "file-old",
            aged("/var/last", Some(99)),
            Some("/var/last was last changed 100 seconds ago, and 99 is the most"),
        ),
        ("unit", unit("up.service"), None),
        ("unit-down", unit("down.service"), Some("the unit down.service is inactive")),
        (
            "unit-odd",
            unit("odd.service"),
            Some("the state of unit odd.service is unknown: systemctl exited with 4"),
        ),
        (
            "exec",
            Target::Exec(argv("complain hunter2 is-wrong")),
            Some("the command exited with 1: [redacted] is-wrong"),
        ),
    ];
    plan.probes = cases.iter().map(|(name, target, _)| probe(name, target.clone())).collect();
    let mut prober = Prober::default();
    prober.watch(&verified(plan), clock.elapsed());
    assert!(prober.probe_due(&world, &clock).await);
    let results = prober.results();
    assert_eq!(results.len(), cases.len());
    for (result, (case, _, wrong)) in results.iter().zip(cases) {
        assert_eq!((result.healthy, result.message.as_deref()), (wrong.is_none(), wrong), "{case}");
    }
}

/// A file that was changed in the future is not old: the clock of the machine may have been set.
#[tokio::test]
async fn a_clock_that_was_set_back_makes_nothing_old() {
    let (world, clock) = (World::with(&[("/var/last", "")]), TestClock::new());
    clock.set(Timestamp::UNIX_EPOCH);
    let mut plan = plan(1, vec![support::run("a", "a")]);
    plan.probes = vec![probe("file", aged("/var/last", Some(1)))];
    let mut prober = Prober::default();
    prober.watch(&verified(plan), clock.elapsed());
    assert!(prober.probe_due(&world, &clock).await);
    assert!(prober.results()[0].healthy);
}

#[tokio::test]
async fn a_check_waits_for_a_target() {
    let check = |target| Step::new(name("check"), Action::Check(Check { target }));
    for (target, phase, message) in [
        (unit("up.service"), Phase::Applied, None),
        (unit("down.service"), Phase::Failed, Some("step check: the unit down.service is inactive")),
        (https("/refuses"), Phase::Failed, Some("step check: the answer was 403")),
    ] {
        let world = World::default();
        for (name, active) in [("up.service", true), ("down.service", false)] {
            world.state().units.insert(name.to_owned(), Unit { active, ..Unit::default() });
        }
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world, journal, TestClock::new());
        let plan = steps(1, vec![check(target)]);
        let end = engine.apply(&plan, &shut(&plan), |_| ()).await.unwrap();
        assert_eq!((end.phase, end.message.as_deref()), (phase, message));
    }
}
