//! The phases of one reconcile, and what they have seen.

use capstan_api::conditions::{get, set};
use capstan_api::controlplane::{CapstanControlPlane, ControlPlaneRemediation};
use capstan_api::core::{FailureDomain, Machine};
use capstan_api::infrastructure::CLAIMABLE_HOSTS;
use capstan_api::keep::{self, ReplacePolicy};
use capstan_api::runtime::annotations::REPLACE_POLICY;
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_controller::etcd::{Access, Etcd};
use capstan_controller::events::{Events, Tone};
use capstan_controller::patch::Patcher;
use capstan_controller::remote::LocalVolumes;
use capstan_controller::secrets::Purpose;
use capstan_controller::{Grounds, Knowledge, Next, pause};
use capstan_distro::{Change, Cost, Endpoint, Role};
use capstan_plan::TrustedKeys;
use capstan_planner::ending::{self, Ending};
use capstan_planner::etcd::quorum;
use capstan_planner::facts::{EtcdView, Hook, MachineFacts};
use capstan_planner::healing::{Case, Healing, Stage};
use capstan_planner::machines::{Leaving, Limits, Remediated, Step, Wanted};
use capstan_planner::plans::{Election, Outcome, elect};
use capstan_planner::wait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{self, Decision, KeyDigests, Keys};
use crate::delete;
use crate::healing;
use crate::kubeconfig;
use crate::machines::{self, leave};
use crate::names::{HEALING, INIT_MACHINE, INITIALIZED, KEY_DIGESTS, NETWORK, NEXT_MACHINE};
use crate::observe::healing::ladder;
use crate::observe::machine::OWNER_REMEDIATED;
use crate::observe::{Machines, Secrets};
use crate::planner::{Materials, Planner, Shelf};
use crate::reconcile::Tools;
use crate::scope::Scope;
use crate::status::{self, Seen};
use crate::workload::{NodesByName, Workload};

/// How soon an API server that should answer is asked again.
const SOON: Duration = Duration::from_secs(2);

