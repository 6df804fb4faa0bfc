//! The writes. Each may be the last one before the process dies, and each is safe to repeat.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::plane::hand_over;
use capstan_controller::{Grounds, destroy, identity, owners, secrets};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::decide::may_have_started_elsewhere;
use crate::enrolment::{Change, SIGNER, Step, TOKEN_LIFE, csr_name, usages};
use crate::names::{
    ANSWERED, ANSWERED_AT, LEADS_TO, Names, PARTED, REQUEST_LABEL, REQUESTED_FOR, TOKEN_BOUND_TO,
    TOKEN_EXPIRES, TOKEN_RENEWAL,
};
use crate::observe::Seen;
use crate::reconcile::Bootstrap;
use crate::userdata::Agent;

/// How long a certificate is asked for. What ends a machine's rights is the end of its CapstanConfig, not this: so it is
/// long enough for a machine that was switched off for a month to come back by itself.
const CERTIFICATE_SECONDS: i32 = 90 * 24 * 3600;
/// A plane whose tokens live shorter than this is not asked for them without end.
const SHORTEST_RENEWAL: SignedDuration = SignedDuration::from_secs(30);

/// Gives the machine its identity, unless somebody has written to the object meanwhile.
pub(crate) async fn identify(configs: &Api<CapstanConfig>, config: &CapstanConfig) -> Result<()> {
    let name = config.name_any();
    let patch = json!({"metadata": {
        "resourceVersion": config.resource_version(),
        "annotations": {identity::MACHINE_ID: identity::random()},
    }});
    configs
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot give CapstanConfig {name} its identity"))?;
    Ok(())
}

