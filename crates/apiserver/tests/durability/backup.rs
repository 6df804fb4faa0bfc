//! A backup of a server that serves: whole, of one moment, and for nobody but those above all roles.

use crate::support::{Caller, MAPS, TestPlane, map};
use capstan_apiserver::{Backup, Options, PartialFile, Storage, User};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const PATH: &str = "/capstan/v1/backup";
/// Of objects that are written one after the other.
const PAIRS: usize = 30;

async fn fetch(caller: &Caller) -> (u16, Vec<u8>) {
    let response = caller.send("GET", PATH, "", &Value::Null).await;
    (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let plane = TestPlane::open(Options::new(Storage::Folder(folder.path().join("store")))).await;
    // Two objects that are always written in this order: a backup with the second has the first.
    let writer = tokio::spawn({
        let admin = plane.admin.clone();
        async move {
            for n in 0..PAIRS {
                admin.make(MAPS, &map(&format!("first-{n}"))).await;
                admin.make(MAPS, &map(&format!("second-{n}"))).await;
            }
        }
    });
    let mut taken = 0;
    let mut is_last = false;
    while !is_last {
        // Looked at before the backup is taken: the last one has all.
        is_last = taken >= 4 && writer.is_finished();
        let (code, bytes) = fetch(&plane.admin).await;
        assert_eq!(code, 200);
        let path = folder.path().join(format!("backup-{taken}"));
        let mut file = PartialFile::create(&path).unwrap();
        file.write(&bytes).unwrap();
        let backup = file.finish().unwrap();
        assert!(PartialFile::create(&path).is_err(), "a backup is never overwritten");
        let text = String::from_utf8(bytes).unwrap();
        for n in 0..PAIRS {
            let has = |name: String| text.contains(&format!("/{name}\""));
            assert!(has(format!("first-{n}")) || !has(format!("second-{n}")), "{n} at {}", backup.revision());
        }
        taken += 1;
    }
    writer.await.unwrap();
    plane.server.shutdown().await;

    let last = Backup::read(&folder.path().join(format!("backup-{}", taken - 1))).unwrap();
    let restored = folder.path().join("restored");
    let revision = last.restore(&restored).unwrap();
    let plane = TestPlane::open(Options::new(Storage::Folder(restored))).await;
    assert!(plane.server.revision() >= revision);
    assert_eq!(plane.admin.get(MAPS).await.1["items"].as_array().unwrap().len(), 2 * PAIRS);
    // A watch that was open before is told to begin again.
    let mut watch = plane.admin.watch(&format!("{MAPS}?watch=1&resourceVersion={}", last.revision())).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_role_that_reads_every_path_is_not_enough() {
    let plane = TestPlane::start().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "everything"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    });
    plane.admin.make(&format!("{rbac}/clusterroles"), &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    plane.admin.make(&format!("{rbac}/clusterrolebindings"), &binding).await;
    let jane = plane.caller(User::new("jane", ["system:authenticated"]));
    assert_eq!(jane.get("/api/v1/secrets").await.0, 200);
    let (code, bytes) = fetch(&jane).await;
    assert_eq!(code, 403, "{}", String::from_utf8_lossy(&bytes));
    let nobody = plane.caller(User::new("nobody", ["system:authenticated"]));
    assert_eq!(fetch(&nobody).await.0, 403);
    assert_eq!(plane.admin.post(PATH, &json!({})).await.0, 405);
}
