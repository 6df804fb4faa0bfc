//! Who may do what, on the embedded plane and on a real one: the same requests, told to both, must get the same
//! answers. It is the way a machine gets its credential, and every way around it that was thought of.

#![cfg(test)]
#![allow(clippy::needless_pass_by_value, reason = "a script reads best with its values in place")]

mod closure;
mod kubectl;
mod machine;
mod rights;
mod script;

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use capstan_testkit::RealPlane;
use capstan_tests::{Embedded, Place};
use script::Script;

const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_gets_its_credential_alike() {
    both(async |script| machine::enrols(script).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_judged_alike() {
    both(async |script| rights::are_judged(script).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_reach_what_is_documented() {
    both(async |script| closure::is_as_documented(script).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_gets_the_same_answers() {
    both(async |script| kubectl::prints(script).await).await;
}

/// Machines are elsewhere: a plane that listens on another address is reached there, by a name in its certificate,
/// and says out loud that it can be.
#[tokio::test(flavor = "multi_thread")]
async fn planes_listen_where_machines_can_reach_them() {
    let address = outward_address();
    let embedded = Embedded::start_at(address).await.unwrap();
    let real = RealPlane::start_at(address).await.unwrap();
    assert!(real.server().starts_with(&format!("https://{address}:")));
    for kubeconfig in [embedded.kubeconfig(), real.kubeconfig().to_owned()] {
        assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains(&format!("https://{address}:")));
        let admin = Place::of(&kubeconfig).unwrap().admin().await.unwrap();
        let answer = admin.ask("GET", "/api/v1/namespaces/default", &serde_json::Value::Null).await.unwrap();
        assert_eq!(answer.code, 200, "{answer:?}");
    }
    let log = embedded.log();
    assert_eq!(log.contains("WARNING: the API is served on"), !address.is_loopback(), "{log}");
}

/// The address that leads out of this machine; if none does, another one than everybody's.
fn outward_address() -> Ipv4Addr {
    // Nothing is sent: the address is for documentation, and only the way to it is looked up.
    let found = UdpSocket::bind("0.0.0.0:0")
        .and_then(|socket| socket.connect("192.0.2.200:9").and_then(|()| socket.local_addr()));
    match found.map(|found| found.ip()) {
        Ok(IpAddr::V4(address)) if !address.is_unspecified() => address,
        _ => Ipv4Addr::new(127, 0, 0, 2),
    }
}

/// Plays a script on both planes and compares what they said, line by line.
async fn both(play: impl AsyncFn(&mut Script)) {
    let (real, embedded) = tokio::join!(RealPlane::start(), Embedded::start());
    let (real, embedded) = (real.unwrap(), embedded.unwrap());
    let mut transcripts = Vec::new();
    for (plane, kubeconfig) in
        [("real", real.kubeconfig().to_owned()), (script::EMBEDDED, embedded.kubeconfig())]
    {
        let mut script = Script::new(plane, &kubeconfig).await.unwrap();
        play(&mut script).await;
        transcripts.push(script.into_transcript());
    }
    let [real, embedded] = transcripts.try_into().unwrap();
    let differences: Vec<String> = real
        .iter()
        .zip(&embedded)
        .filter(|(real, embedded)| real != embedded)
        .map(|(real, embedded)| format!("real:     {real}\nembedded: {embedded}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert_eq!(real.len(), embedded.len());
    assert!(real.len() > 5, "a script tells something");
}