impl Bootstrap {
    /// Takes one step of enrolment.
    pub(crate) async fn take(&self, step: &Step, config: &CapstanConfig, seen: &Seen) -> Result<()> {
        let Some(own) = &seen.own else { return Ok(()) };
        let names = &own.names;
        match step {
            Step::Rest => Ok(()),
            Step::Objects(changes) => {
                // A server refuses a binding to a role that is not there yet.
                let (bindings, others): (Vec<&Change>, Vec<&Change>) =
                    changes.iter().partition(|change| change.is_binding());
                for wave in [others, bindings] {
                    try_join_all(wave.into_iter().map(|change| self.change(names, change))).await?;
                }
                Ok(())
            }
            Step::Part { answered } => {
                tracing::info!(machine = names.machine, "the machine is enrolled elsewhere, and must follow");
                let spec = json!({"certificate": null, "enrolledWith": null});
                self.write_report(names, own.report.as_ref(), json!({PARTED: answered}), spec).await
            }
            Step::Record(key) => {
                tracing::info!(machine = names.machine, %key, "the machine's key is recorded");
                let spec = json!({"enrolledKey": key.to_string(), "certificate": null});
                self.write_report(names, own.report.as_ref(), json!({}), spec).await
            }
            Step::Ask(request) => {
                let name = csr_name(names, request);
                self.ask(name, request.pem.clone().into_bytes(), config).await
            }
            Step::Approve(name) => self.approve(name).await,
            Step::Answer { request, certificate } => {
                tracing::info!(machine = names.machine, "the machine has its certificate");
                let annotations = json!({ANSWERED: request.to_string(), ANSWERED_AT: Timestamp::now().to_string(), PARTED: null});
                let spec = json!({"certificate": certificate, "enrolledWith": seen.here.record()});
                self.write_report(names, own.report.as_ref(), annotations, spec).await
            }
            Step::Forget(name) => {
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
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
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

    /// Asks for a token, and writes the data with it. A token that is lost in between hangs on the same Secret as the
    /// next one, and ends with it.
    pub(crate) async fn hand_out(&self, config: &CapstanConfig, seen: &Seen) -> Result<()> {
        let (Some(own), Some(key), Some(bound_to)) = (&seen.own, &seen.plan_key, seen.bound_to()) else {
            return Err(Error::Conflict {
                doing: "cannot hand out a token before there is an enrolment".to_owned(),
            });
        };
        let names = &own.names;
        let (token, expires) = self.token(names, bound_to).await?;
        let now = Timestamp::now();
        let half = (expires.duration_since(now) / 2).max(SHORTEST_RENEWAL);
        let renewal = now.saturating_add(half).unwrap_or(expires);
        let agent = Agent {
            plane: &self.plane,
            token: &token,
            namespace: &names.namespace,
            machine: &names.machine,
            machine_id: &names.machine_id,
            plan_public_key: &key.public,
            plane_name: seen.here.plane(),
            epoch: key.epoch,
        };
        let format = config.spec.format.unwrap_or_default();
        let (data, format) = agent.render(format, &self.software.catalog());
        let mut keys = vec![(secrets::VALUE, data.into_bytes()), ("format", format.as_bytes().to_vec())];
        let follows = may_have_started_elsewhere(seen.data.as_deref(), &seen.here);
        if follows {
            keys.push((hand_over::KEY, agent.config().to_string().into_bytes()));
        }
        let mut secret = secrets::build(&names.namespace, &names.cluster, names.config.clone(), keys);
        if follows {
            secret.labels_mut().insert(hand_over::LABEL.to_owned(), String::new());
        }
        secret.metadata.owner_references = owners::controller(config).map(|owner| vec![owner]);
        // In the same write as the token: there is no token of which nothing is known.
        secret.metadata.annotations = Some(BTreeMap::from([
            (identity::MACHINE_ID.to_owned(), names.machine_id.clone()),
            (LEADS_TO.to_owned(), seen.here.stamp()),
            (TOKEN_BOUND_TO.to_owned(), bound_to.to_owned()),
            (TOKEN_EXPIRES.to_owned(), expires.to_string()),
            (TOKEN_RENEWAL.to_owned(), renewal.to_string()),
        ]));
        let api: Api<Secret> = self.api(&names.namespace);
        let doing = || format!("cannot write Secret {}/{}", names.namespace, names.config);
        match &seen.data {
            Some(read) => {
                secret.metadata.resource_version = read.resource_version();
                api.replace(&names.config, &PostParams::default(), &secret).await.map(|_| ()).doing(doing)
            }
            None => match api.create(&PostParams::default(), &secret).await {
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                    Err(Error::Conflict { doing: doing() })
                }
                made => made.map(|_| ()).doing(doing),
            },
        }
    }

    /// Takes back that the machine is to be told of this plane. Its token is worth nothing any more.
    pub(crate) async fn followed(&self, seen: &Seen) -> Result<()> {
        let Some(data) = &seen.data else { return Ok(()) };
        let (namespace, name) = (data.namespace().unwrap_or_default(), data.name_any());
        let patch = json!({
            "metadata": {"resourceVersion": data.resource_version(), "labels": {hand_over::LABEL: null}},
            "data": {hand_over::KEY: null},
        });
        let api: Api<Secret> = self.api(&namespace);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .doing(|| format!("cannot write Secret {namespace}/{name}"))
    }

    async fn token(&self, names: &Names, bound_to: &str) -> Result<(String, Timestamp)> {
        let api: Api<ServiceAccount> = self.api(&names.namespace);
        let account = names.agent();
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                // The API server's own.
                audiences: Some(Vec::new()),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Secret".to_owned()),
                    name: Some(names.enrolment()),
                    uid: Some(bound_to.to_owned()),
                }),
                expiration_seconds: Some(TOKEN_LIFE.as_secs()),
            }),
            ..Default::default()
        };
        let doing = || format!("cannot get a token for ServiceAccount {}/{account}", names.namespace);
        let made = api.create_token_request(&account, &PostParams::default(), &request).await.doing(doing)?;
        let status = made.status.unwrap_or_default();
        match (status.token, status.expiration_timestamp) {
            (Some(token), Some(expires)) if !token.is_empty() => Ok((token, expires.0)),
            _ => Err(Error::transient(doing(), "there is none in the answer")),
        }
    }
}
