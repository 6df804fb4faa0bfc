//! What a user of clusterctl adds to its configuration.

use crate::providers;

/// The part of `clusterctl.yaml` that names our providers, in a repository at `base`, an absolute path.
pub fn clusterctl_config(base: &str) -> String {
    let mut text = String::from(
        "# For clusterctl: add this to $XDG_CONFIG_HOME/cluster-api/clusterctl.yaml, or give it with --config.\n\
         # Nothing of Capstan needs cert-manager, but clusterctl looks for it: where there is none, and none is wanted,\n\
         # `kubectl apply -f cert-manager-kinds.yaml` first. Leave the next part out if clusterctl is to install it.\n\
         cert-manager:\n  externallyProvisioned: \"true\"\n\
         providers:\n",
    );
    for provider in providers() {
        let (name, kind) = (provider.name(), provider.provider_type().as_str());
        let (label, file) = (provider.label(), provider.components_file());
        let base = base.trim_end_matches('/');
        text.push_str(&format!(
            "  - name: {name}\n    type: {kind}\n    url: file://{base}/{label}/latest/{file}\n"
        ));
    }
    text
}
