//! How Capstan's runtime hooks are served and to whom, and the client certificate with which core calls runtime extensions.

use anyhow::{Context, Result, bail};
use capstan_core::runtime::Identity;
use capstan_hooks::Callers;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::args::HooksArgs;
use crate::controllers::{Group, Selection};

#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    /// Options of Capstan's hooks server.
    pub(crate) hooks: capstan_hooks::Options,
    /// Client certificate for calls to runtime extensions.
    pub(crate) identity: Option<Identity>,
    /// File with core's bearer token for Capstan's own hooks.
    pub(crate) token_file: Option<PathBuf>,
}

impl Extensions {
    /// Reads the options from the command line, for these controllers.
    pub(crate) fn of(args: &HooksArgs, controllers: &Selection) -> Result<Self> {
        let hooks = capstan_hooks::Options {
            listen: args.hooks_listen,
            url: args.hooks_url.clone(),
            namespace: args.hooks_namespace.clone(),
            callers: callers(args, controllers)?,
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
        Ok(Self { hooks, identity, token_file: args.hooks_token_file.clone() })
    }
}

/// Which callers of our hooks are served. Without a word about them, no other than core in this process.
fn callers(args: &HooksArgs, controllers: &Selection) -> Result<Callers> {
    if !controllers.has(Group::Hooks) {
        return Ok(Callers::SameProcess);
    }
    match bundle(args)? {
        Some(bundle) if !args.hooks_review_tokens => return Ok(Callers::Authenticated(bundle)),
        None if args.hooks_allow_unauthenticated => return Ok(Callers::Anyone),
        bundle if args.hooks_review_tokens => return Ok(Callers::Reviewed(bundle)),
        _ => {}
    }
    let is_own_url = args.hooks_url.is_none() && args.hooks_listen.ip().is_loopback();
    if controllers.has(Group::Core) && is_own_url {
        return Ok(Callers::SameProcess);
    }
    bail!(
        "--hooks-listen {}: callers of the hooks would not be authenticated. Pass --hooks-client-ca-file with the CA of core's \
         client certificate, --hooks-review-tokens if core has a --hooks-token-file, or --hooks-allow-unauthenticated if only \
         core can reach the address",
        args.hooks_listen
    )
}

/// The CA bundle of the command line. A file that does not exist is none if callers need no certificate: manifests name the
/// file of a Secret that users may create.
fn bundle(args: &HooksArgs) -> Result<Option<Vec<u8>>> {
    let Some(path) = &args.hooks_client_ca_file else { return Ok(None) };
    match std::fs::read(path) {
        Ok(bundle) => Ok(Some(bundle)),
        Err(error)
            if error.kind() == ErrorKind::NotFound
                && (args.hooks_allow_unauthenticated || args.hooks_review_tokens) =>
        {
            Ok(None)
        }
        Err(error) => {
            Err(error).with_context(|| format!("--hooks-client-ca-file: cannot read {}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        hooks: HooksArgs,
    }

    fn decided(controllers: &str, args: &[&str]) -> Result<Callers> {
        let command = Command::try_parse_from([&["capstan"], args].concat())?;
        callers(&command.hooks, &controllers.parse()?)
    }

    #[test]
    fn callers_are_authenticated_unless_the_user_says_otherwise() {
        const EVERYWHERE: &str = "--hooks-listen=0.0.0.0:9443";
        const URL: &str = "--hooks-url=https://hooks.svc:9443";
        const OPEN: &str = "--hooks-allow-unauthenticated";
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "bundle").expect("written");
        let bundle = format!("--hooks-client-ca-file={}", file.path().display());
        let missing = "--hooks-client-ca-file=/nowhere/ca.crt";
        let known = || Some(Callers::Authenticated(b"bundle".to_vec()));
        for (controllers, args, expected) in [
            ("all", vec![], Some(Callers::SameProcess)),
            ("core,hooks", vec!["--hooks-listen=[::1]:0"], Some(Callers::SameProcess)),
            ("core", vec![EVERYWHERE], Some(Callers::SameProcess)),
            // Core does not run in this process, or does not call by the loopback address.
            ("hooks", vec![], None),
            ("all", vec![EVERYWHERE, URL], None),
            ("all", vec![URL], None),
            ("hooks", vec![EVERYWHERE, URL], None),
            ("hooks", vec![OPEN], Some(Callers::Anyone)),
            ("all", vec![EVERYWHERE, URL, OPEN], Some(Callers::Anyone)),
            ("hooks", vec!["--hooks-allow-unauthenticated=false"], None),
            ("hooks", vec![bundle.as_str()], known()),
            ("all", vec![EVERYWHERE, URL, bundle.as_str()], known()),
            ("hooks", vec![OPEN, bundle.as_str()], known()),
            ("hooks", vec!["--hooks-review-tokens"], Some(Callers::Reviewed(None))),
            ("all", vec!["--hooks-review-tokens", missing], Some(Callers::Reviewed(None))),
            (
                "hooks",
                vec!["--hooks-review-tokens", bundle.as_str()],
                Some(Callers::Reviewed(Some(b"bundle".to_vec()))),
            ),
            ("hooks", vec!["--hooks-review-tokens", OPEN], Some(Callers::Anyone)),
            ("hooks", vec!["--hooks-review-tokens", OPEN, bundle.as_str()], {
                Some(Callers::Reviewed(Some(b"bundle".to_vec())))
            }),
            ("hooks", vec![missing], None),
            ("hooks", vec![missing, OPEN], Some(Callers::Anyone)),
        ] {
            assert_eq!(decided(controllers, &args).ok(), expected, "{controllers} {args:?}");
        }
        let error = decided("hooks", &[EVERYWHERE]).expect_err("any caller").to_string();
        assert!(error.contains("--hooks-client-ca-file") && error.contains(OPEN), "{error}");
    }
}
