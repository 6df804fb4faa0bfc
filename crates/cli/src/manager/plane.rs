//! The address of the management plane for machines.

use anyhow::{Context, Result};
use capstan_bootstrap::PlaneAddress;
use capstan_pki::pem;
use http::Uri;
use kube::Config;

use super::args::ManagerArgs;
use crate::controllers::Group;

/// The address of the plane for machines: from the flags, otherwise the one that this process uses.
pub(super) fn of(args: &ManagerArgs, config: &Config) -> Result<PlaneAddress> {
    let ours = config.cluster_url.to_string();
    let server = args.plane_server.clone().unwrap_or_else(|| ours.trim_end_matches('/').to_owned());
    let ca = match &args.plane_ca_file {
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            anyhow::ensure!(
                text.windows(PEM.len()).any(|window| window == PEM.as_bytes()),
                "--plane-ca-file {}: there is no certificate in it, as PEM",
                file.display()
            );
            text
        }
        None => trusted(config).into_bytes(),
    };
    let service = std::env::var("KUBERNETES_SERVICE_HOST").ok();
    let uri: Uri = server.parse().with_context(|| format!("{server} is not a URL"))?;
    if args.controllers.has(Group::Bootstrap)
        && is_for_pods(uri.host().unwrap_or_default(), service.as_deref())
    {
        tracing::warn!(
            server,
            "machines would contact the management plane at an address that only pods can reach: only simulated hosts will work; \
             pass --plane-server and --plane-ca-file"
        );
    }
    Ok(PlaneAddress { server, ca })
}

const PEM: &str = "-----BEGIN CERTIFICATE-----";

fn is_for_pods(host: &str, service: Option<&str>) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    host.starts_with("kubernetes.default") || service == Some(plain)
}

fn trusted(config: &Config) -> String {
    let certificates = config.root_cert.iter().flatten();
    certificates.map(|der| pem::encode(pem::CERTIFICATE, der)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_service_is_for_pods() {
        assert!(is_for_pods("kubernetes.default.svc", None));
        assert!(is_for_pods("10.43.0.1", Some("10.43.0.1")) && is_for_pods("[fd00::1]", Some("fd00::1")));
        assert!(!is_for_pods("10.0.0.5", Some("10.43.0.1")) && !is_for_pods("plane.example", None));
    }
}
