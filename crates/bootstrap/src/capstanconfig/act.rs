//! The writes of a CapstanConfig: its identity and its bootstrap data. Each is idempotent, and the process may stop
//! after any of them.

use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::plane::hand_over;
use capstan_controller::{identity, owners, secrets};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;

use super::Bootstrap;
use super::decide::may_have_started_elsewhere;
use super::observe::Seen;
use crate::enrolment::{TOKEN_LIFE, must_enrol_again};
use crate::names::{LEADS_TO, TOKEN_BOUND_TO, TOKEN_EXPIRES, TOKEN_RENEWAL};
use crate::userdata::Agent;

/// A management plane that issues tokens with a shorter life is not asked for a new token at every reconcile.
const SHORTEST_RENEWAL: SignedDuration = SignedDuration::from_secs(30);

/// Sets the identity of the machine, unless the object has changed since it was read.
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
    /// Requests a token, and writes the bootstrap data with it. A token that is lost before the write ends with its
    /// ServiceAccount, as the next one does.
    pub(crate) async fn hand_out(&self, config: &CapstanConfig, seen: &Seen) -> Result<()> {
        let (Some(own), Some(key), Some(bound_to)) = (&seen.own, &seen.plan_key, seen.bound_to()) else {
            return Err(Error::Conflict {
                doing: "cannot hand out a token before there is an enrolment".to_owned(),
            });
        };
        let names = &own.names;
        let (token, expires) = self.token(names, &names.enrolment_account(), bound_to, TOKEN_LIFE).await?;
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
            plan_key_successions: &key.successions,
            plane_name: seen.this_plane.plane(),
            epoch: key.epoch,
        };
        let format = config.spec.format.unwrap_or_default();
        let (data, format) = agent.render(format, &self.software.catalog());
        let mut keys = vec![(secrets::VALUE, data.into_bytes()), ("format", format.as_bytes().to_vec())];
        let follows = may_have_started_elsewhere(seen.data.as_deref(), &seen.this_plane)
            || own.report.as_ref().is_some_and(must_enrol_again);
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
            (LEADS_TO.to_owned(), seen.this_plane.stamp()),
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

    /// Removes the hand-over from the bootstrap Secret. The token in it is no longer valid.
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
}
