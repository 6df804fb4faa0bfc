//! The main job, from outside: a cluster of simulated hosts comes up, changes its version in place and goes away,
//! on the embedded plane and on a real one, under our core and under upstream's, and with the process killed.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_plan::Digest;
use capstan_testkit::{Manager, RealPlane, UpstreamManagers, eventually, install_crds};
use capstan_tests::{Running, capstan, declared_writers, kubectl, simulated_hosts};
use serde_json::{Value, json};

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
/// Longer than any status is held back, and than what controllers do some time after a change.
const STABLE_FOR: Duration = Duration::from_secs(12);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_runs_to_its_end() {
    let printed = capstan(&["demo"]).unwrap();
    for sentence in ["The same 6 Machines and 6 Nodes as before", "Every host is clean and available again"] {
        assert!(printed.contains(sentence), "{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_changes_and_goes_on_the_embedded_plane() {
    let folder = Folder::new();
    let mut plane = folder.up();
    let user = User::of(folder.kubeconfig());
    user.ready().await;
    user.comes().await;
    user.changes().await;
    user.finds_declared_writers_only();
    user.goes().await;
    plane.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_changes_and_goes_on_a_real_plane() {
    let folder = Folder::new();
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
    let mut manager = folder.manager(plane.kubeconfig(), "all");
    let user = User::of(plane.kubeconfig().to_owned());
    user.comes().await;
    user.changes().await;
    user.goes().await;
    manager.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_providers_work_under_upstreams_core() {
    let folder = Folder::new();
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
    let _core = UpstreamManagers::start(&plane, &[Manager::Core]).await.unwrap();
    let mut manager = folder.manager(plane.kubeconfig(), "infrastructure,bootstrap,control-plane");
    let user = User::of(plane.kubeconfig().to_owned());
    user.comes().await;
    user.goes().await;
    manager.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_killed_again_and_again_still_gets_there() {
    let seed = std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("CAPSTAN_SEED={seed} replays the waits before each kill");
    let mut waits = Waits(seed);
    let folder = Folder::new();
    let mut plane = folder.up();
    let user = User::of(folder.kubeconfig());
    user.ready().await;
    user.apply_cluster().await;
    for _ in 0..4 {
        plane = folder.killed_after(waits.next(), plane).await;
        user.ready().await;
    }
    user.available().await;
    user.start_to_change();
    for _ in 0..2 {
        plane = folder.killed_after(waits.next(), plane).await;
        user.ready().await;
    }
    user.changed().await;
    user.start_to_delete();
    plane = folder.killed_after(waits.next(), plane).await;
    user.ready().await;
    user.gone().await;
    plane.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_restarted_writes_nothing() {
    let folder = Folder::new();
    let mut plane = folder.up();
    let user = User::of(folder.kubeconfig());
    user.ready().await;
    user.comes().await;
    let before = user.stable_versions().await;
    plane = folder.restarted(plane).await;
    user.ready().await;
    // Every controller has looked at its objects, and has nothing left to look at.
    user.controllers_have_looked().await;
    let after = user.stable_versions().await;
    assert_eq!(before, after, "an object was written after the restart although nothing had changed");
    plane.ensure_running().unwrap();
}

/// The CA of the plane is replaced with an overlap, and then the old one is of no use any more.
#[tokio::test(flavor = "multi_thread")]
async fn machines_follow_to_another_ca_of_their_plane() {
    let folder = Folder::new();
    let plane = folder.up();
    let user = User::of(folder.kubeconfig());
    user.ready().await;
    user.comes().await;
    let (machines, nodes) = (user.machines(), user.nodes("{.metadata.uid}").unwrap());
    let old = folder.path("old.kubeconfig");
    std::fs::copy(folder.kubeconfig(), &old).unwrap();

    folder.rotate(&[]).unwrap();
    let refused = folder.rotate(&["--finish"]).unwrap_err().to_string();
    assert!(refused.contains("machines that do not trust the new CA yet: lifecycle-"), "{refused}");
    let plane = folder.restarted(plane).await;
    user.ready().await;
    kubectl(&old, &["get", "clusters"], "").unwrap();
    eventually(DEADLINE, "the machines to trust both", async || folder.rotate(&["--finish"])).await.unwrap();
    let mut plane = folder.restarted(plane).await;
    user.ready().await;
    let refused = kubectl(&old, &["get", "clusters"], "").unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    let new = Digest::of(&std::fs::read(folder.path("data/pki/ca.crt")).unwrap()).to_string();
    eventually(DEADLINE, "the machines to trust the new one only", async || {
        let path = r#"jsonpath={range .items[*]}{.spec.enrolledWith.caDigest}{"\n"}{end}"#;
        let trusted = user.kubectl(&["get", "machinereports", "-o", path], "")?;
        let trusted: Vec<&str> = trusted.lines().collect();
        ensure!(trusted.len() == 5 && trusted.iter().all(|digest| *digest == new), "{trusted:?}");
        Ok(())
    })
    .await
    .unwrap();
    machines_enrol_again_when_their_tokens_are_rejected(&folder, &user).await;
    assert_eq!((user.machines(), user.nodes("{.metadata.uid}").unwrap()), (machines, nodes));
    user.changes().await;
    plane.ensure_running().unwrap();
}

/// The key of tokens has leaked: no token of before is worth anything, and no machine is lost.
async fn machines_enrol_again_when_their_tokens_are_rejected(folder: &Folder, user: &User) {
    let path = r#"jsonpath={range .items[*]}{.spec.credential.sealedToken}{"\n"}{end}"#;
    let credentials = || user.kubectl(&["get", "machinereports", "-o", path], "");
    let before: Vec<String> = credentials().unwrap().lines().map(str::to_owned).collect();
    let kubeconfig = folder.kubeconfig();
    let rotate = ["rotate", "token-key", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let said = capstan(&[&rotate[..], &["-o", "json"]].concat()).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["enrolAgain"], json!([]), "with the usual overlap they renew in time");
    let said = capstan(&[&rotate[..], &["-o", "json", "--keep-old-for", "80d"]].concat()).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["enrolAgain"], json!([]), "they renew after 60 days");
    let ends = r#"jsonpath={range .items[*]}{.spec.credential.expiresAt}{"\n"}{end}"#;
    let ends = user.kubectl(&["get", "machinereports", "-o", ends], "").unwrap();
    let key_ends = said["earlier"][0]["verifiesUntil"].as_str().unwrap();
    let expected = vec![key_ends; 5];
    assert_eq!(
        ends.lines().collect::<Vec<_>>(),
        expected,
        "no credential is recorded for longer than its key"
    );
    let said = capstan(&[&rotate[..], &["--keep-old-for", "0s"]].concat()).unwrap();
    assert!(said.contains("5 machines enrol again"), "{said}");
    eventually(DEADLINE, "the machines to have other credentials", async || {
        let now = credentials()?;
        let now: Vec<&str> = now.lines().filter(|token| !token.is_empty()).collect();
        let is_new = |token: &&str| !before.iter().any(|old| old == token);
        ensure!(now.len() == 5 && now.iter().all(is_new), "{} of 5", now.len());
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits between half a second and three and a half, from a seed.
struct Waits(u64);

impl Waits {
    fn next(&mut self) -> Duration {
        // A linear congruential generator: good enough to scatter a handful of waits.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(500 + (self.0 >> 33) % 3000)
    }
}

/// Where one plane keeps everything.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("capstan-lifecycle-").tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.path("data/admin.kubeconfig")
    }

    fn up(&self) -> Running {
        let data = self.path("data");
        let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        Running::start(&args, &self.path("capstan.log")).unwrap()
    }

    fn manager(&self, kubeconfig: &Path, controllers: &str) -> Running {
        let data = self.path("data");
        let args = [
            "manager",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--data-dir",
            data.to_str().unwrap(),
            "--controllers",
            controllers,
        ];
        Running::start(&args, &self.path("capstan.log")).unwrap()
    }

    /// Replaces the CA of the plane.
    fn rotate(&self, more: &[&str]) -> Result<String> {
        let data = self.path("data");
        capstan(&[&["rotate", "plane-ca", "--data-dir", data.to_str().unwrap()], more].concat())
    }

    async fn restarted(&self, mut plane: Running) -> Running {
        plane.terminate().unwrap();
        plane.ended(DEADLINE).await.unwrap();
        std::fs::remove_file(self.kubeconfig()).unwrap();
        self.up()
    }

    /// Lets the plane run for a while, kills it, and starts it anew on the same folder.
    async fn killed_after(&self, wait: Duration, mut plane: Running) -> Running {
        tokio::time::sleep(wait).await;
        plane.ensure_running().unwrap();
        plane.kill().unwrap();
        // An old kubeconfig would lead to where nobody listens any more.
        std::fs::remove_file(self.kubeconfig()).unwrap();
        self.up()
    }
}

/// A user with kubectl.
struct User {
    kubeconfig: PathBuf,
}

impl User {
    fn of(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig }
    }

    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.kubeconfig, args, input)
    }

    async fn ready(&self) {
        eventually(DEADLINE, "the plane to answer", async || self.kubectl(&["get", "--raw", "/readyz"], ""))
            .await
            .unwrap();
    }

    async fn comes(&self) {
        self.apply_cluster().await;
        self.available().await;
    }

    async fn apply_cluster(&self) {
        let version = ["--kubernetes-version", OLD];
        let size = ["--control-plane-machine-count", "3", "--worker-machine-count", "2"];
        let manifests =
            capstan(&[&["generate", "cluster", "lifecycle"], &version[..], &size[..]].concat()).unwrap();
        let manifests = format!("{}---\n{manifests}", simulated_hosts(5));
        eventually(DEADLINE, "the manifests to be taken", async || {
            self.kubectl(&["apply", "-f", "-"], &manifests)
        })
        .await
        .unwrap();
    }

    async fn available(&self) {
        eventually(DEADLINE, "the cluster to be available", async || {
            let path = r#"jsonpath={.status.conditions[?(@.type=="Available")]}"#;
            let condition = self.kubectl(&["get", "cluster", "lifecycle", "-o", path], "")?;
            ensure!(condition.contains(r#""status":"True""#), "{condition}");
            Ok(())
        })
        .await
        .unwrap();
        self.nodes_run(OLD).await;
    }

    async fn nodes_run(&self, version: &str) {
        eventually(DEADLINE, "every node to run that version", async || {
            let nodes = self.nodes("{.status.nodeInfo.kubeletVersion}")?;
            ensure!(nodes.len() == 5 && nodes.iter().all(|node| node == version), "{nodes:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// One thing of every Node, asked of the workload cluster itself.
    fn nodes(&self, what: &str) -> Result<Vec<String>> {
        let kubeconfig = self.kubectl(
            &["get", "secret", "lifecycle-kubeconfig", "-o", "go-template={{.data.value | base64decode}}"],
            "",
        )?;
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), kubeconfig)?;
        let path = format!(r#"jsonpath={{range .items[*]}}{what}{{"\n"}}{{end}}"#);
        let text = kubectl(file.path(), &["get", "nodes", "-o", &path], "")?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn machines(&self) -> Vec<String> {
        let path = r#"jsonpath={range .items[*]}{.metadata.uid}{"\n"}{end}"#;
        let mut uids: Vec<String> =
            self.kubectl(&["get", "machines", "-o", path], "").unwrap().lines().map(str::to_owned).collect();
        uids.sort();
        uids
    }

    async fn changes(&self) {
        let mut nodes = self.nodes("{.metadata.uid}").unwrap();
        let machines = self.machines();
        self.start_to_change();
        self.changed().await;
        let mut now = self.nodes("{.metadata.uid}").unwrap();
        nodes.sort();
        now.sort();
        assert_eq!(nodes, now, "a Node was replaced");
        assert_eq!(machines, self.machines(), "a Machine was replaced");
    }

    fn start_to_change(&self) {
        let control_plane = format!(r#"{{"spec":{{"version":"{NEW}"}}}}"#);
        let workers = format!(r#"{{"spec":{{"template":{{"spec":{{"version":"{NEW}"}}}}}}}}"#);
        let patch = |kind: &str, name: &str, patch: &str| {
            self.kubectl(&["patch", kind, name, "--type=merge", "-p", patch], "").unwrap();
        };
        patch("capstancontrolplane", "lifecycle-control-plane", &control_plane);
        patch("machinedeployment", "lifecycle-workers", &workers);
    }

    async fn changed(&self) {
        self.nodes_run(NEW).await;
    }

    async fn goes(&self) {
        self.start_to_delete();
        self.gone().await;
    }

    fn start_to_delete(&self) {
        self.kubectl(&["delete", "cluster", "lifecycle", "--wait=false"], "").unwrap();
    }

    async fn gone(&self) {
        eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
            let kinds = "clusters,machines,machinesets,hostmachines,capstanconfigs,machinereports,secrets";
            let left = self.kubectl(&["get", kinds, "-o", "name"], "")?;
            ensure!(left.is_empty(), "still there: {left}");
            let states = self.kubectl(&["get", "hosts", "-o", "jsonpath={.items[*].status.state}"], "")?;
            ensure!(states == "Available Available Available Available Available", "hosts: {states}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// The version of every object that controllers write, once they have not changed for longer than a controller holds
    /// a status back. Without HostMachineTemplates, whose free hosts are counted once a minute and after a start, and without
    /// MachineReports: simulated agents start again with the plane, and each reports once.
    async fn stable_versions(&self) -> Vec<String> {
        const KINDS: &str = "clusters,machines,machinesets,machinedeployments,hosts,hostpools,hostclusters,hostmachines,\
            capstanconfigs,capstanconfigtemplates,capstancontrolplanes,secrets,roles,\
            rolebindings,serviceaccounts,events";
        let path =
            r#"jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}"#;
        let read = || self.kubectl(&["get", KINDS, "--output", path], "");
        let mut last = read().unwrap();
        eventually(DEADLINE, "the controllers to write nothing for a while", async || {
            tokio::time::sleep(STABLE_FOR).await;
            let now = read()?;
            let same = now == last;
            last.clone_from(&now);
            ensure!(same, "something was written");
            Ok(now.lines().map(str::to_owned).collect())
        })
        .await
        .unwrap()
    }

    /// Waits until each of our controllers has reconciled, and no queue has anything in it.
    async fn controllers_have_looked(&self) {
        eventually(DEADLINE, "every controller to have looked", async || {
            let metrics = self.kubectl(&["get", "--raw", "/metrics"], "")?;
            let value = |name: &str, controller: &str| {
                let label = format!("\"{controller}\"");
                let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(&label));
                lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
            };
            for controller in [
                "cluster",
                "machine",
                "machineset",
                "machinedeployment",
                "hostmachine",
                "capstancontrolplane",
            ] {
                let looked = value("controller_runtime_reconcile_total", controller);
                let waiting = value("workqueue_depth", controller);
                ensure!(
                    looked > 0.0 && waiting == 0.0,
                    "{controller}: {looked} looks, {waiting} in the queue"
                );
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Every field that a controller of Capstan has written is one that it has declared.
    fn finds_declared_writers_only(&self) {
        const KINDS: &str = "clusters,machines,machinesets,machinedeployments,hosts,hostpools,hostclusters,\
            hostmachines,hostmachinetemplates,capstanconfigs,capstanconfigtemplates,capstancontrolplanes,\
            machinereports,secrets,serviceaccounts,roles,rolebindings,leases,extensionconfigs";
        let listed = self.kubectl(&["get", KINDS, "--output=json", "--show-managed-fields"], "").unwrap();
        let seen = declared_writers(&serde_json::from_str(&listed).unwrap());
        // Were there no managers to read, nothing would be compared.
        for writer in ["cluster", "machine", "machineset", "hostmachine", "bootstrap", "controlplane"] {
            assert!(seen.contains(writer), "{writer} has written nothing: {seen:?}");
        }
    }
}
