//! Everything there is at one moment, and what plans say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_api::infrastructure::HostMachine;
use capstan_plan::{
    Action, MachineIdentity, OpenGates, PublicKey, SecretData, SignedGates, SignedPlan, Successions,
    TrustedKeys, VerifiedPlan,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::Value;

use super::World;

/// Everything there is, at one moment.
pub(crate) struct Scene {
    pub(crate) control_plane: Option<CapstanControlPlane>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) configs: BTreeMap<String, CapstanConfig>,
    pub(crate) hosts: BTreeMap<String, HostMachine>,
    pub(crate) reports: BTreeMap<String, MachineReport>,
    pub(crate) secrets: BTreeMap<String, Secret>,
    read: Plans,
}

/// Plans that were read and verified, by the identity and version of their Secret: that takes most of a test's time. On
/// another plane a version may come again.
#[derive(Clone, Default)]
pub(crate) struct Plans(Arc<Mutex<BTreeMap<Version, Arc<VerifiedPlan>>>>);

/// UID and resource version.
type Version = [Option<String>; 2];

impl World {
    pub(crate) async fn scene(&self) -> Result<Scene> {
        let all = ListParams::default();
        // Secrets before reports, and both before what they are about: what is newer can only be further.
        let control_plane = self.api::<CapstanControlPlane>().get_opt("cp").await?;
        let secrets = self.api::<Secret>().list(&all).await?.items;
        let reports = self.api::<MachineReport>().list(&all).await?.items;
        let configs = self.api::<CapstanConfig>().list(&all).await?.items;
        let hosts = self.api::<HostMachine>().list(&all).await?.items;
        Ok(Scene {
            control_plane,
            secrets: secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect(),
            reports: reports.into_iter().map(|report| (report.name_any(), report)).collect(),
            configs: configs.into_iter().map(|config| (config.name_any(), config)).collect(),
            hosts: hosts.into_iter().map(|host| (host.name_any(), host)).collect(),
            machines: self.machines().await?,
            read: self.plans.clone(),
        })
    }
}

impl Scene {
    /// Whether it is noted that the cluster has begun.
    pub(crate) fn is_begun(&self) -> bool {
        let noted = |owner: &CapstanControlPlane| owner.annotations().contains_key("capstan.dev/initialized");
        self.control_plane.as_ref().is_some_and(noted)
    }

    /// An annotation of the control plane.
    pub(crate) fn noted(&self, key: &str) -> Option<&str> {
        self.control_plane.as_ref()?.annotations().get(key).map(String::as_str)
    }

    /// Whether the gate of a machine's plan is open, as its agent would see it.
    pub(crate) fn is_open(&self, machine: &str, plan: &VerifiedPlan) -> Result<bool> {
        let data = data(&self.secrets[&format!("{machine}-plan")]);
        let Some(signed) = SignedGates::from_secret_data(&data)? else { return Ok(false) };
        let gates = OpenGates::verify(&signed, &self.keys()?, plan.id())?;
        Ok(gates.is_open(plan.id(), &"drained".parse()?))
    }

    /// The key that signs plans.
    pub(crate) fn key(&self) -> Result<PublicKey> {
        let key = self.secrets.get("c-plan-key").and_then(|key| key.data.as_ref()).unwrap();
        Ok(PublicKey::from_bytes(&key["public"].0)?)
    }

    /// The key that signs plans, and those that it has followed.
    fn keys(&self) -> Result<TrustedKeys> {
        let (key, data) = (self.key()?, self.secrets["c-plan-key"].data.as_ref());
        let links = data.and_then(|data| data.get("successions")).map(|bytes| bytes.0.as_slice());
        let links = Successions::from_bytes(links.unwrap_or_default())?;
        Ok(links.before(key).chain([key]).collect())
    }

    /// The key that an agent trusts once it has seen its plan, which must be signed with it.
    pub(super) fn followed(&self, machine: &str, known: PublicKey) -> Result<PublicKey> {
        let data = data(&self.secrets[&format!("{machine}-plan")]);
        let key = Successions::from_secret_data(&data)?.heir(known);
        let ours = MachineIdentity { name: machine.parse()?, machine_id: format!("id-{machine}").parse()? };
        SignedPlan::from_secret_data(&data)?.verify(&[key].into_iter().collect(), &ours)?;
        Ok(key)
    }

