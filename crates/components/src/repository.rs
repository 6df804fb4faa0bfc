//! A release as the files of a clusterctl repository: `<provider>/<version>/<file>`.

use serde_json::json;

use crate::{Options, Provider, Version, certificates, components, metadata, providers, templates, to_yaml};

/// One file of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseFile {
    /// Path in the repository, with slashes.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// All files of a release.
pub fn repository(version: Version) -> Vec<ReleaseFile> {
    let mut all: Vec<ReleaseFile> =
        providers().into_iter().flat_map(|provider| files(provider, version)).collect();
    all.push(ReleaseFile { path: certificates::path(), text: to_yaml(&certificates::kinds()) });
    all
}

fn files(provider: Provider, version: Version) -> Vec<ReleaseFile> {
    let file = |name: &str, text: String| ReleaseFile {
        path: format!("{}/{version}/{name}", provider.label()),
        text,
    };
    let objects = components(provider, &Options::of(provider, version));
    let mut files =
        vec![file(provider.components_file(), to_yaml(&objects)), file("metadata.yaml", metadata_yaml())];
    // clusterctl looks for templates of clusters with the infrastructure provider.
    if provider == Provider::Infrastructure {
        files.extend(templates().iter().map(|template| file(&template.file_name(), template.text.clone())));
    }
    files
}

/// Without the object's own metadata, which is empty.
fn metadata_yaml() -> String {
    let metadata = metadata();
    let file = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": metadata.spec.release_series,
    });
    to_yaml(&[file])
}
