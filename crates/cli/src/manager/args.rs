//! Flags of `capstan manager`. Names are those of Cluster API's managers, if they have the same flag.

use capstan_webhooks::Reached;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::args::{HooksArgs, SoftwareArgs};
use crate::client::PlaneArgs;
use crate::controllers::Selection;
use crate::tuning::{RequestArgs, TuningArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct ManagerArgs {
    #[command(flatten)]
    pub(crate) plane: PlaneArgs,

    /// Folder for software, the key of its server, and the state of simulated hosts
    #[arg(long, value_name = "DIR", default_value = "capstan-data")]
    pub(crate) data_dir: PathBuf,

    /// Controllers to run: all, none, or some of core, infrastructure, bootstrap, control-plane, hooks
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) controllers: Selection,

    /// Reconcile only objects of this namespace [default: all namespaces]
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value [default: all]
    #[arg(long, value_name = "VALUE", value_parser = label_value)]
    pub(crate) watch_filter: Option<String>,

    /// Enable leader election: only one replica works at a time
    #[arg(long)]
    pub(crate) leader_elect: bool,

    /// Namespace of the leader election Lease [default: the pod's own, else capstan-system]
    #[arg(long, value_name = "NAMESPACE", requires = "leader_elect")]
    pub(crate) leader_elect_namespace: Option<String>,

    /// Address and port to serve /healthz, /livez and /readyz on, as in :9440 [default: not served]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health_addr: Option<String>,

    /// Address and port of HTTPS metrics, for callers with the verb get on the nonResourceURL /metrics; 0 switches it off
    /// [default: :8443, if it is free]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) diagnostics_address: Option<String>,

    /// Serve metrics over HTTP, without authentication and authorization
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub(crate) insecure_diagnostics: bool,

    /// URL of the management plane for machines, as in https://10.0.0.1:6443 [default: that of this process]
    #[arg(long, value_name = "URL", value_parser = https)]
    pub(crate) plane_server: Option<String>,

    /// CA bundle, in PEM, of the management plane for machines [default: that of this process]
    #[arg(long, value_name = "FILE")]
    pub(crate) plane_ca_file: Option<PathBuf>,

    /// Address or name of this machine for the API servers of simulated clusters; in a pod its own address
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", value_parser = host)]
    pub(crate) sim_address: String,

    #[command(flatten)]
    pub(crate) requests: RequestArgs,

    #[command(flatten)]
    pub(crate) tuning: TuningArgs,

    #[command(flatten)]
    pub(crate) software: SoftwareArgs,

    #[command(flatten)]
    pub(crate) hooks: HooksArgs,

    #[command(flatten)]
    pub(crate) admission: AdmissionArgs,
}

/// The webhooks that set defaults and check rules of Cluster API's objects on planes that are not embedded.
#[derive(Debug, clap::Args)]
pub(crate) struct AdmissionArgs {
    /// Address and port to serve the admission webhooks on; port 0 selects a free one [default: not served]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) admission_listen: Option<SocketAddr>,

    /// URL of the admission webhooks for API servers, beginning with https:// [default: the address of --admission-listen]
    #[arg(long, value_name = "URL", value_parser = https, requires = "admission_listen")]
    pub(crate) admission_url: Option<String>,

    /// Service of the admission webhooks for API servers, as in capstan-core-system/capstan-core-admission:9443
    #[arg(
        long,
        value_name = "NAMESPACE/NAME:PORT",
        value_parser = service,
        requires = "admission_listen",
        conflicts_with = "admission_url"
    )]
    pub(crate) admission_service: Option<Reached>,

    /// Namespace of the Secret with the CA of the admission webhooks
    #[arg(long, value_name = "NAMESPACE", default_value = "capstan-system")]
    pub(crate) admission_namespace: String,
}

impl AdmissionArgs {
    /// Options of the webhooks, if they are served.
    pub(crate) fn options(&self) -> Option<capstan_webhooks::Options> {
        let reached = self.admission_service.clone().or_else(|| self.admission_url.clone().map(Reached::Url));
        let namespace = self.admission_namespace.clone();
        Some(capstan_webhooks::Options { listen: self.admission_listen?, reached, namespace, leads: None })
    }
}

