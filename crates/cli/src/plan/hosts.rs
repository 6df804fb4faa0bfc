//! What a change does to the machines on Hosts, whose configuration depends on their Host.

use anyhow::Result;
use capstan_api::bootstrap::{CapstanConfig, CapstanConfigSpec};
use capstan_api::core::Machine;
use capstan_api::infrastructure::{Host, ProviderId};
use capstan_distro::cost::Setup;
use capstan_distro::{Change, HostFacts, classify_on};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::BTreeMap;

use super::future::{Future, typed};
use super::report::Refusal;

/// Where the spec of the CapstanConfigs stands in a template.
const TEMPLATE: &str = "spec.template.spec";

/// The configuration of the machines of a MachineSet before and after a change.
pub(super) struct ChangedConfig {
    before: CapstanConfigSpec,
    after: CapstanConfigSpec,
    /// Kind and name of the template, as changes name it.
    template: String,
}

impl ChangedConfig {
    /// `None` if a template is not one of Capstan.
    pub(super) fn between(before: Option<&Value>, after: Option<&Value>) -> Option<Self> {
        let spec = |template: &Value| {
            let spec = template.pointer("/spec/template/spec")?;
            serde_json::from_value(spec.clone()).ok()
        };
        let (before, after) = (before?, after?);
        let ours = |template: &Value| template["kind"] == "CapstanConfigTemplate";
        if !ours(before) || !ours(after) {
            return None;
        }
        let template = format!("CapstanConfigTemplate {}", after["metadata"]["name"].as_str()?);
        Some(Self { before: spec(before)?, after: spec(after)?, template })
    }

    /// The changes of the machine on a Host, or of a machine on none. `judged` are those of any machine, at most.
    pub(super) fn on(&self, host: Option<&HostFacts>, judged: Vec<Change>) -> Vec<Change> {
        let setup = |config| Setup { version: "", config };
        let found = classify_on((setup(&self.before), host), (setup(&self.after), host));
        let Ok(found) = found else { return judged };
        let prefix = format!("{} {TEMPLATE}", self.template);
        let mut changes: Vec<Change> =
            judged.into_iter().filter(|change| !change.field.starts_with(&prefix)).collect();
        changes.extend(found.into_iter().map(|change| match change.field.strip_prefix("spec.") {
            Some(field) => Change { field: format!("{prefix}.{field}"), ..change },
            None => change,
        }));
        changes
    }
}

impl Future<'_> {
    /// The Hosts of these machines after the change, by the name of the Machine.
    pub(super) async fn hosts(
        &self,
        namespace: &str,
        machines: &[Machine],
    ) -> Result<BTreeMap<String, HostFacts>> {
        // Other infrastructure providers have no such kind.
        if !machines.iter().any(|machine| provider_id(machine).is_some()) {
            return Ok(BTreeMap::new());
        }
        let hosts: Vec<Host> = self.all(namespace).await?;
        let find = |machine: &Machine| {
            let host = hosts.iter().find(|host| is_on(machine, host))?;
            Some((machine.name_any(), HostFacts::of(host)))
        };
        Ok(machines.iter().filter_map(find).collect())
    }

    /// The effects of a change of a Host on its machine.
    pub(super) async fn of_host(
        &mut self,
        namespace: &str,
        before: &DynamicObject,
        after: &DynamicObject,
    ) -> Result<()> {
        let (before, after): (Host, Host) = (typed(before)?, typed(after)?);
        let machines: Vec<Machine> = self.all(namespace).await?;
        let Some(machine) = machines.iter().find(|machine| is_on(machine, &after)) else { return Ok(()) };
        let Some(reference) = machine.spec.bootstrap.config_ref.as_ref() else { return Ok(()) };
        if reference.kind != "CapstanConfig" {
            return Ok(());
        }
        let name = (namespace.to_owned(), reference.name.clone());
        let Some(config) = self.then::<CapstanConfig>(&name).await? else { return Ok(()) };
        let version = machine.spec.version.as_deref().unwrap_or_default();
        let setup = Setup { version, config: &config.spec };
        let (before, after) = (HostFacts::of(&before), HostFacts::of(&after));
        match classify_on((setup, Some(&before)), (setup, Some(&after))) {
            Ok(found) => self.add_machine(namespace, machine, &found, false),
            Err(error) => {
                let field = match error.host {
                    Some(_) => error.place(),
                    None => format!("CapstanConfig {} {}", name.1, error.field),
                };
                self.plan.refusals.push(Refusal::new(field, error.message));
            }
        }
        Ok(())
    }
}

fn provider_id(machine: &Machine) -> Option<ProviderId<'_>> {
    machine.spec.provider_id.as_deref().and_then(ProviderId::parse)
}

/// Whether the machine has claimed the Host.
fn is_on(machine: &Machine, host: &Host) -> bool {
    let claim = host.spec.claim.as_ref().map(|claim| claim.id.as_str());
    provider_id(machine).is_some_and(|id| id.host == host.name_any() && Some(id.claim) == claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_distro::Cost;
    use serde_json::json;

    #[test]
    fn workers_change_by_what_differs_on_their_hosts() {
        let template = |pods: u32| {
            let entry = json!({"name": "small", "selector": {"matchLabels": {"size": "small"}},
                "config": {"settings": {"kubelet-arg": [format!("max-pods={pods}")]}}});
            json!({"kind": "CapstanConfigTemplate", "metadata": {"name": "t"},
                "spec": {"template": {"spec": {"hostConfig": [entry]}}}})
        };
        let changed = ChangedConfig::between(Some(&template(50)), Some(&template(60))).expect("a change");
        let judged = || {
            let field =
                "CapstanConfigTemplate t spec.template.spec.hostConfig[small].config.settings.kubelet-arg";
            vec![
                Change::new("MachineDeployment md spec.template.spec.version", Cost::DrainAndRestart, "x"),
                Change::new(field, Cost::Restart, "y"),
            ]
        };
        let host = |size: &str| HostFacts {
            labels: BTreeMap::from([("size".to_owned(), size.to_owned())]),
            ..HostFacts::default()
        };
        let told = |host: Option<&HostFacts>| {
            let changes = changed.on(host, judged());
            assert_eq!(changes[0], judged()[0]);
            let config = &changes[1];
            (config.field.clone(), config.cost, config.origin.clone())
        };
        let field = |field: &str| format!("CapstanConfigTemplate t spec.template.spec.{field}");
        let small = (field("settings.kubelet-arg"), Cost::Restart, Some("spec.hostConfig[small]".to_owned()));
        assert_eq!(told(Some(&host("small"))), small);
        let entry = (field("hostConfig[small].config.settings.kubelet-arg"), Cost::Nothing, None);
        assert_eq!(told(Some(&host("large"))), entry);
        assert_eq!(told(None), entry);
    }

    #[test]
    fn templates_of_others_are_not_read() {
        let other = json!({"kind": "KubeadmConfigTemplate", "metadata": {"name": "t"},
            "spec": {"template": {"spec": {}}}});
        assert!(ChangedConfig::between(Some(&other), Some(&other)).is_none());
        assert!(ChangedConfig::between(None, Some(&other)).is_none());
    }
}
