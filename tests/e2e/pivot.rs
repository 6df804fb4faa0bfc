//! How one outgrows one machine: Capstan makes a cluster, is installed into it by the real clusterctl and runs there as
//! pods; makes a simulated cluster from there; and then the cluster moves into itself and goes on being changed in place.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use capstan_testkit::eventually;
use capstan_tests::{K3S, Surroundings, Yard, capstan, capstan_output, follow, kubectl};
use capstan_tools::k3s_bundle;
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_made_into_its_own_management_plane() {
    let release = release();
    let mut yard = Yard::embedded(&["only"]).await.unwrap();
    yard.add_hosts(&["only"], &[]).await.unwrap();
    let cluster = yard.cluster("home");
    cluster.make(1, 0, K3S[0]).await.unwrap();
    cluster.until_ready(1, K3S[0]).await.unwrap();
    let home = cluster.kubeconfig_file().await.unwrap();

    install(&yard, &release, &home).await;
    pivot(&yard, &home).await;

    // What is changed from now on is changed by the pods, on the machine that they run on.
    let machine = yard.machine("only").unwrap();
    let uid = json(&home, &["get", "nodes", "-o", "json"])["items"][0]["metadata"]["uid"].clone();
    let change = r#"{"spec":{"config":{"settings":{"debug":true}}}}"#;
    kubectl(&home, &["patch", "capstancontrolplane", "home-control-plane", "--type=merge", "-p", change], "")
        .unwrap();
    eventually(DEADLINE, "the change to be made", async || {
        let config: Value = serde_json::from_str(&machine.run("cat /etc/rancher/k3s/config.yaml").await?)?;
        anyhow::ensure!(config["debug"] == true, "{config}");
        let machines = kubectl(&home, &["get", "machines", "-o", "json"], "")?;
        let machines: Value = serde_json::from_str(&machines)?;
        let machine = &machines["items"][0];
        let is_up_to_date = machine["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "UpToDate" && c["status"] == "True"));
        anyhow::ensure!(is_up_to_date, "{}", machine["status"]["conditions"]);
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(json(&home, &["get", "nodes", "-o", "json"])["items"][0]["metadata"]["uid"], uid);
}

/// Everything that is published, as `make release` builds it.
fn release() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--bin", "xtask", "--", "release", version])
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success(), "there is no release");
    root.join("target/dist").join(version)
}

/// The image is brought to the machine, and the rest is as the quick start says: clusterctl installs, and the pods make a
/// cluster of simulated hosts and take it away again.
async fn install(yard: &Yard, release: &Path, home: &Path) {
    let machine = yard.machine("only").unwrap();
    let image = release.join("capstan-image-linux-amd64.tar");
    machine.put(&image, "/root/capstan.tar", 0o600).await.unwrap();
    let import = "k3s=$(systemctl show k3s --property ExecStart --value | sed 's/.*path=\\([^ ;]*\\).*/\\1/'); \
                  $k3s ctr images import /root/capstan.tar && rm /root/capstan.tar";
    machine.run(import).await.unwrap();
    let values = format!(
        "export KUBECONFIG={} CAPSTAN_PLANE_SERVER=https://{}:6443 CAPSTAN_REPOSITORY={}\n\
         export CLUSTERCTL_DISABLE_VERSIONCHECK=true GOPROXY=off\n",
        home.display(),
        machine.address(),
        release.join("repository").display(),
    );
    let printed = follow("clusterctl.md", Surroundings::Machines(&values)).await.unwrap();
    assert!(printed.contains("cluster.cluster.x-k8s.io/blue condition met"), "{printed}");
    let pods = json(home, &["get", "pods", "-A", "-l", "cluster.x-k8s.io/provider", "-o", "json"]);
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), 5);
    for pod in pods {
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true, "{}", pod["status"]);
    }
}

/// The cluster moves from the embedded plane into itself.
async fn pivot(yard: &Yard, home: &Path) {
    let home = home.to_str().unwrap();
    let access = capstan(&["generate", "access", "--namespace", "default"]).unwrap();
    kubectl(Path::new(home), &["apply", "-f", "-"], &access).unwrap();
    // The embedded plane had k3s in a folder; here it is named by where it can be had.
    let bundle = k3s_bundle(K3S[0]).unwrap();
    let shelf = yard.folder().join("named");
    for (name, file) in [("k3s", &bundle.program), ("k3s-airgap-images", &bundle.images)] {
        let (digest, size) = (file.sha256.clone(), std::fs::metadata(&file.path).unwrap().len().to_string());
        let url = format!("https://software.example/{name}");
        let words = ["--name", name, "--version", K3S[0], "--arch", "amd64", "--url", &url];
        let known = ["--sha256", &digest, "--size", &size, "--artifacts-dir", shelf.to_str().unwrap()];
        capstan(&[&["artifacts", "add"], &words[..], &known].concat()).unwrap();
    }
    let index = format!("--from-file={}", shelf.join("index.yaml").display());
    let map = ["create", "configmap", "capstan-software", "-n", "capstan-control-plane-system", &index];
    kubectl(Path::new(home), &map, "").unwrap();
    let from = yard.kubeconfig();
    let args = ["move", "--kubeconfig", from.to_str().unwrap(), "--to-kubeconfig", home];
    let (code, _, stderr) = capstan_output(&args, "").unwrap();
    assert_eq!(code, 0, "{stderr}");
    let left = json(&from, &["get", "clusters,machines,hosts", "-o", "json"]);
    assert_eq!(left["items"].as_array().unwrap().len(), 0, "{left}");
    eventually(DEADLINE, "the pods to look after the cluster", async || {
        let wait = ["wait", "cluster/home", "--for=condition=Available", "--timeout=5s"];
        kubectl(Path::new(home), &wait, "").map(drop)
    })
    .await
    .unwrap();
}

fn json(kubeconfig: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&kubectl(kubeconfig, args, "").unwrap()).unwrap()
}
