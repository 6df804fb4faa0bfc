//! The part of a control plane provider: CAs, plans in the shape of `distro`, signatures, and reading reports.

use anyhow::{Context as _, Result, ensure};
use capstan_api::agent::{MachineReport, MachineReportStatus, PlanPhase};
use capstan_plan::{
    Action, Argv, Artifact, Check, Command, Content, Digest, Epoch, File, MachineIdentity, MachinePath,
    MachinePlan, Mode, PlanId, Repeat, Retry, Revision, SECRET_TYPE, SigningKey, Source, Step, StepName,
    Stop, Target, Undo, Unit, Unpack,
};
use capstan_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

use super::{DEADLINE, NAMESPACE, Yard};

pub(crate) struct Trust {
    pub(crate) signing_key: SigningKey,
    ca: CertifiedIssuer<'static, KeyPair>,
}

pub(crate) fn machine_id(name: &str) -> String {
    format!("id-of-{name}")
}

impl Trust {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { signing_key: SigningKey::generate()?, ca })
    }

    pub(crate) fn kubeconfig(&self, port: u16) -> Result<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.ca)?;
        let base64 = |text: String| serde_json::to_value(ByteString(text.into_bytes()));
        let cluster = json!({
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": base64(self.ca.pem())?,
        });
        let user = json!({
            "client-certificate-data": base64(certificate.pem())?,
            "client-key-data": base64(key.serialize_pem())?,
        });
        Ok(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
        .to_string())
    }
}

pub(crate) struct Role {
    pub(crate) is_init: bool,
    pub(crate) is_server: bool,
}

pub(crate) const INIT: Role = Role { is_init: true, is_server: true };
pub(crate) const SERVER: Role = Role { is_init: false, is_server: true };
pub(crate) const WORKER: Role = Role { is_init: false, is_server: false };

impl Yard {
    /// Writes the plan of a machine, as a planner would.
    pub(crate) async fn plan(
        &self,
        machine: &str,
        revision: u64,
        role: &Role,
        port: u16,
        version: &str,
    ) -> Result<PlanId> {
        let provider_id = self.provisioned(machine).await?;
        let mut config = json!({
            "token": "token-of-the-cluster", "node-name": machine,
            "kubelet-arg": [format!("provider-id={provider_id}")],
        });
        match role.is_init {
            true => config["cluster-init"] = json!(true),
            false => config["server"] = json!(format!("https://127.0.0.1:{port}")),
        }
        let (kind, unit) = if role.is_server { ("server", "k3s") } else { ("agent", "k3s-agent") };
        let mut steps = vec![];
        if role.is_server {
            config["https-listen-port"] = json!(port);
            config["tls-san"] = json!(["127.0.0.1"]);
            let tls = "/var/lib/rancher/k3s/server/tls";
            let key = self.trust.ca.key().serialize_pem();
            for (name, text) in [("server-ca", self.trust.ca.pem()), ("client-ca", self.trust.ca.pem())] {
                steps.push(file(&format!("{name}-crt"), &format!("{tls}/{name}.crt"), text)?);
                steps.push(file(&format!("{name}-key"), &format!("{tls}/{name}.key"), key.clone())?);
            }
        }
        steps.insert(0, file("config", "/etc/rancher/k3s/config.yaml", config.to_string())?);
        let home = format!("/opt/capstan/k3s/{version}");
        steps.push(Step::new(StepName::new("k3s")?, Action::Artifact(software(&home)?)));
        let mut room = Command::new(Argv::new(["/bin/sh", SCRIPT, "room"])?);
        room.undo = Some(Undo { argv: Argv::new(["/bin/sh", SCRIPT, "clean"])?, env: Vec::new() });
        steps.push(Step::new(StepName::new("room")?, Action::Command(room)));
        let start = Action::Unit(Unit {
            name: format!("{unit}.service").parse()?,
            content: Content::from(format!("[Service]\nExecStart={home}/bin/k3s {kind}\n")),
            restart: version.parse()?,
            stop: Some(Stop { argv: Argv::new(["/bin/sh", SCRIPT, "stop"])?, timeout_seconds: 30 }),
        });
        let retry = Some(Retry::every(1, 30));
        steps.push(Step { retry, ..Step::new(StepName::new("start")?, start) });
        let ready = ["/bin/sh", SCRIPT, "ready", kind, &format!("{home}/bin/k3s"), machine];
        let check = Action::Check(Check { target: Target::Exec(Argv::new(ready)?) });
        let ready = Step {
            repeat: Repeat::Always,
            retry: Some(Retry::every(1, 30)),
            ..Step::new(StepName::new("ready")?, check)
        };
        steps.push(ready);
        self.write_plan(machine, revision, steps).await
    }

