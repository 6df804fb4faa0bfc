//! The real plane really runs: it collects garbage, deletes namespaces, knows who is who, keeps to itself, and is
//! gone when it is dropped.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_testkit::{RealPlane, eventually};
use capstan_tools::Program;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn dependents_and_namespaces_are_deleted() {
    let plane = RealPlane::start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.client(), "yard");
    create(&namespaces, json!({ "metadata": { "name": "yard" } })).await;
    let owner = create(&config_maps, json!({ "metadata": { "name": "owner" } })).await;
    let reference =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid });
    let dependent = json!({ "metadata": { "name": "dependent", "ownerReferences": [reference] } });
    create(&config_maps, dependent).await;

    config_maps.delete("owner", &DeleteParams::background()).await.unwrap();
    eventually(DEADLINE, "the dependent to be collected", async || gone(&config_maps, "dependent").await)
        .await
        .unwrap();

    create(&config_maps, json!({ "metadata": { "name": "last" } })).await;
    namespaces.delete("yard", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "the namespace to go", async || gone(&namespaces, "yard").await).await.unwrap();
    assert!(config_maps.get_opt("last").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_sees_the_pinned_version_and_certificates_make_users() {
    let plane = RealPlane::start().await.unwrap();
    let version = plane.kubectl(&["version", "-o", "json"]).await.unwrap().success().unwrap();
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], Program::KubeApiserver.version());
    assert!(Program::KubeApiserver.version().starts_with("v1.36."));

    let reader = "
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: sailors}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
        subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: sailors}]";
    plane.apply_yaml(reader).await.unwrap();
    let sailor = plane.kubeconfig_for("ann", &["crew", "sailors"]).unwrap();
    // Rights come from an informer in the API server: soon, but not at once.
    eventually(DEADLINE, "sailors to be readers", async || {
        plane.kubectl_as(&sailor, &["get", "configmaps"]).await?.success()
    })
    .await
    .unwrap();
    let refused = plane.kubectl_as(&sailor, &["create", "configmap", "graffiti"]).await.unwrap();
    assert!(!refused.status.success());
    assert!(refused.stderr.contains(r#"User "ann" cannot create"#), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn planes_run_side_by_side() {
    let (one, other) = tokio::try_join!(RealPlane::start(), RealPlane::start()).unwrap();
    let of = |plane: &RealPlane| Api::<ConfigMap>::namespaced(plane.client(), "default");
    create(&of(&one), json!({ "metadata": { "name": "only-here" } })).await;
    assert!(of(&one).get_opt("only-here").await.unwrap().is_some());
    assert!(of(&other).get_opt("only-here").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let plane = RealPlane::start().await.unwrap();
    let left = Left::of(&plane);
    left.ensure_there().unwrap();
    drop(plane);
    left.ensure_gone().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind_by_a_panic() {
    let plane = RealPlane::start().await.unwrap();
    let left = Left::of(&plane);
    let panicked = tokio::spawn(async move {
        let _plane = plane;
        panic!("on purpose");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    left.ensure_gone().unwrap();
}

/// Runs itself again as a child, which starts a plane and is killed without warning.
#[tokio::test(flavor = "multi_thread")]
async fn programs_die_with_a_killed_test() {
    const REPORT_TO: &str = "CAPSTAN_TEST_REPORT_TO";
    if let Some(path) = std::env::var_os(REPORT_TO) {
        let plane = RealPlane::start().await.unwrap();
        let report = json!({ "folder": plane.folder(), "ids": plane.process_ids() }).to_string();
        let path = PathBuf::from(path);
        std::fs::write(path.with_extension("new"), report).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
        return std::future::pending().await;
    }

    let scratch = std::env::temp_dir().join(format!("capstan-killed-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let report = scratch.join("report");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "programs_die_with_a_killed_test"])
        .env(REPORT_TO, &report)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let report: Result<Option<Value>> = eventually(DEADLINE, "the child's plane", async || {
        let ended = child.try_wait()?.is_some();
        Ok(if ended { None } else { Some(serde_json::from_slice(&std::fs::read(&report)?)?) })
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(&scratch).unwrap();
    let report = report.unwrap().expect("the child must not end by itself");

    let ids = serde_json::from_value(report["ids"].clone()).unwrap();
    let left = Left { folder: report["folder"].as_str().unwrap().into(), ids };
    assert_eq!(left.ids.len(), 3);
    let dead = eventually(Duration::from_secs(10), "its programs to die", async || left.ensure_dead()).await;
    // Who is killed cannot tidy up.
    std::fs::remove_dir_all(&left.folder).unwrap();
    dead.unwrap();
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn gone<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let found = api.get_opt(name).await?;
    ensure!(found.is_none(), "{found:?}");
    Ok(())
}

/// What a plane must not leave.
struct Left {
    folder: PathBuf,
    ids: Vec<u32>,
}

impl Left {
    fn of(plane: &RealPlane) -> Self {
        Self { folder: plane.folder().to_owned(), ids: plane.process_ids() }
    }

    fn ensure_there(&self) -> Result<()> {
        ensure!(self.folder.is_dir() && self.ids.len() == 3 && self.ids.iter().all(|id| is_alive(*id)));
        Ok(())
    }

    fn ensure_dead(&self) -> Result<()> {
        let alive: Vec<_> = self.ids.iter().filter(|id| is_alive(**id)).collect();
        ensure!(alive.is_empty(), "processes {alive:?} run");
        Ok(())
    }

    fn ensure_gone(&self) -> Result<()> {
        self.ensure_dead()?;
        ensure!(!self.folder.exists(), "{} is there", self.folder.display());
        Ok(())
    }
}

/// Dead is also who only waits for its parent to take notice.
fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z')))
}
