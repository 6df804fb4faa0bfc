//! Keeps the administrator's kubeconfig valid while the plane runs.

use anyhow::{Context, Result};
use capstan_pki::Certificate;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::RunningPlane;
use crate::admin;

/// How often the certificate is looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// The certificate in the kubeconfig files of a plane.
pub(super) struct Renewal {
    paths: Vec<PathBuf>,
    certificate: Certificate,
}

impl Renewal {
    /// Writes the kubeconfig for the first time.
    pub(super) fn start(plane: &RunningPlane, paths: [&PathBuf; 2]) -> Result<Self> {
        let paths: Vec<PathBuf> = BTreeSet::from(paths).into_iter().cloned().collect();
        let certificate = write(plane, &paths)?;
        Ok(Self { paths, certificate })
    }

    /// Renews it when two thirds of its life are over, and when it was revoked. Never ends.
    pub(super) async fn run(mut self, plane: &RunningPlane) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let revocations = match admin::all(&plane.client).await {
                Ok(revocations) => revocations,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "cannot read the revocations");
                    Vec::new()
                }
            };
            let issued =
                self.certificate.not_before + SignedDuration::from_secs(capstan_pki::BACKDATE_SECONDS);
            let is_revoked = revocations.iter().any(|revocation| revocation.covers_administrator(issued));
            if !is_revoked && Timestamp::now() < self.certificate.renewal() {
                continue;
            }
            match write(plane, &self.paths) {
                Ok(certificate) => self.certificate = certificate,
                Err(error) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "cannot renew the administrator's kubeconfig"
                    );
                }
            }
        }
    }
}

fn write(plane: &RunningPlane, paths: &[PathBuf]) -> Result<Certificate> {
    let administrator = plane.write_kubeconfigs(paths)?;
    Certificate::first_in(administrator.certificate.as_bytes()).context("cannot read an own certificate")
}
