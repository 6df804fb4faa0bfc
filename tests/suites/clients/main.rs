//! Real clients on the embedded plane and on a real one: the same scripts, and what the clients print and how they end must be
//! the same. What differs on purpose is in `docs/reference/embedded-plane.md`; a script looks past it where it does.
//!
//! `CAPSTAN_SCRIPT` plays one script only.

#![cfg(test)]

mod clusterctl;
mod plain;
mod plugin;
mod python;
mod script;

use std::path::{Path, PathBuf};

use capstan_testkit::RealPlane;
use capstan_tests::Embedded;

/// What people type, one theme after the other.
const SCRIPTS: [&str; 8] = ["create", "apply", "change", "read", "remove", "custom", "server", "watch"];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_says_the_same() {
    let planes = Planes::start().await;
    let only = std::env::var("CAPSTAN_SCRIPT").ok();
    let mut differences = Vec::new();
    for name in SCRIPTS.into_iter().filter(|name| only.as_deref().is_none_or(|only| only == *name)) {
        let [real, embedded] = planes.kubeconfigs();
        let (real, embedded) = tokio::join!(script::play(name, &real), script::play(name, &embedded));
        let (real, embedded) = (real.unwrap(), embedded.unwrap());
        assert_eq!(real.len(), embedded.len());
        let pairs = real.iter().zip(&embedded).filter(|(real, embedded)| real != embedded);
        differences.extend(
            pairs.map(|(real, embedded)| {
                format!("{name}: {}\nreal: {real}\nembedded: {embedded}", real.command)
            }),
        );
    }
    assert!(differences.is_empty(), "{} differ:\n\n{}", differences.len(), differences.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn python_sees_the_same() {
    let planes = Planes::start().await;
    let [real, embedded] = planes.kubeconfigs();
    let (real, embedded) = tokio::join!(python::run(&real), python::run(&embedded));
    let (real, embedded) = (real.unwrap(), embedded.unwrap());
    let differences: Vec<String> = real
        .lines()
        .zip(embedded.lines())
        .filter(|(real, embedded)| real != embedded)
        .map(|(real, embedded)| format!("real:     {real}\nembedded: {embedded}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert_eq!(real.lines().count(), embedded.lines().count());
    assert!(real.ends_with("gone: true\n"), "{real}");
}

/// A real plane and an embedded one.
struct Planes {
    real: RealPlane,
    embedded: Embedded,
}

impl Planes {
    async fn start() -> Self {
        // One after the other: the first may be built before it starts, and nothing else moves meanwhile.
        let embedded = Embedded::start().await.unwrap();
        Self { real: RealPlane::start().await.unwrap(), embedded }
    }

    fn kubeconfigs(&self) -> [PathBuf; 2] {
        [self.real.kubeconfig().to_owned(), self.embedded.kubeconfig()]
    }
}

/// The folder of this suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/clients")
}
