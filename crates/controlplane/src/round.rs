//! The phases of one reconcile, and what they have seen.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_controller::Next;
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_controller::patch::Patcher;
use capstan_controller::secrets::Purpose;
use capstan_distro::{Change, Cost, Endpoint};
use capstan_plan::TrustedKeys;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::certificates::{self, Decision, Keys};
use crate::delete::{self, Ending};
use crate::facts::MachineFacts;
use crate::kubeconfig;
use crate::machines::{self, Step, Wanted};
use crate::names::{INIT_MACHINE, INITIALIZED};
use crate::observe::{Machines, Secrets};
use crate::planner::{self, Election, Outcome};
use crate::scope::Scope;
use crate::status::{self, Seen};
use crate::workload::Workload;

/// How soon an API server that should answer is asked again.
const SOON: Duration = Duration::from_secs(2);

/// How long anything that waits is left alone: watches wake it, the timer is for the event that got lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What one reconcile has seen so far.
pub(crate) struct Round<'a> {
    scope: &'a Scope<'a>,
    secrets: Secrets,
    observed: Machines,
    /// Machines as they are after this round has written to them.
    own: Vec<Machine>,
    facts: Vec<MachineFacts>,
    certificates: Option<String>,
    step: Step,
    plans: BTreeMap<String, Outcome>,
    initialized: bool,
    answers: bool,
    pub(crate) ending: Option<Ending>,
    /// When to look again.
    pub(crate) next: Next,
}

