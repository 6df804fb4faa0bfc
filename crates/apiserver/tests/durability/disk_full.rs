//! A disk without room: what was acknowledged stays, the error says what is wrong, and it goes on by itself once
//! there is room.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{MAPS, TestPlane, eventually};
use capstan_apiserver::{Options, Storage};
use serde_json::{Value, json};

/// A small disk; dropping it takes it away.
struct Disk(PathBuf);

impl Disk {
    /// `None`, with the reason printed, for users who may not mount. With `STRICT` that is a failure.
    fn mount(at: &Path) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(at).output();
        let why = match mount {
            Ok(output) if output.status.success() => return Some(Self(at.to_owned())),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let is_strict = std::env::var("STRICT").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
        assert!(!is_strict, "cannot mount a disk: {why}");
        eprintln!("skipped, because no disk can be mounted: {why}");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn big(name: &str) -> Value {
    let text = format!("{name} ").repeat(20_000);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}})
}

async fn all(plane: &TestPlane) -> Value {
    plane.admin.get(MAPS).await.1["items"].clone()
}

#[tokio::test]
async fn nothing_is_lost_and_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path()) else { return };
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![1; 5 << 20]).unwrap();
    let options = || Options { history: 5, ..Options::new(Storage::Folder(folder.path().join("store"))) };
    let plane = TestPlane::open(options()).await;

    let mut acknowledged = Vec::new();
    let refusal = loop {
        let name = format!("o{}", acknowledged.len());
        match plane.admin.post(MAPS, &big(&name)).await {
            (201, object) => acknowledged.push(object),
            (code, refusal) => {
                assert_eq!(code, 500, "{refusal}");
                break refusal;
            }
        }
        assert!(acknowledged.len() < 1000, "the disk is bigger than it says");
    };
    assert!(acknowledged.len() > 5);
    assert!(refusal["message"].as_str().unwrap().contains("the disk is full"), "{refusal}");
    // Reads go on; writes go on being refused for as long as it takes.
    assert_eq!(all(&plane).await.as_array().unwrap().len(), acknowledged.len());
    assert_eq!(plane.admin.post(MAPS, &big("another")).await.0, 500);
    // The plane is not ready, and a restart would not make room.
    let code = async |path: &str| plane.admin.get(path).await.0;
    assert_eq!((code("/readyz").await, code("/readyz/store").await, code("/livez").await), (500, 500, 200));

    fs::remove_file(&ballast).unwrap();
    // It is found out without a write of a client.
    eventually("it is ready", || async { code("/readyz").await == 200 }).await;
    eventually("it goes on", || async { plane.admin.post(MAPS, &big("after")).await.0 == 201 }).await;
    let before = all(&plane).await;
    plane.server.shutdown().await;
    drop(plane);

    let plane = TestPlane::open(options()).await;
    let found = all(&plane).await;
    assert_eq!(found, before, "memory and disk agree");
    for object in &acknowledged {
        let same = |other: &Value| {
            other["metadata"]["uid"] == object["metadata"]["uid"] && other["data"] == object["data"]
        };
        assert!(found.as_array().unwrap().iter().any(same), "{} is lost", object["metadata"]["name"]);
    }
    plane.server.shutdown().await;
    drop(plane);
    drop(disk);
}
