//! Upstream's core, as far as clusterctl needs it: its release cannot be had without a network, so one is made from its
//! own CRDs.

use capstan_testkit::{CrdSet, Manager, UpstreamManagers};
use capstan_tools::{Program, UpstreamCrds};
use std::fs;

use crate::stage::Stage;

/// Puts upstream's core in the place of ours in the repository, and gives its version.
pub(crate) fn core(stage: &Stage) -> &'static str {
    let version = Program::CapiCore.version();
    let provider = stage.path("repository/cluster-api");
    fs::remove_dir_all(&provider).unwrap();
    let folder = provider.join(version);
    fs::create_dir_all(&folder).unwrap();
    let mut components = String::from("apiVersion: v1\nkind: Namespace\nmetadata: {name: capi-system}\n");
    for file in UpstreamCrds::locate().unwrap().files(CrdSet::Core).unwrap() {
        components
            .push_str(&format!("---\n{}", fs::read_to_string(file).unwrap().trim_start_matches("---\n")));
    }
    fs::write(folder.join("core-components.yaml"), components).unwrap();
    let minor = version.split('.').nth(1).unwrap();
    let metadata = format!(
        "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n\
         - {{major: 1, minor: {minor}, contract: v1beta2}}\n"
    );
    fs::write(folder.join("metadata.yaml"), metadata).unwrap();
    version
}

/// Its manager, as the administrator.
pub(crate) async fn manager(stage: &Stage) -> UpstreamManagers {
    UpstreamManagers::start(&stage.plane, &[Manager::Core]).await.unwrap()
}
