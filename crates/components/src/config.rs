//! The lines that a user adds to the configuration of clusterctl.

use crate::{certificates, providers};

/// The part of `clusterctl.yaml` that lists Capstan's providers, in a repository at `base`, an absolute path.
pub fn clusterctl_config(base: &str) -> String {
    let base = base.trim_end_matches('/');
    let mut text = format!(
        "# For clusterctl: add this to $XDG_CONFIG_HOME/cluster-api/clusterctl.yaml, or give it with --config.\n\
         # Nothing of Capstan needs cert-manager, but clusterctl looks for it: where there is none, it is shown an empty\n\
         # one. Leave this part out if other providers need the real one; clusterctl then installs that.\n\
         cert-manager:\n  url: file://{base}/{}\n  version: {}\n\
         providers:\n",
        certificates::path(),
        certificates::VERSION,
    );
    for provider in providers() {
        let (name, kind) = (provider.name(), provider.provider_type().as_str());
        let (label, file) = (provider.label(), provider.components_file());
        text.push_str(&format!(
            "  - name: {name}\n    type: {kind}\n    url: file://{base}/{label}/latest/{file}\n"
        ));
    }
    text
}