fn service(text: &str) -> Result<Reached, &'static str> {
    let wrong = "must be NAMESPACE/NAME:PORT";
    let (namespace, rest) = text.split_once('/').ok_or(wrong)?;
    let (name, port) = rest.split_once(':').ok_or(wrong)?;
    let port = port.parse().ok().filter(|port| *port != 0).ok_or(wrong)?;
    if [namespace, name].iter().any(|part| part.is_empty() || part.contains(['/', '.', ' '])) {
        return Err(wrong);
    }
    Ok(Reached::Service { namespace: namespace.to_owned(), name: name.to_owned(), port })
}

fn https(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['/', ' ']) => Ok(format!("https://{rest}")),
        _ => Err("must be https:// with a host and, if it is not 443, a port"),
    }
}

fn host(text: &str) -> Result<String, &'static str> {
    match text.is_empty() || text.contains(['/', ' ', '[', ']']) {
        true => Err("is neither a host name nor an address"),
        false => Ok(text.to_owned()),
    }
}

fn label_value(text: &str) -> Result<String, &'static str> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    match bytes.len() <= 63 && bytes.iter().copied().all(inside) && ends(bytes.first()) && ends(bytes.last())
    {
        true => Ok(text.to_owned()),
        false => Err(
            "is not a label value: use at most 63 letters, digits, -, _ and ., beginning and ending with a \
                      letter or digit",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        manager: ManagerArgs,
    }

    #[test]
    fn diagnostics_are_secure_by_default() {
        let insecure = |args: &[&str]| {
            let command = Command::try_parse_from([&["capstan"], args].concat()).ok()?;
            Some(command.manager.insecure_diagnostics)
        };
        assert_eq!(insecure(&[]), Some(false));
        assert_eq!(insecure(&["--insecure-diagnostics"]), Some(true));
        assert_eq!(
            insecure(&["--insecure-diagnostics=false"]),
            Some(false),
            "as upstream's manifests write it"
        );
        assert_eq!(insecure(&["--insecure-diagnostics=maybe"]), None);
    }

    #[test]
    fn webhooks_are_served_if_an_address_is_given() {
        let options = |args: &[&str]| {
            let command = Command::try_parse_from([&["capstan"], args].concat()).ok()?;
            Some(command.manager.admission.options().map(|options| options.reached))
        };
        const LISTEN: &str = "--admission-listen=0.0.0.0:9443";
        let service = Reached::Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 };
        for (args, expected) in [
            (vec![], Some(None)),
            (vec![LISTEN], Some(Some(None))),
            (
                vec![LISTEN, "--admission-url=https://a:1/"],
                Some(Some(Some(Reached::Url("https://a:1".to_owned())))),
            ),
            (vec![LISTEN, "--admission-service=n/s:443"], Some(Some(Some(service)))),
            (vec!["--admission-service=n/s:443"], None),
            (vec![LISTEN, "--admission-service=n/s:443", "--admission-url=https://a"], None),
            (vec![LISTEN, "--admission-service=n/s"], None),
            (vec![LISTEN, "--admission-service=s.n.svc:443"], None),
            (vec![LISTEN, "--admission-url=http://a"], None),
        ] {
            assert_eq!(options(&args), expected, "{args:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, expected) in [
            ("https://10.0.0.1:6443/", Some("https://10.0.0.1:6443")),
            ("https://plane.example", Some("https://plane.example")),
            ("http://plane.example", None),
            ("https://", None),
            ("https://a/b", None),
            ("plane", None),
        ] {
            assert_eq!(https(text).ok().as_deref(), expected, "{text}");
        }
        assert!(host("10.42.0.7").is_ok() && host("fd00::1").is_ok() && host("sim.svc").is_ok());
        assert!(host("").is_err() && host("https://a").is_err() && host("[::1]").is_err());
        assert!(label_value("").is_ok() && label_value("blue-1").is_ok());
        for wrong in ["-a", "a.", "a b", "a=b", "ä"] {
            assert!(label_value(wrong).is_err(), "{wrong}");
        }
    }
}