impl<'a> Round<'a> {
    pub(crate) fn new(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            secrets: Secrets::default(),
            observed: Machines::default(),
            own: Vec::new(),
            facts: Vec::new(),
            certificates: Some("Waiting for the infrastructure of the Cluster".to_owned()),
            step: Step::Nothing,
            plans: BTreeMap::new(),
            initialized: scope.is_initialized(),
            answers: false,
            ending: None,
            next: Next::After(LONGEST_WAIT),
        }
    }

    pub(crate) async fn phases(&mut self, workload: &impl Workload) -> Result<()> {
        let scope = self.scope;
        self.observed = scope.machines().await?;
        self.secrets = scope.secrets().await?;
        self.look(None);
        machines::own_template(scope).await?;
        if !scope.is_infrastructure_provisioned() && !self.initialized {
            return Ok(());
        }
        let Some(keys) = self.keys().await? else { return Ok(()) };
        self.look(Some(&keys));
        let Some(endpoint) = scope.endpoint() else {
            self.step = Step::Wait("waits for Cluster spec.controlPlaneEndpoint".to_owned());
            return Ok(());
        };
        self.kubeconfig(&endpoint).await?;
        let begins = self.begin(workload).await?;
        self.sync().await?;
        if begins {
            // What comes next is decided from the object as it is now.
            self.next = Next::After(Duration::ZERO);
            return Ok(());
        }
        self.machines().await?;
        if self.elect().await? {
            let (observed, plans) = (&self.observed, &self.secrets.plans);
            self.plans = planner::plan(scope, observed, plans, &mut self.facts, &endpoint, &keys).await?;
        }
        Ok(())
    }

    fn look(&mut self, keys: Option<&Keys>) {
        let trusted: Option<TrustedKeys> = keys.map(|keys| [keys.signing.public()].into_iter().collect());
        self.facts = self.observed.facts(self.scope.owner, &self.secrets.plans, trusted.as_ref());
        let own = |machine: &&Machine| Machines::is_of(machine, self.scope.owner);
        self.own = self.observed.machines.values().filter(own).cloned().collect();
    }

    /// What the cluster is kept by; made if it may be.
    async fn keys(&mut self) -> Result<Option<Keys>> {
        let (scope, cluster) = (self.scope, self.scope.cluster_name());
        let missing = match certificates::decide(&self.secrets.by_purpose, &cluster, self.initialized) {
            Decision::Complete => Vec::new(),
            Decision::Make(missing) => missing,
            Decision::Refuse(why) => {
                self.certificates = Some(why);
                return Ok(None);
            }
        };
        self.certificates = Some("Keys and certificates are being made".to_owned());
        let api: Api<Secret> = scope.api();
        for purpose in missing {
            certificates::create(&api, scope.owner, scope.namespace, &cluster, purpose, scope.now).await?;
            // What is there counts, whoever made it.
            let made = scope.get::<Secret>(&purpose.secret_name(&cluster)).await?;
            self.secrets.by_purpose.extend(made.map(|secret| (purpose, secret)));
        }
        let keys = Keys::read(&self.secrets.by_purpose, &cluster)?;
        self.certificates = None;
        Ok(Some(keys))
    }

    async fn kubeconfig(&mut self, endpoint: &Endpoint) -> Result<()> {
        let (scope, cluster) = (self.scope, self.scope.cluster_name());
        let found = self.secrets.by_purpose.get(&Purpose::Kubeconfig);
        let (true, Some(ca)) = (
            kubeconfig::is_due(found, scope.owner, endpoint, scope.now),
            self.secrets.by_purpose.get(&Purpose::Ca),
        ) else {
            return Ok(());
        };
        let doing = || format!("cannot write Secret {}", Purpose::Kubeconfig.secret_name(&cluster));
        let mut secret = kubeconfig::build(ca, scope.owner, &cluster, endpoint, scope.now)
            .map_err(|error| Error::transient(doing(), error))?;
        let api: Api<Secret> = scope.api();
        match found {
            Some(found) => {
                secret.metadata.resource_version = found.resource_version();
                api.replace(&secret.name_any(), &PostParams::default(), &secret).await.doing(doing)?;
            }
            None => _ = api.create(&PostParams::default(), &secret).await.doing(doing)?,
        }
        Ok(())
    }

    /// Notes that the cluster has begun, once the machine that begins it says so and the API server answers. Says
    /// whether it did so now.
    async fn begin(&mut self, workload: &impl Workload) -> Result<bool> {
        let scope = self.scope;
        let elected = scope.elected();
        let began = |facts: &&MachineFacts| {
            facts.is_applied()
                && elected.as_ref().is_some_and(|elected| facts.id.as_deref() == Some(&elected.id))
        };
        if !self.initialized && !self.facts.iter().any(|facts| began(&facts)) {
            return Ok(false);
        }
        self.answers = workload.answers(scope.namespace, &scope.cluster_name()).await;
        if !self.answers {
            self.next = self.next.or(Next::After(SOON));
        } else if !self.initialized {
            scope.record(scope.owner, INITIALIZED, Some(&scope.now.to_string())).await?;
            self.initialized = true;
            return Ok(true);
        }
        Ok(false)
    }

    async fn sync(&mut self) -> Result<()> {
        for machine in &mut self.own {
            let name = machine.name_any();
            if let Some(facts) = self.facts.iter().find(|facts| facts.name == name) {
                *machine = machines::sync(self.scope, machine, facts).await?;
            }
        }
        Ok(())
    }

    async fn machines(&mut self) -> Result<()> {
        let scope = self.scope;
        let own: Vec<MachineFacts> = self.own_facts();
        let status = scope.cluster.status.as_ref();
        let domains = status.map(|status| status.failure_domains.as_slice()).unwrap_or_default();
        let impossible = capstan_distro::check(&scope.owner.spec.config).err().map(|error| {
            let field = error.field.replacen("spec.", "spec.config.", 1);
            Change { field, ..Change::from(error) }
        });
        let wanted = Wanted {
            replicas: status::replicas(scope.owner),
            domains: domains
                .iter()
                .filter(|domain| domain.control_plane == Some(true))
                .map(|domain| domain.name.as_str())
                .collect(),
            begun: scope.begun(),
            impossible,
        };
        self.step = machines::decide(&own, &wanted);
        machines::act(scope, &self.observed, &self.step).await
    }

    /// Writes down who begins the cluster, and says whether plans may be made in this round.
    async fn elect(&mut self) -> Result<bool> {
        let scope = self.scope;
        match planner::elect(scope.elected().as_ref(), &self.facts, self.initialized) {
            Election::Settled | Election::Wait => Ok(true),
            Election::Elect(elected) => {
                scope.record(scope.owner, INIT_MACHINE, Some(&elected.record())).await?;
                tracing::info!(machine = elected.name, "elected to begin the cluster");
                self.next = Next::After(Duration::ZERO);
                Ok(false)
            }
        }
    }

    /// Deletion: see [`delete`].
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.observed = self.scope.machines().await?;
        self.certificates = None;
        self.look(None);
        let ending = delete::decide(&self.facts);
        if let Ending::Machines { delete, .. } = &ending {
            for name in delete {
                machines::delete::<Machine>(&self.scope.api(), name).await?;
            }
        }
        self.ending = Some(ending);
        Ok(())
    }

    fn own_facts(&self) -> Vec<MachineFacts> {
        self.facts.iter().filter(|facts| facts.control_plane).cloned().collect()
    }

    /// Says how it stands, whatever the phases ended with.
    pub(crate) async fn finish(&self, api: &Api<CapstanControlPlane>, result: Result<()>) -> Result<()> {
        let owner = self.scope.owner;
        let cluster = self.scope.cluster_name();
        let step = match &result {
            // The user must act: said where the user looks.
            Err(Error::User { field, message }) => Step::Refuse(vec![Change {
                field: field.clone(),
                cost: Cost::Refused,
                why: message.clone().into(),
            }]),
            _ => self.step.clone(),
        };
        let seen = Seen {
            cluster: &cluster,
            initialized: self.initialized,
            answers: self.answers,
            certificates: self.certificates.clone(),
            machines: self.own.clone(),
            facts: self.own_facts(),
            step,
            plans: self.plans.clone(),
            deleting: self.ending.as_ref().map(delete::condition),
            now: self.scope.now,
        };
        let mut told = owner.clone();
        status::compute(&mut told, &seen);
        let written = Patcher::new(api.clone(), owner).finish(&told, &status::OWNED).await;
        if let (Err(error), Err(_)) = (&written, &result) {
            tracing::warn!(error = %chain(error), "cannot write status");
        }
        result.and(written)
    }
}