/// How long anything that waits is left alone: watches wake it, and nothing tells that an agent has fallen silent.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What one reconcile has seen so far.
pub(crate) struct Round<'a> {
    scope: &'a Scope<'a>,
    secrets: Secrets,
    observed: Machines,
    /// Machines as they are after this round has written to them.
    own: Vec<Machine>,
    facts: Vec<MachineFacts>,
    nodes: Knowledge<NodesByName>,
    etcd: EtcdView,
    /// Machines on their way out that must stay for now, and why.
    held: BTreeMap<String, String>,
    certificates: Option<String>,
    step: Step,
    /// How healing goes, by machine.
    healing: BTreeMap<String, Healing>,
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
            nodes: Knowledge::default(),
            etcd: EtcdView::unknown("it was not asked"),
            held: BTreeMap::new(),
            certificates: Some("Waiting for the infrastructure of the Cluster".to_owned()),
            step: Step::Nothing,
            healing: BTreeMap::new(),
            plans: BTreeMap::new(),
            initialized: scope.is_initialized(),
            answers: false,
            ending: None,
            next: Next::After(LONGEST_WAIT),
        }
    }

    pub(crate) async fn phases(&mut self, workload: &impl Workload, tools: &Tools) -> Result<()> {
        let worked = self.work(workload, tools).await;
        // Last: only who has looked at a machine's plan knows whether the machine is up to date.
        let synced = match self.certificates {
            None => self.sync().await,
            Some(_) => Ok(()),
        };
        worked.and(synced)
    }

    async fn work(&mut self, workload: &impl Workload, tools: &Tools) -> Result<()> {
        let scope = self.scope;
        self.observed = scope.machines().await?;
        self.secrets = scope.secrets().await?;
        if self.initialized {
            self.nodes = workload.nodes(scope.namespace, &scope.cluster_name()).await;
        }
        self.look(None);
        machines::own_template(scope).await?;
        if !scope.is_infrastructure_provisioned() && !self.initialized {
            return Ok(());
        }
        let Some(keys) = self.keys().await? else { return Ok(()) };
        self.look(Some(&keys));
        let Some(endpoint) = scope.endpoint() else {
            self.step = Step::Wait(wait::endpoint());
            return Ok(());
        };
        self.kubeconfig(&endpoint).await?;
        if self.begin(workload).await? {
            // What comes next is decided from the object as it is now.
            self.next = Next::After(Duration::ZERO);
            return Ok(());
        }
        if self.note_what_was_made().await? {
            self.next = Next::After(Duration::ZERO);
            return Ok(());
        }
        let access = self.access(&keys);
        self.ask_etcd(tools.etcd.as_ref(), &access).await;
        if self.leave(tools.etcd.as_ref(), &access).await? {
            self.next = Next::After(Duration::ZERO);
            return Ok(());
        }
        self.heal().await?;
        self.machines(&endpoint, workload).await?;
        if self.elect().await? {
            let catalog = tools.software.catalog();
            let network = scope.network();
            let mut planner = Planner {
                scope,
                observed: &self.observed,
                plans: &self.secrets.plans,
                materials: Materials {
                    owner: scope.owner,
                    endpoint: &endpoint,
                    network: &network,
                    keys: &keys,
                    shelf: Shelf { catalog: &catalog, spare: tools.spare.as_ref() },
                    budgets: &self.observed.budgets,
                    now: scope.now,
                },
                etcd: &self.etcd,
                answers: self.answers,
                workload,
                next: self.next,
            };
            self.plans = planner.plan(&mut self.facts).await?;
            self.next = planner.next;
        }
        Ok(())
    }

    /// How etcd is reached.
    fn access(&self, keys: &Keys) -> Access {
        let servers = self.facts.iter().filter(|machine| machine.control_plane);
        Access {
            namespace: self.scope.namespace.to_owned(),
            cluster: self.scope.cluster_name(),
            addresses: servers.clone().flat_map(|machine| machine.addresses.clone()).collect(),
            os_images: servers.filter_map(|machine| machine.os_image.clone()).collect(),
            ca: keys.certificates.etcd.certificate.as_bytes().to_vec(),
            ca_key: keys.certificates.etcd.key.as_bytes().to_vec(),
        }
    }

    /// Asks etcd who its members are, where that counts: one that is alone and stays alone is its own majority.
    async fn ask_etcd(&mut self, etcd: &dyn Etcd, access: &Access) {
        let servers = self.facts.iter().filter(|machine| machine.control_plane);
        let counts = servers.clone().count() > 1
            || status::replicas(self.scope.owner) > 1
            || servers.clone().any(|machine| machine.deleting || machine.is_ill);
        if !self.initialized || !counts {
            return;
        }
        self.etcd = match etcd.members(access).await {
            Ok(members) => EtcdView::Known(members),
            Err(error) => {
                self.next = self.next.or(Next::After(SOON));
                EtcdView::Unknown(chain(&error))
            }
        };
        self.hear_of_members();
    }

    /// Notes whom etcd hears of.
    fn hear_of_members(&mut self) {
        let EtcdView::Known(members) = &self.etcd else { return };
        for machine in self.facts.iter_mut().filter(|machine| machine.control_plane) {
            let member = quorum::member_of(members, machine.node_name(), &machine.addresses);
            machine.is_heard_of = member.is_some_and(|member| member.is_healthy);
        }
    }

    /// Machines on their way out leave etcd, one at a time. Says whether something was done.
    async fn leave(&mut self, etcd: &dyn Etcd, access: &Access) -> Result<bool> {
        for machine in self.facts.iter().filter(|machine| machine.control_plane) {
            let step = capstan_planner::machines::leave(
                machine,
                &self.etcd,
                self.initialized,
                false,
                self.scope.now,
            );
            if let Leaving::Hold(why) = &step {
                self.held.insert(machine.name.clone(), why.clone());
                self.next = self.next.or(Next::After(SOON));
            }
            if matches!(step, Leaving::Remove(_)) {
                machines::confirm(self.scope, &self.observed).await?;
            }
            match leave::act(self.scope, etcd, access, &machine.name, &step).await {
                Ok(false) => {}
                // Etcd has the last word; everything else goes on meanwhile.
                Err(error) if matches!(step, Leaving::HandOver { .. } | Leaving::Remove(_)) => {
                    self.held.insert(machine.name.clone(), chain(&error));
                    self.next = self.next.or(Next::After(SOON));
                }
                done => return done,
            }
        }
        self.tidy_up(etcd, access).await
    }

    /// Takes members out of etcd whose machine is gone. Says whether it did.
    async fn tidy_up(&mut self, etcd: &dyn Etcd, access: &Access) -> Result<bool> {
        let EtcdView::Known(members) = &self.etcd else { return Ok(false) };
        let Some(stray) = capstan_planner::machines::stray(&self.facts, members) else { return Ok(false) };
        // A Machine that memory does not have yet has its member for good reason.
        machines::confirm(self.scope, &self.observed).await?;
        tracing::info!(member = stray.name, "etcd: member without a machine is removed");
        etcd.remove(access, stray).await?;
        Ok(true)
    }

    fn look(&mut self, keys: Option<&Keys>) {
        let trusted: Option<TrustedKeys> = keys.map(|keys| [keys.signing.public()].into_iter().collect());
        let (owner, plans) = (self.scope.owner, &self.secrets.plans);
        self.facts = self.observed.facts(owner, plans, trusted.as_ref(), &self.nodes);
        self.hear_of_members();
        let own = |machine: &&Machine| Machines::is_of(machine, self.scope.owner);
        self.own = self.observed.machines.values().map(Arc::as_ref).filter(own).cloned().collect();
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
        if let Some(key) = self.secrets.by_purpose.get(&Purpose::PlanKey)
            && let Some(change) = certificates::take_over(key, scope.plane)
        {
            let data: BTreeMap<&str, ByteString> =
                change.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
            let patch = json!({"metadata": {"resourceVersion": key.resource_version()}, "data": data});
            let key = scope.patch::<Secret>(&key.name_any(), &patch).await?;
            self.secrets.by_purpose.insert(Purpose::PlanKey, key);
        }
        let digests = certificates::digests(&self.secrets.by_purpose);
        if self.initialized
            && let Some(recorded) = scope.key_digests()
            && let Some(why) = certificates::changed(&recorded, &digests, &cluster)
        {
            self.certificates = Some(why);
            return Ok(None);
        }
        let keys = Keys::read(&self.secrets.by_purpose, &cluster)?;
        self.certificates = None;
        if self.initialized && scope.key_digests().is_none() {
            // The cluster began before digests were recorded: what it is kept by now is what it was made from.
            let digests = key_digests(&digests)?;
            scope.record(scope.owner, &[(KEY_DIGESTS, Some(&digests))]).await?;
            self.next = Next::After(Duration::ZERO);
            self.certificates = Some("Digests of keys and certificates are being recorded".to_owned());
            return Ok(None);
        }
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
        // One on its way out takes with it what it began: another one begins then.
        let began = |facts: &&MachineFacts| {
            facts.is_applied()
                && !facts.deleting
                && elected.as_ref().is_some_and(|elected| facts.id.as_deref() == Some(&elected.id))
        };
        if !self.initialized && !self.facts.iter().any(|facts| began(&facts)) {
            return Ok(false);
        }
        self.answers = workload.answers(scope.namespace, &scope.cluster_name()).await;
        if !self.answers {
            self.next = self.next.or(Next::After(SOON));
        } else if !self.initialized {
            let digests = key_digests(&certificates::digests(&self.secrets.by_purpose))?;
            let now = scope.now.to_string();
            scope.record(scope.owner, &[(INITIALIZED, Some(&now)), (KEY_DIGESTS, Some(&digests))]).await?;
            self.initialized = true;
            return Ok(true);
        }
        Ok(false)
    }

    async fn sync(&mut self) -> Result<()> {
        for machine in &mut self.own {
            let name = machine.name_any();
            if let Some(facts) = self.facts.iter().find(|facts| facts.name == name) {
                let healing = self.healing.get(&name);
                *machine = machines::sync(self.scope, machine, facts, self.plans.get(&name), healing).await?;
            }
        }
        for facts in self.facts.iter().filter(|facts| !facts.control_plane) {
            let (machine, healing) = (self.observed.machines.get(&facts.name), self.healing.get(&facts.name));
            if let (Some(machine), Some(healing)) = (machine, healing) {
                machines::tell_healing(self.scope, machine, healing).await?;
            }
        }
        Ok(())
    }

    /// Takes the next step of healing each ill machine, and records it before anything is made from it.
    async fn heal(&mut self) -> Result<()> {
        let scope = self.scope;
        let ladder = ladder(scope.owner.spec.healing.as_ref());
        let mut under_way = 0;
        // Those that are being healed go on before another one begins.
        let mut order: Vec<usize> = (0..self.facts.len()).collect();
        order.sort_by_key(|index| {
            let facts = &self.facts[*index];
            (facts.healing.active.as_ref().is_none_or(|active| active.begun == 0), facts.age().0)
        });
        for index in order {
            let machine = &self.facts[index];
            let remedy = remedy(scope, machine);
            let case = Case { machine, ladder: &ladder, others: under_way, remedy: &remedy, now: scope.now };
            let healing = capstan_planner::healing::decide(&case);
            if healing.is_under_way() {
                under_way += 1;
                self.next = self.next.or(Next::After(SOON));
            }
            let name = machine.name.clone();
            if let Some(record) = &healing.record
                && let Some(read) = self.observed.machines.get(&name)
            {
                let text = serde_json::to_string(record)
                    .map_err(|error| Error::transient(format!("cannot heal Machine {name}"), error))?;
                let patch = json!({"metadata": {
                    "resourceVersion": read.resource_version(), "annotations": {HEALING: text}}});
                let written = scope.patch::<Machine>(&name, &patch).await?;
                if let Some((stage, message)) = &healing.told {
                    tracing::info!(machine = name, reason = healing::reason(*stage), message, "healing");
                }
                if let Some(own) = self.own.iter_mut().find(|own| own.name_any() == name) {
                    *own = written.clone();
                }
                self.observed.machines.insert(name.clone(), Arc::new(written));
                self.facts[index].healing = record.clone();
                self.next = self.next.or(Next::After(SOON));
            }
            let told = healing.told.as_ref().filter(|(stage, _)| *stage != Stage::Healthy);
            if let (Some((stage, message)), Some(machine)) = (told, self.observed.machines.get(&name)) {
                let reason = healing::reason(*stage);
                let said =
                    get(machine.as_ref(), keep::HEALED_IN_PLACE).is_some_and(|said| said.reason == reason);
                if !said {
                    let events = Events::new(scope.client().clone(), "capstan-control-plane");
                    events.tell(machine.as_ref(), Tone::Warning, reason, message, scope.now).await;
                }
            }
            self.facts[index].is_beyond_healing = healing.is_exhausted();
            self.ask_owner(index, &healing).await?;
            self.healing.insert(name, healing);
        }
        Ok(())
    }

    /// Asks the owner of a machine to replace it, if its health check has left that to us.
    async fn ask_owner(&mut self, index: usize, healing: &Healing) -> Result<()> {
        let (scope, facts) = (self.scope, &self.facts[index]);
        let Some(machine) = self.observed.machines.get(&facts.name) else { return Ok(()) };
        let policy = match facts.control_plane {
            true => Ok(scope.may_replace().then_some(ReplacePolicy::WhenNeeded)),
            false => self.observed.replacements.policy(facts),
        };
        if !healing::is_to_be_asked(machine, facts, healing, policy) {
            return Ok(());
        }
        let template = match facts.control_plane {
            true => Some(&scope.owner.spec.machine_template.spec.infrastructure_ref),
            false => self.observed.replacements.template(facts),
        };
        if let Err(why) = scope.spare(template).await?.check() {
            tracing::info!(machine = facts.name, why, "the owner is not asked to replace the Machine");
            return Ok(());
        }
        let mut told = machine.as_ref().clone();
        set(&mut told, healing::ask(), scope.now);
        Patcher::new(scope.api(), machine.as_ref()).finish(&told, &[OWNER_REMEDIATED]).await
    }

    async fn machines(&mut self, endpoint: &Endpoint, workload: &impl Workload) -> Result<()> {
        let scope = self.scope;
        let own: Vec<MachineFacts> = self.own_facts();
        let remediated = scope.remediated();
        let too_many =
            own.iter().filter(|machine| !machine.deleting).count() > status::replicas(scope.owner).max(1);
        let volumes = match self.initialized && too_many {
            true => workload.local_volumes(scope.namespace, &scope.cluster_name()).await,
            // No machine is deleted in this round, so the volumes are not listed.
            false => Knowledge::default(),
        };
        let view = View { etcd: &self.etcd, volumes: &volumes, initialized: self.initialized };
        let mut wanted = wanted(scope, &endpoint.host, view, remediated.as_ref());
        let exhausted = self.healing.iter().filter(|(_, healing)| healing.is_exhausted());
        wanted.exhausted = exhausted.map(|(name, _)| name.clone()).collect();
        if wanted.may_replace && !wanted.exhausted.is_empty() {
            let template = &scope.owner.spec.machine_template.spec.infrastructure_ref;
            wanted.spare = scope.spare(Some(template)).await?;
        }
        self.step = capstan_planner::machines::decide(&own, &wanted);
        machines::act(scope, &self.observed, &self.step).await
    }

    /// Strikes out the name of a machine to be made, if it was made and nobody got to that: the next one would be taken for
    /// it otherwise. Says whether it did.
    async fn note_what_was_made(&self) -> Result<bool> {
        let is_there = |name: &&str| self.observed.machines.contains_key(*name);
        if self.scope.begun().filter(is_there).is_none() {
            return Ok(false);
        }
        self.scope.record(self.scope.owner, &[(NEXT_MACHINE, None)]).await?;
        Ok(true)
    }

    /// Writes down who begins the cluster, and says whether plans may be made in this round.
    async fn elect(&mut self) -> Result<bool> {
        let scope = self.scope;
        match elect(scope.elected().as_ref(), &self.facts, self.initialized) {
            Election::Settled | Election::Wait => Ok(true),
            Election::Elect(elected) => {
                let network = serde_json::to_string(&scope.asked_network())
                    .map_err(|error| Error::transient("cannot write down the cluster's network", error))?;
                let record = elected.record();
                scope
                    .record(scope.owner, &[(INIT_MACHINE, Some(&record)), (NETWORK, Some(&network))])
                    .await?;
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
        let ending = ending::decide(&self.facts);
        if let Ending::Machines { delete, .. } = &ending {
            for machine in self.facts.iter().filter(|machine| machine.control_plane) {
                // With all of etcd gone nobody has to leave it.
                if machine.hook != Hook::None {
                    leave::release(self.scope, &machine.name).await?;
                }
            }
            for name in delete {
                let grounds = Grounds::asked("its control plane is deleted");
                machines::delete(self.scope, &self.observed, name, &grounds).await?;
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
            Err(Error::User { field, message }) => {
                Step::Refuse(vec![Change::new(field.clone(), Cost::Refused, message.clone())])
            }
            _ => self.step.clone(),
        };
        let seen = Seen {
            cluster: &cluster,
            initialized: self.initialized,
            answers: self.answers,
            certificates: match &result {
                // Whoever can give the right looks here first.
                Err(error @ Error::Forbidden { .. }) => Some(error.to_string()),
                _ => self.certificates.clone(),
            },
            machines: self.own.clone(),
            facts: self.own_facts(),
            step,
            plans: self.plans.clone(),
            etcd: self.etcd.clone(),
            held: self.held.clone(),
            deleting: self.ending.as_ref().map(delete::condition),
            now: self.scope.now,
        };
        let mut told = owner.clone();
        status::compute(&mut told, &seen);
        pause::lifted(&mut told, self.scope.now);
        let written = Patcher::new(api.clone(), owner).finish(&told, &status::OWNED).await;
        if let (Err(error), Err(_)) = (&written, &result) {
            tracing::warn!(error = %chain(error), "cannot write status");
        }
        result.and(written)
    }
}

fn key_digests(digests: &KeyDigests) -> Result<String> {
    serde_json::to_string(digests).map_err(|error| Error::transient("cannot record digests of keys", error))
}

/// What the user can do about a machine that does not recover.
fn remedy(scope: &Scope<'_>, machine: &MachineFacts) -> String {
    let allow = match (machine.control_plane, scope.may_replace(), &machine.group) {
        (true, true, _) => return "it is replaced once a clean host is free and etcd can bear it".to_owned(),
        (true, false, _) => format!(
            "to have it replaced, set spec.rollout.strategy.type of CapstanControlPlane {} to InPlaceOrReplace",
            scope.owner.name_any()
        ),
        (false, _, group) => format!(
            "to have it replaced, set the annotation {REPLACE_POLICY} of its {} to WhenNeeded",
            group.as_ref().map_or_else(|| "Machine".to_owned(), |group| format!("MachineDeployment {group}"))
        ),
    };
    format!("{allow}, or delete the Machine: its host is reset then")
}

/// What is known beside the machines.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) etcd: &'a EtcdView,
    pub(crate) volumes: &'a Knowledge<LocalVolumes>,
    pub(crate) initialized: bool,
}

/// What a control plane asks for, beside the machines themselves.
pub(crate) fn wanted<'a>(
    scope: &'a Scope<'_>,
    endpoint: &'a str,
    view: View<'a>,
    remediated: Option<&'a Remediated>,
) -> Wanted<'a> {
    let View { etcd, volumes, initialized } = view;
    let status = scope.cluster.status.as_ref();
    let domains = status.map(|status| status.failure_domains.as_slice()).unwrap_or_default();
    Wanted {
        replicas: status::replicas(scope.owner),
        domains: domains
            .iter()
            .filter(|domain| domain.control_plane == Some(true) && !is_full(domain))
            .map(|domain| domain.name.as_str())
            .collect(),
        begun: scope.begun(),
        impossible: impossible(scope),
        may_replace: scope.may_replace(),
        initialized,
        volumes,
        endpoint,
        etcd,
        exhausted: BTreeSet::new(),
        spare: Knowledge::default(),
        remediation: limits(scope.owner.spec.remediation.as_ref(), remediated, scope.now),
    }
}

