//! Upstream's CRD files, copied out of the Go modules so that tests need neither Go nor its module cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cache::{Cache, publish};
use crate::go;
use crate::pins::CLUSTER_API;
use crate::progress::Progress;

/// A folder of upstream's CRD files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrdSet {
    /// `cluster`, `addons`, `ipam` and `runtime.cluster.x-k8s.io`.
    Core,
    /// `clusterctl.cluster.x-k8s.io`.
    Clusterctl,
    /// The kubeadm bootstrap provider.
    KubeadmBootstrap,
    /// The kubeadm control plane provider.
    KubeadmControlPlane,
    /// The development infrastructure provider.
    Dev,
}

impl CrdSet {
    /// Every set.
    pub const ALL: [Self; 5] =
        [Self::Core, Self::Clusterctl, Self::KubeadmBootstrap, Self::KubeadmControlPlane, Self::Dev];

    /// The name of its folder in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Clusterctl => "clusterctl",
            Self::KubeadmBootstrap => "kubeadm-bootstrap",
            Self::KubeadmControlPlane => "kubeadm-control-plane",
            Self::Dev => "dev",
        }
    }

    /// The Go module and the folder in it.
    fn source(self) -> (&'static str, &'static str) {
        const MAIN: &str = "sigs.k8s.io/cluster-api";
        match self {
            Self::Core => (MAIN, "core/config/crd/bases"),
            Self::Clusterctl => (MAIN, "cmd/clusterctl/config/crd/bases"),
            Self::KubeadmBootstrap => (MAIN, "bootstrap/kubeadm/config/crd/bases"),
            Self::KubeadmControlPlane => (MAIN, "controlplane/kubeadm/config/crd/bases"),
            Self::Dev => ("sigs.k8s.io/cluster-api/test", "infrastructure/docker/config/crd/bases"),
        }
    }
}

/// The copied files.
#[derive(Clone, Debug)]
pub struct UpstreamCrds {
    folder: PathBuf,
}

impl UpstreamCrds {
    /// The copy in the user's cache, or an error that says how to get it.
    pub fn locate() -> Result<Self> {
        let folder = Cache::of_user()?.crds();
        ensure!(
            folder.is_dir(),
            "upstream's CRDs {} are not at {}: run `make tools`",
            CLUSTER_API.version,
            folder.display()
        );
        Ok(Self { folder })
    }

    /// The version of Cluster API they belong to.
    pub fn version(&self) -> &'static str {
        CLUSTER_API.version
    }

    /// The files of one set, sorted by name. One CRD in each.
    pub fn files(&self, set: CrdSet) -> Result<Vec<PathBuf>> {
        yaml_files(&self.folder.join(set.name()))
    }

    /// Copies what is not there yet. The caller holds the cache's lock.
    pub(crate) fn copy(cache: &Cache, progress: Progress<'_>) -> Result<()> {
        let folder = cache.crds();
        if folder.is_dir() {
            progress(&format!("upstream CRDs {}: there", CLUSTER_API.version));
            return Ok(());
        }
        go::require(&CLUSTER_API)?;
        let partial = folder.with_file_name("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        }
        let mut copied = 0;
        for set in CrdSet::ALL {
            let (module, path) = set.source();
            let source = go::module_folder(&CLUSTER_API, module)?.join(path);
            copied += copy_set(&source, &partial.join(set.name()))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
        publish(&partial, &folder)?;
        progress(&format!("upstream CRDs {}: {copied} files copied", CLUSTER_API.version));
        Ok(())
    }
}

fn copy_set(source: &Path, target: &Path) -> Result<usize> {
    fs::create_dir_all(target)?;
    let files = yaml_files(source)?;
    ensure!(!files.is_empty(), "there is no CRD in it");
    for file in &files {
        // Read and write, not copy: the module cache is read-only and a copy would be, too.
        let to = target.join(file.file_name().context("a file without a name")?);
        fs::write(&to, fs::read(file)?)?;
        fs::File::open(&to)?.sync_all()?;
    }
    Ok(files.len())
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}
