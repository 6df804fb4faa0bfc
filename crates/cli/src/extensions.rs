//! How Capstan's runtime hooks are served, and the client certificate with which core calls runtime extensions.

use anyhow::{Context, Result};
use capstan_core::runtime::Identity;
use std::path::PathBuf;

use crate::args::HooksArgs;

#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    /// Options of Capstan's hooks server.
    pub(crate) hooks: capstan_hooks::Options,
    /// Client certificate for calls to runtime extensions.
    pub(crate) identity: Option<Identity>,
}

impl Extensions {
    /// Reads the options from the command line.
    pub(crate) fn of(args: &HooksArgs) -> Result<Self> {
        let read =
            |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let hooks = capstan_hooks::Options {
            listen: args.hooks_listen,
            url: args.hooks_url.clone(),
            namespace: args.hooks_namespace.clone(),
            callers: args.hooks_client_ca_file.as_ref().map(read).transpose()?,
            leads: None,
            filter: None,
        };
        let files = (&args.runtime_extension_client_cert_file, &args.runtime_extension_client_key_file);
        let identity = match files {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        Ok(Self { hooks, identity })
    }
}
