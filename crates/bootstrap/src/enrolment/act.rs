//! The writes of an enrolment. Each may be the last one before the process dies, and each is safe to repeat.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{Grounds, destroy};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::decide::{Change, EnrolmentStep, SIGNER, csr_name, usages};
use crate::capstanconfig::{Bootstrap, Seen};
use crate::names::{ANSWERED, ANSWERED_AT, Names, PARTED, REQUEST_LABEL, REQUESTED_FOR};

/// How long a certificate is asked for. What ends a machine's rights is the end of its CapstanConfig, not this: so it is
/// long enough for a machine that was switched off for a month to come back by itself.
const CERTIFICATE_SECONDS: i32 = 90 * 24 * 3600;

impl Bootstrap {
    /// Takes one step of enrolment.
    pub(crate) async fn take(&self, step: &EnrolmentStep, config: &CapstanConfig, seen: &Seen) -> Result<()> {
        let Some(own) = &seen.own else { return Ok(()) };
        let names = &own.names;
        match step {
            EnrolmentStep::Rest => Ok(()),
            EnrolmentStep::Objects(changes) => {
                // A server refuses a binding to a role that is not there yet.
                let (bindings, others): (Vec<&Change>, Vec<&Change>) =
                    changes.iter().partition(|change| change.is_binding());
                for wave in [others, bindings] {
                    try_join_all(wave.into_iter().map(|change| self.change(names, change))).await?;
                }
                Ok(())
            }
            EnrolmentStep::Part { answered } => {
                tracing::info!(machine = names.machine, "the machine is enrolled elsewhere, and must follow");
                let spec = json!({"certificate": null, "enrolledWith": null});
                self.write_report(names, own.report.as_ref(), json!({PARTED: answered}), spec).await
            }
            EnrolmentStep::Record(key) => {
                tracing::info!(machine = names.machine, %key, "the machine's key is recorded");
                let spec = json!({"enrolledKey": key.to_string(), "certificate": null});
                self.write_report(names, own.report.as_ref(), json!({}), spec).await
            }
            EnrolmentStep::Ask(request) => {
                let name = csr_name(names);
                self.ask(name, request.pem.clone().into_bytes(), config).await
            }
            EnrolmentStep::Approve(name) => self.approve(name).await,
            EnrolmentStep::Answer { request, certificate } => {
                tracing::info!(machine = names.machine, "the machine has its certificate");
                let annotations = json!({ANSWERED: request.to_string(), ANSWERED_AT: Timestamp::now().to_string(), PARTED: null});
                let spec = json!({"certificate": certificate, "enrolledWith": seen.this_plane.record()});
                self.write_report(names, own.report.as_ref(), annotations, spec).await
            }
            EnrolmentStep::Forget(name) => {
                let api: Api<CertificateSigningRequest> = Api::all(self.client().clone());
                destroy::delete_by_name(&api, name, &Grounds::asked("its certificate was handed out")).await
            }
        }
    }

    async fn change(&self, names: &Names, change: &Change) -> Result<()> {
        match change {
            Change::Create(wanted) => {
                let doing =
                    || format!("cannot make {} {}/{}", wanted.kind.kind, names.namespace, wanted.name);
                let object = serde_json::from_value(wanted.object.clone())
                    .map_err(|error| Error::transient(doing(), error))?;
                match self
                    .untyped(&names.namespace, wanted.kind)
                    .create(&PostParams::default(), &object)
                    .await
                {
                    // Another replica was faster: what it made is looked at in the next round.
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                        Err(Error::Conflict { doing: doing() })
                    }
                    made => made.map(|_| ()).doing(doing),
                }
            }
            Change::Repair(kind, name, patch) => self
                .untyped(&names.namespace, *kind)
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(|_| ())
                .doing(|| format!("cannot change {} {}/{name}", kind.kind, names.namespace)),
            Change::Remove(kind, name, uid) => {
                let seen =
                    ObjectMeta { name: Some(name.clone()), uid: Some(uid.clone()), ..ObjectMeta::default() };
                let grounds = Grounds::asked("the machine does not need it any more");
                destroy::delete(&self.untyped(&names.namespace, *kind), &seen, &grounds).await
            }
        }
    }

    /// Writes to the report, unless somebody else has meanwhile.
    async fn write_report(
        &self,
        names: &Names,
        read: Option<&MachineReport>,
        annotations: Value,
        spec: Value,
    ) -> Result<()> {
        let api: Api<MachineReport> = self.api(&names.namespace);
        let name = names.report();
        let version = read.and_then(kube::ResourceExt::resource_version);
        let patch =
            json!({"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .doing(|| format!("cannot write MachineReport {}/{name}", names.namespace))
    }

    async fn ask(&self, name: String, request: Vec<u8>, config: &CapstanConfig) -> Result<()> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client().clone());
        let whose = format!("{}/{}", config.namespace().unwrap_or_default(), config.name_any());
        let csr = CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(BTreeMap::from([(REQUEST_LABEL.to_owned(), "true".to_owned())])),
                annotations: Some(BTreeMap::from([(REQUESTED_FOR.to_owned(), whose)])),
                ..Default::default()
            },
            spec: CertificateSigningRequestSpec {
                expiration_seconds: Some(CERTIFICATE_SECONDS),
                request: ByteString(request),
                signer_name: SIGNER.to_owned(),
                usages: Some(usages()),
                ..Default::default()
            },
            status: None,
        };
        match api.create(&PostParams::default(), &csr).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => is_ours(&api, &name).await,
            made => made.map(|_| ()).doing(|| format!("cannot make CertificateSigningRequest {name}")),
        }
    }

    async fn approve(&self, name: &str) -> Result<()> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client().clone());
        let now = Timestamp::now().to_string();
        let approved = json!({"status": {"conditions": [{
            "type": "Approved", "status": "True", "reason": "MachineKnown",
            "message": "Capstan has checked the request and recorded the key as this machine's",
            "lastUpdateTime": now, "lastTransitionTime": now,
        }]}});
        api.patch_approval(name, &PatchParams::default(), &Patch::Merge(&approved))
            .await
            .map(|_| ())
            .doing(|| format!("cannot approve CertificateSigningRequest {name}"))
    }
}

/// A CertificateSigningRequest without our label is not in the cache, so it would never be noticed.
async fn is_ours(api: &Api<CertificateSigningRequest>, name: &str) -> Result<()> {
    let doing = || format!("cannot read CertificateSigningRequest {name}");
    match api.get_opt(name).await.doing(doing)? {
        Some(found) if !found.labels().contains_key(REQUEST_LABEL) => Err(Error::user(
            format!("CertificateSigningRequest {name}"),
            "it is in the way of the machine's request, and Capstan did not create it: delete it",
        )),
        // Another replica has created it, or it has just been deleted.
        _ => Ok(()),
    }
}
