//! Reads what there is, asks [`decide`](crate::decide), and writes.

use capstan_api::bootstrap::{CapstanConfig, CapstanConfigStatus};
use capstan_api::conditions::{set, types};
use capstan_api::core::{Cluster, Machine};
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::patch::Patcher;
use capstan_controller::secrets::{self, Purpose, plan_key};
use capstan_controller::{Next, Reconciler, identity, owners, pause};
use capstan_plan::Digest;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::Plane;
use crate::decide::{self, DATA_SECRET_AVAILABLE, Decision, Observed};
use crate::userdata::Agent;

/// How long something that waits is left alone.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const OWNED: [&str; 2] = [types::READY, DATA_SECRET_AVAILABLE];

/// The controller of CapstanConfigs.
pub struct Bootstrap {
    client: Client,
    plane: Plane,
}

impl Bootstrap {
    /// Machines will be told to reach the management plane as `plane` says.
    pub fn new(client: Client, plane: Plane) -> Self {
        Self { client, plane }
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

impl Reconciler for Bootstrap {
    type Object = CapstanConfig;

    fn name(&self) -> &'static str {
        "capstanconfig"
    }

    async fn reconcile(&self, config: Arc<CapstanConfig>) -> Result<Next> {
        let namespace = config.namespace().unwrap_or_default();
        if config.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Changed);
        }
        let machine = self.machine(&config, &namespace).await?;
        let cluster = match &machine {
            Some(machine) => self.get::<Cluster>(&namespace, &machine.spec.cluster_name).await?,
            None => None,
        };
        let configs: Api<CapstanConfig> = self.api(&namespace);
        if !pause::allows(&configs, &config, cluster.as_ref(), Timestamp::now()).await? {
            return Ok(Next::Changed);
        }
        let plan_key = match &cluster {
            Some(cluster) => {
                let name = Purpose::PlanKey.secret_name(&cluster.name_any());
                self.get::<Secret>(&namespace, &name).await?
            }
            None => None,
        };
        let plan_public_key = plan_key.as_ref().and_then(|key| secrets::get(key, plan_key::PUBLIC));
        let secret = self.get::<Secret>(&namespace, &config.name_any()).await?;
        let decision = decide::decide(&Observed {
            config: &config,
            machine: machine.as_ref(),
            cluster: cluster.as_ref(),
            plan_public_key,
            secret: secret.as_ref(),
        });
        match (&decision, &machine, plan_public_key) {
            // Each of these wakes the next reconcile, which reads what was written.
            (Decision::Identify, ..) => self.identify(&configs, &config).await?,
            (Decision::Create, Some(machine), Some(key)) => {
                let cluster = &machine.spec.cluster_name;
                let secret = self.secret(&config, machine, cluster, key)?;
                self.create(&namespace, &secret).await?;
                return Box::pin(self.tell(&configs, &config, &Decision::Done)).await;
            }
            _ => return self.tell(&configs, &config, &decision).await,
        }
        Ok(Next::Changed)
    }
}

impl Bootstrap {
    async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = self.api(namespace);
        api.get_opt(name).await.doing(|| format!("cannot read {} {namespace}/{name}", K::kind(&())))
    }

    async fn machine(&self, config: &CapstanConfig, namespace: &str) -> Result<Option<Machine>> {
        match owners::of_kind(&config.metadata, "Machine", "cluster.x-k8s.io") {
            Some(owner) => self.get(namespace, &owner.name).await,
            None => Ok(None),
        }
    }

    /// Gives the machine its identity, unless somebody has written to the object meanwhile.
    async fn identify(&self, configs: &Api<CapstanConfig>, config: &CapstanConfig) -> Result<()> {
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

    fn secret(&self, config: &CapstanConfig, machine: &Machine, cluster: &str, key: &[u8]) -> Result<Secret> {
        let namespace = config.namespace().unwrap_or_default();
        let machine_id = identity::of(config).ok_or_else(|| Error::Conflict {
            doing: "cannot make bootstrap data without an identity".to_owned(),
        })?;
        let token = identity::random_secret();
        let agent = Agent {
            plane: &self.plane,
            token: &token,
            namespace: &namespace,
            machine: &machine.name_any(),
            machine_id,
            plan_public_key: key,
        };
        let (data, format) = agent.render(config.spec.format.unwrap_or_default());
        let keys = [(secrets::VALUE, data.into_bytes()), ("format", format.as_bytes().to_vec())];
        let mut secret = secrets::build(&namespace, cluster, config.name_any(), keys);
        secret.metadata.owner_references = owners::controller(config).map(|owner| vec![owner]);
        // In the same write as the token itself: there is no token whose digest is not known.
        secret.metadata.annotations = Some(BTreeMap::from([
            (identity::MACHINE_ID.to_owned(), machine_id.to_owned()),
            (identity::TOKEN_DIGEST.to_owned(), Digest::of(token.as_bytes()).to_string()),
        ]));
        Ok(secret)
    }

    async fn create(&self, namespace: &str, secret: &Secret) -> Result<()> {
        let api: Api<Secret> = self.api(namespace);
        match api.create(&PostParams::default(), secret).await {
            // Another replica was faster: what it made is looked at in the next round.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Err(Error::Conflict {
                doing: format!("cannot make Secret {namespace}/{}", secret.name_any()),
            }),
            made => {
                made.map(|_| ()).doing(|| format!("cannot make Secret {namespace}/{}", secret.name_any()))
            }
        }
    }

    /// Says how it stands.
    async fn tell(
        &self,
        configs: &Api<CapstanConfig>,
        config: &CapstanConfig,
        decision: &Decision,
    ) -> Result<Next> {
        let mut told = config.clone();
        for condition in decide::conditions(decision) {
            set(&mut told, condition, Timestamp::now());
        }
        let status: &mut CapstanConfigStatus = told.status.get_or_insert_default();
        status.observed_generation = config.metadata.generation;
        if *decision == Decision::Done {
            status.data_secret_name = Some(config.name_any());
            status.initialization.get_or_insert_default().data_secret_created = Some(true);
        }
        Patcher::new(configs.clone(), config).finish(&told, &OWNED).await?;
        // Watches wake it; the timer is for the event that got lost.
        Ok(if matches!(decision, Decision::Wait(_)) { Next::After(LONGEST_WAIT) } else { Next::Changed })
    }
}