/// `spec.remediation`, with defaults for the rest.
fn limits<'a>(
    spec: Option<&ControlPlaneRemediation>,
    last: Option<&'a Remediated>,
    now: Timestamp,
) -> Limits<'a> {
    let usual = Limits { last, now, ..Limits::default() };
    let Some(spec) = spec else { return usual };
    let seconds = |value: Option<i32>| value.map(|value| SignedDuration::from_secs(value.max(0).into()));
    Limits {
        max_retry: spec.max_retry.and_then(|most| u32::try_from(most).ok()),
        retry_period: seconds(spec.retry_period_seconds).unwrap_or(usual.retry_period),
        min_healthy: seconds(spec.min_healthy_period_seconds).unwrap_or(usual.min_healthy),
        ..usual
    }
}

/// Whether the infrastructure provider says that no machine can be placed there. One that says nothing may have room.
fn is_full(domain: &FailureDomain) -> bool {
    domain.attributes.get(CLAIMABLE_HOSTS).is_some_and(|hosts| hosts == "0")
}

/// What no machine could be told, whatever it is now.
fn impossible(scope: &Scope<'_>) -> Vec<Change> {
    let config = capstan_distro::check(&scope.owner.spec.config, Role::Server).err().map(|error| {
        let field = error.field.replacen("spec.", "spec.config.", 1);
        Change { field, ..Change::from(error) }
    });
    let network = (scope.asked_network() != scope.network()).then(|| {
        let why = "it was decided when the cluster began and cannot be changed: set it back";
        Change::new(format!("Cluster {} spec.clusterNetwork", scope.cluster_name()), Cost::Refused, why)
    });
    config.into_iter().chain(network).collect()
}