    pub(crate) async fn write_plan(&self, machine: &str, revision: u64, steps: Vec<Step>) -> Result<PlanId> {
        let identity = MachineIdentity { name: machine.parse()?, machine_id: machine_id(machine).parse()? };
        let second = Timestamp::from_second(Timestamp::now().as_second())?;
        let expires = second.checked_add(SignedDuration::from_hours(1))?;
        let mut plan = MachinePlan::new(identity, Revision::new(revision)?, Epoch(1), expires);
        plan.steps = steps;
        let sealed = plan.seal()?;
        let data: Value = sealed
            .sign(&self.trust.signing_key)
            .to_secret_data()
            .into_iter()
            .map(|(key, value)| (key, json!(ByteString(value))))
            .collect();
        let name = format!("{machine}-plan");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": SECRET_TYPE, "data": data,
        });
        let api: Api<Secret> = Api::namespaced(self.plane.client(), NAMESPACE);
        api.patch(&name, &PatchParams::apply("planner").force(), &Patch::Apply(&secret)).await?;
        Ok(sealed.id())
    }

    pub(crate) async fn report(&self, machine: &str) -> Result<MachineReportStatus> {
        self.api::<MachineReport>().get(machine).await?.status.context("no status")
    }

    /// Waits until the report says of this very plan that it has been carried out.
    pub(crate) async fn applied(&self, machine: &str, plan: PlanId) -> Result<()> {
        let said = self.phase(machine, plan, PlanPhase::Applied).await?;
        let applied = said.applied.context("nothing applied")?;
        ensure!(plan.is_named_by(&applied.digest, applied.revision));
        Ok(())
    }

    pub(crate) async fn phase(
        &self,
        machine: &str,
        plan: PlanId,
        phase: PlanPhase,
    ) -> Result<MachineReportStatus> {
        eventually(DEADLINE, &format!("machine {machine} to say {phase:?} of {plan}"), async || {
            let status = self.report(machine).await?;
            let about = status.plan.clone().context("no plan")?;
            let is_it = plan.is_named_by(&about.digest, about.revision);
            ensure!(is_it && status.phase == Some(phase), "{}", json!(status));
            Ok(status)
        })
        .await
    }
}

/// What a plan for k3s brings along. Here it is only a name: simulated machines know what it does.
const SCRIPT: &str = "/opt/capstan/lib/k3s.sh";

/// A version of k3s, as it would lie on a server.
fn software(home: &str) -> Result<Artifact> {
    Ok(Artifact {
        sha256: Digest::of(home.as_bytes()),
        size: 1,
        sources: vec![Source::new("https://mirror.example/k3s.tar.gz".parse()?)],
        path: MachinePath::new(home)?,
        unpack: Some(Unpack::TarGz),
        mode: Mode::EXECUTABLE,
        owner: 0,
        group: 0,
    })
}

fn file(step: &str, path: &str, content: String) -> Result<Step> {
    let file = File {
        path: MachinePath::new(path)?,
        content: Content::from(content),
        mode: Mode::PRIVATE,
        owner: 0,
        group: 0,
        secret: true,
    };
    Ok(Step::new(StepName::new(step)?, Action::File(file)))
}

pub(crate) fn command(step: &str, words: &[&str]) -> Result<Step> {
    let command = Command::new(Argv::new(words.iter().copied())?);
    Ok(Step::new(StepName::new(step)?, Action::Command(command)))
}
