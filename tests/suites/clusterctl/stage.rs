//! A real plane, a repository of releases, and clusterctl between them.

use capstan_testkit::{RealPlane, eventually};
use capstan_tests::capstan;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct Stage {
    pub(crate) plane: RealPlane,
    folder: TempDir,
}

impl Stage {
    /// A plane with nothing on it, and a repository with these versions.
    pub(crate) async fn set(versions: &[&str]) -> Self {
        let stage = Self {
            plane: RealPlane::start().await.unwrap(),
            folder: TempDir::with_prefix("capstan-clusterctl-").unwrap(),
        };
        let repository = stage.path("repository");
        for version in versions {
            capstan(&["release", "--version", version, "--out", repository.to_str().unwrap()]).unwrap();
        }
        stage
    }

    /// A place for a file of this stage.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs clusterctl as its user would, who has the release's configuration, and gives what it prints.
    pub(crate) fn clusterctl(&self, args: &[&str]) -> String {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let repository = text(&self.path("repository"));
        let config = text(&self.path("repository/clusterctl.yaml"));
        let variables = [
            ("CAPSTAN_REPOSITORY", repository.as_str()),
            ("CAPSTAN_PLANE_SERVER", self.plane.server()),
            ("KUBECONFIG", &text(self.plane.kubeconfig())),
        ];
        capstan_tests::clusterctl(&[args, &["--config", &config]].concat(), &variables, "").unwrap()
    }

    /// Runs kubectl as the administrator.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.plane.kubectl(args).await?.success()
    }

    /// The same for what it reads as JSON.
    pub(crate) async fn get(&self, args: &[&str]) -> anyhow::Result<Value> {
        let text = self.kubectl(&[&["get", "--output=json"], args].concat()).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Every Deployment has our image in this version.
    pub(crate) async fn images_are(&self, version: &str) {
        let deployments = self.get(&["deployments", "--all-namespaces"]).await.unwrap();
        let images: Vec<&str> = deployments["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|deployment| {
                deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap()
            })
            .collect();
        assert_eq!(images, vec![format!("ghcr.io/capstan-dev/capstan:{version}"); 5]);
    }

    /// Whether the manager of a provider may do something to objects of a namespace.
    pub(crate) async fn may(&self, controllers: &str, verb: &str, resource: &str, namespace: &str) -> bool {
        let account =
            format!("--as=system:serviceaccount:capstan-{controllers}-system:capstan-{controllers}-manager");
        let asked = ["auth", "can-i", verb, resource, &account, "--namespace", namespace];
        self.plane.kubectl(&asked).await.unwrap().stdout.trim() == "yes"
    }

    /// Nobody may touch Secrets but where clusters are, and the hooks not even there.
    pub(crate) async fn secrets_are_kept_from_others(&self) {
        for verb in ["get", "list", "create", "update", "delete"] {
            for controllers in super::ALL {
                let may = self.may(controllers, verb, "secrets", "default").await;
                assert!(!may, "{controllers} may {verb} any Secret");
            }
            let may = self.may("hooks", verb, "secrets", super::fleet::NAMESPACE).await;
            assert!(!may, "the hooks may {verb} Secrets of clusters");
        }
        assert!(self.may("bootstrap", "create", "secrets", super::fleet::NAMESPACE).await);
    }

    /// Nothing of a provider is left on the plane but its kinds.
    pub(crate) async fn is_empty(&self) {
        let kinds = "namespaces,clusterroles,clusterrolebindings";
        eventually(DEADLINE, "nothing of a provider to be left", async || {
            let left = self
                .kubectl(&["get", kinds, "--selector=cluster.x-k8s.io/provider", "--output=name"])
                .await?;
            anyhow::ensure!(left.is_empty(), "{left}");
            Ok(())
        })
        .await
        .unwrap();
    }
}