    pub(crate) fn plan(&self, machine: &str) -> Result<Option<Arc<VerifiedPlan>>> {
        let Some(secret) = self.secrets.get(&format!("{machine}-plan")) else { return Ok(None) };
        let version = [secret.uid(), secret.resource_version()];
        if let Some(plan) = self.read.0.lock().unwrap().get(&version) {
            return Ok(Some(Arc::clone(plan)));
        }
        let signed = SignedPlan::from_secret_data(&data(secret))?;
        let ours = MachineIdentity { name: machine.parse()?, machine_id: format!("id-{machine}").parse()? };
        let plan = Arc::new(signed.verify(&self.keys()?, &ours)?);
        self.read.0.lock().unwrap().insert(version, Arc::clone(&plan));
        Ok(Some(plan))
    }

    /// Whether a text is anywhere in a plan.
    pub(crate) fn contains(plan: &VerifiedPlan, text: &str) -> bool {
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        let plan = plan.plan();
        plan.redact.iter().any(|redacted| redacted.expose().contains(text))
            || plan.steps.iter().any(|step| match &step.action {
                Action::File(file) => holds(file.content.as_bytes()),
                Action::Unit(unit) => holds(unit.content.as_bytes()),
                other => holds(serde_json::to_string(other).unwrap().as_bytes()),
            })
    }

    /// What the user wants in a machine's `config.yaml`.
    pub(crate) fn settings(&self, machine: &str) -> serde_json::Map<String, Value> {
        let config = self.configs.get(machine).map(|config| serde_json::to_value(&config.spec).unwrap());
        config.and_then(|config| config["settings"].as_object().cloned()).unwrap_or_default()
    }

    /// What the user wants to be removed when a machine's host is released.
    pub(crate) fn to_be_wiped(&self, machine: &str) -> Vec<String> {
        let config = self.configs.get(machine).and_then(|config| config.spec.release.clone());
        config.map(|release| release.wipe).unwrap_or_default()
    }

    /// What is written down beside a machine's plan.
    pub(crate) fn record(&self, machine: &str) -> Value {
        let secret = self.secrets.get(&format!("{machine}-plan"));
        let record = secret.and_then(|secret| secret.annotations().get("capstan.dev/plan-record"));
        record.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default()
    }

    /// Whether a machine's plan starts again what runs there.
    pub(crate) fn restarts(&self, machine: &str) -> bool {
        let record = self.record(machine);
        record["ran"]["restart"].is_string() && record["ran"]["restart"] != record["setup"]["restart"]
    }

    /// Whether a machine has said that it carried out the plan.
    pub(crate) fn is_applied(&self, machine: &str, plan: &VerifiedPlan) -> bool {
        let status = self.reports.get(machine).and_then(|report| report.status.as_ref());
        let applied = status.and_then(|status| status.applied.as_ref());
        applied.is_some_and(|applied| plan.id().is_named_by(&applied.digest, applied.revision))
    }
}

/// Whether it is one of the control plane.
pub(crate) fn is_server(machine: &Machine) -> bool {
    machine.labels().contains_key("cluster.x-k8s.io/control-plane")
}

pub(crate) fn is_leaving(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

fn data(secret: &Secret) -> SecretData {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

/// `config.yaml` in a plan.
pub(crate) fn config_of(plan: &VerifiedPlan) -> Value {
    let file = plan.plan().steps.iter().find_map(|step| match &step.action {
        Action::File(file) if file.path.as_str() == "/etc/rancher/k3s/config.yaml" => Some(file),
        _ => None,
    });
    serde_json::from_slice(file.unwrap().content.as_bytes()).unwrap()
}

/// Paths that a plan has the machine remove when its host is released, beside what Kubernetes has made.
pub(crate) fn wiped(plan: &VerifiedPlan) -> Vec<String> {
    let script = plan.plan().steps.iter().find_map(|step| match &step.action {
        Action::File(file) if file.path.as_str().ends_with("/k3s.sh") => Some(file),
        _ => None,
    });
    let script = std::str::from_utf8(script.unwrap().content.as_bytes()).unwrap();
    let list = script.split_once("\nWIPE='").unwrap().1.split_once("'\n").unwrap().0;
    list.lines().map(str::to_owned).collect()
}

/// Whether a plan begins a cluster.
pub(crate) fn begins(plan: &VerifiedPlan) -> bool {
    config_of(plan)["cluster-init"] == true
}

/// The version that a plan installs, which is the last that it puts there.
pub(crate) fn version_of(plan: &VerifiedPlan) -> String {
    let mut artifacts = plan.plan().steps.iter().filter_map(|step| match &step.action {
        Action::Artifact(artifact) => Some(artifact),
        _ => None,
    });
    artifacts.next_back().unwrap().path.parts().nth(3).unwrap().to_owned()
}
