//! A clock that is set back changes what objects say of time, and nothing else: revisions go on, watches miss
//! nothing, tokens and leases stay usable.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use crate::support::{MAPS, TestPlane, map};
use capstan_apiserver::{Options, Storage};
use jiff::Timestamp;
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const START: i64 = 1_800_000_000;

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn is_believed(plane: &TestPlane, token: &Value) -> bool {
    let review = json!({"spec": {"token": token}});
    let review = plane.admin.make("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    review["status"]["authenticated"] == true
}

async fn token(plane: &TestPlane) -> Value {
    plane.admin.make(&format!("{ACCOUNTS}/m/token"), &json!({})).await["status"]["token"].clone()
}

#[tokio::test]
async fn a_clock_that_is_set_back_confuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(START));
    let options = || {
        let clock = Arc::clone(&clock);
        let mut options = Options::new(Storage::Folder(folder.path().join("store")));
        options.clock = Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
        options
    };
    let plane = TestPlane::open(options()).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "m"}});
    plane.admin.make(ACCOUNTS, &account).await;
    let old = token(&plane).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2027-01-15T08:00:00.000000Z"},
    });
    let mut lease = plane.admin.make(LEASES, &lease).await;
    let before = plane.admin.make(MAPS, &map("before")).await;
    let mut watch = plane.admin.watch(&format!("{MAPS}?watch=1&resourceVersion={}", revision(&before))).await;

    // As much as machines differ: nobody notices.
    clock.store(START - 30, Ordering::Relaxed);
    assert!(is_believed(&plane, &old).await);

    // An hour: tokens of the future wait until it has come, as everywhere; new ones are believed at once.
    clock.store(START - 3600, Ordering::Relaxed);
    assert!(!is_believed(&plane, &old).await);
    let new = token(&plane).await;
    assert!(is_believed(&plane, &new).await);
    let after = plane.admin.make(MAPS, &map("after")).await;
    assert!(revision(&after) > revision(&before));
    let created = |object: &Value| object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert!(created(&after) < created(&before));
    assert_eq!(watch.short().await, ("ADDED".to_owned(), "after".to_owned()));
    lease["spec"]["holderIdentity"] = "b".into();
    lease["spec"]["renewTime"] = "2027-01-15T07:00:00.000000Z".into();
    let (code, renewed) = plane.admin.put(&format!("{LEASES}/l"), &lease).await;
    assert_eq!(code, 200, "{renewed}");
    assert!(revision(&renewed) > revision(&after));
    let (code, _) = plane.admin.delete(&format!("{MAPS}/before"), &Value::Null).await;
    assert_eq!(code, 200);
    let last = plane.server.revision();
    plane.server.shutdown().await;

    // The same over a start, and when the clock is right again.
    let plane = TestPlane::open(options()).await;
    assert_eq!(plane.server.revision(), last);
    assert!(revision(&plane.admin.make(MAPS, &map("later")).await) > last);
    clock.store(START, Ordering::Relaxed);
    assert!(is_believed(&plane, &old).await);
    plane.server.shutdown().await;
}
