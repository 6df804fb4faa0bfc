//! Changes of objects that belong to a single machine, or that apply to every machine of a cluster: no controller rolls
//! them out, and the planner makes plans from them directly.

use anyhow::Result;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_api::meta::labels;
use capstan_controller::owners;
use capstan_distro::cost::{Subject, changes, worst};
use capstan_distro::{Change, Cost};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

use super::diff;
use super::future::{Future, by_hand};
use super::report::{Field, Outcome};
use super::server::Tried;

const SET_BACK: &str = "its control plane sets version and configuration back: change that one";
const KEPT: &str = "changes that need another machine do not affect this one: delete the Machine to have its owner create another";

impl Future<'_> {
    /// The effects of changes that no controller rolls out.
    pub(super) async fn by_hand(&mut self) -> Result<()> {
        let changed: Vec<&Tried> = self.changed().collect();
        for tried in changed {
            let (Some(namespace), Some(before), Some(after)) =
                (&tried.namespace, &tried.before, &tried.after)
            else {
                continue;
            };
            let is_about: Box<dyn Fn(&Machine) -> bool + Send> = match tried.kind.as_str() {
                "Machine" => Box::new(|machine| machine.name_any() == tried.name),
                "CapstanConfig" => Box::new(|machine| has_config(machine, &tried.name)),
                "HostMachine" => Box::new(|machine| {
                    let reference = &machine.spec.infrastructure_ref;
                    reference.kind == "HostMachine" && reference.name == tried.name
                }),
                "Cluster" => Box::new(|machine| machine.spec.cluster_name == tried.name),
                "Secret" => {
                    self.of_secret(namespace, tried).await?;
                    continue;
                }
                "Host" => {
                    self.of_host(namespace, before, after).await?;
                    continue;
                }
                _ => continue,
            };
            let Some(subject) = diff::subject(after) else { continue };
            let mut found = changes(subject, &diff::compared(before), &diff::compared(after));
            if subject == Subject::Cluster {
                // The rest of it is the control plane's to judge.
                found.retain(|change| change.cost == Cost::Restart);
            }
            let is_set_back = matches!(subject, Subject::Machine | Subject::Config);
            for machine in self.all::<Machine>(namespace).await?.iter().filter(|machine| is_about(machine)) {
                let is_set_back = is_set_back && machine.labels().contains_key(labels::CONTROL_PLANE);
                self.add_machine(namespace, machine, &found, is_set_back);
            }
        }
        Ok(())
    }

    /// The content of files may stand in a Secret.
    async fn of_secret(&mut self, namespace: &str, tried: &Tried) -> Result<()> {
        let machines: Vec<Machine> = self.all(namespace).await?;
        for config in self.all::<CapstanConfig>(namespace).await? {
            let from = config.spec.files.iter().filter(|file| {
                let source = file.content_from.as_ref().map(|source| &source.secret);
                source.is_some_and(|source| source.name == tried.name && differs(tried, &source.key))
            });
            let with =
                |content: &str, path: &str| json!({"spec": {"files": [{"path": path, "content": content}]}});
            let of_proxy = config.spec.proxy.as_ref().and_then(|proxy| proxy.credentials_ref.as_ref());
            let is_of_proxy = of_proxy.is_some_and(|reference| reference.name == tried.name)
                && ["username", "password"].iter().any(|key| differs(tried, key));
            let proxy = json!({"spec": {"proxy": {"credentialsRef": {"name": tried.name}}}});
            let proxy =
                if is_of_proxy { changes(Subject::Config, &json!({"spec": {}}), &proxy) } else { Vec::new() };
            let found: Vec<Change> = from
                .flat_map(|file| changes(Subject::Config, &with("", &file.path), &with(" ", &file.path)))
                .chain(proxy)
                .map(|change| Change::new(change.field, change.cost, change.why))
                .collect();
            let name = config.name_any();
            for machine in machines.iter().filter(|machine| has_config(machine, &name)) {
                self.add_machine(namespace, machine, &found, false);
            }
        }
        Ok(())
    }

    pub(super) fn add_machine(
        &mut self,
        namespace: &str,
        machine: &Machine,
        found: &[Change],
        is_set_back: bool,
    ) {
        if found.is_empty() {
            return;
        }
        let owner = owners::controller_of(&machine.metadata);
        let owner = owner.map(|owner| format!("{}/{}", owner.kind, owner.name)).unwrap_or_default();
        let outcome: Outcome = worst(found.iter().filter(|change| change.cost.is_in_place())).into();
        let fields = found.iter().map(Field::from).collect();
        let mut change = by_hand(namespace, &machine.name_any(), &owner, fields, outcome);
        if is_set_back {
            change.notes.push(SET_BACK.to_owned());
        }
        if found.iter().any(|change| !change.cost.is_in_place()) {
            change.notes.push(KEPT.to_owned());
        }
        self.timeline.by_hand(change);
    }
}

/// Whether another value would stand under a key of a Secret.
fn differs(tried: &Tried, key: &str) -> bool {
    let value =
        |object: &Option<DynamicObject>| object.as_ref().map(|object| object.data["data"][key].clone());
    value(&tried.before) != value(&tried.after)
}

fn has_config(machine: &Machine, name: &str) -> bool {
    let reference = machine.spec.bootstrap.config_ref.as_ref();
    reference.is_some_and(|reference| reference.kind == "CapstanConfig" && reference.name == name)
}
