//! What is to be done for a CapstanConfig. Pure.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, types};
use capstan_api::core::{Cluster, Machine};
use capstan_controller::identity;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

/// Condition: the Secret with the bootstrap data is there.
pub(crate) const DATA_SECRET_AVAILABLE: &str = "DataSecretAvailable";

/// What was found.
pub(crate) struct Observed<'a> {
    pub(crate) config: &'a CapstanConfig,
    pub(crate) machine: Option<&'a Machine>,
    pub(crate) cluster: Option<&'a Cluster>,
    /// Whose plans the machine will obey.
    pub(crate) plan_public_key: Option<&'a [u8]>,
    /// What has the name that the bootstrap Secret must have.
    pub(crate) secret: Option<&'a Secret>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Somebody else must do something first.
    Wait(Waiting),
    /// The machine gets its identity. Written before anything is made from it.
    Identify,
    /// The Secret is made, once.
    Create,
    /// All is there.
    Done,
}

/// Why nothing can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    reason: &'static str,
    message: String,
}

impl Waiting {
    fn wait(reason: &'static str, message: impl Into<String>) -> Decision {
        Decision::Wait(Self { reason, message: message.into() })
    }
}

pub(crate) fn decide(observed: &Observed<'_>) -> Decision {
    let config = observed.config;
    let (Some(machine), Some(cluster)) = (observed.machine, observed.cluster) else {
        return Waiting::wait("WaitingForMachine", "Waiting for a Machine to own this CapstanConfig");
    };
    let identity = identity::of(config);
    if let Some(secret) = observed.secret {
        return match identity.is_some() && identity::of(secret) == identity {
            true => Decision::Done,
            false => Waiting::wait(
                reasons::NOT_AVAILABLE,
                format!(
                    "Secret {} is in the way: it is not the bootstrap data of this machine; delete or rename it",
                    secret.name_any()
                ),
            ),
        };
    }
    if was_made(config, machine) {
        // A machine may have started with it, and another token would not be that machine's.
        return Waiting::wait(
            reasons::NOT_AVAILABLE,
            "The Secret with the bootstrap data has been deleted; it is not made again: delete the Machine to get another one",
        );
    }
    let provisioned = cluster
        .status
        .as_ref()
        .and_then(|status| status.initialization.as_ref())
        .and_then(|initialization| initialization.infrastructure_provisioned);
    if provisioned != Some(true) {
        return Waiting::wait(
            reasons::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY,
            "Waiting for Cluster status.initialization.infrastructureProvisioned to be true",
        );
    }
    if observed.plan_public_key.is_none() {
        return Waiting::wait(
            "WaitingForPlanKey",
            "Waiting for the control plane to make the key that plans are signed with",
        );
    }
    if identity.is_none() { Decision::Identify } else { Decision::Create }
}

/// Whether the data has ever been handed on.
fn was_made(config: &CapstanConfig, machine: &Machine) -> bool {
    let status = config.status.as_ref();
    let created = status.and_then(|status| status.initialization.as_ref()?.data_secret_created);
    created == Some(true)
        || machine.spec.bootstrap.data_secret_name.as_deref().is_some_and(|name| !name.is_empty())
}

/// What the object says of its data.
pub(crate) fn conditions(decision: &Decision) -> [NewCondition; 2] {
    let condition = |type_: &str, good: &'static str| match decision {
        Decision::Done => NewCondition::new(type_, ConditionStatus::True, good),
        Decision::Wait(Waiting { reason, message }) => {
            NewCondition::new(type_, ConditionStatus::False, *reason).message(message.clone())
        }
        Decision::Identify | Decision::Create => {
            NewCondition::new(type_, ConditionStatus::False, reasons::NOT_AVAILABLE)
        }
    };
    [condition(types::READY, reasons::READY), condition(DATA_SECRET_AVAILABLE, reasons::AVAILABLE)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    struct World {
        config: Value,
        machine: Option<Value>,
        cluster: Value,
        key: bool,
        secret: Option<Value>,
    }

    impl World {
        /// Everything is there to make the data, and the machine has its identity.
        fn ready() -> Self {
            Self {
                config: json!({
                    "metadata": {"name": "web-0", "annotations": {"capstan.dev/machine-id": "id-0"}},
                    "spec": {},
                }),
                machine: Some(json!({
                    "metadata": {"name": "web-0"},
                    "spec": {
                        "clusterName": "c",
                        "bootstrap": {},
                        "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"},
                    },
                })),
                cluster: json!({
                    "metadata": {"name": "c"},
                    "spec": {},
                    "status": {"initialization": {"infrastructureProvisioned": true}},
                }),
                key: true,
                secret: None,
            }
        }

        fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }

        fn decide(mut self) -> Decision {
            for (kind, object) in [("CapstanConfig", &mut self.config), ("Cluster", &mut self.cluster)] {
                object["apiVersion"] = json!("x/v1");
                object["kind"] = json!(kind);
            }
            let machine = self.machine.map(|mut machine| {
                machine["apiVersion"] = json!("x/v1");
                machine["kind"] = json!("Machine");
                serde_json::from_value::<Machine>(machine).expect("a Machine")
            });
            let config: CapstanConfig = serde_json::from_value(self.config).expect("a CapstanConfig");
            let cluster: Cluster = serde_json::from_value(self.cluster).expect("a Cluster");
            let secret =
                self.secret.map(|secret| serde_json::from_value::<Secret>(secret).expect("a Secret"));
            decide(&Observed {
                config: &config,
                machine: machine.as_ref(),
                cluster: Some(&cluster),
                plan_public_key: self.key.then_some(&[7; 32]),
                secret: secret.as_ref(),
            })
        }
    }

    fn reason(decision: &Decision) -> &str {
        match decision {
            Decision::Wait(waiting) => waiting.reason,
            Decision::Identify => "identify",
            Decision::Create => "create",
            Decision::Done => "done",
        }
    }

    fn secret(id: &str) -> Value {
        json!({"metadata": {"name": "web-0", "annotations": {"capstan.dev/machine-id": id}}})
    }

    #[test]
    fn each_situation_has_one_next_step() {
        for (world, expected) in [
            (World::ready(), "create"),
            (World::ready().with(|w| w.machine = None), "WaitingForMachine"),
            (World::ready().with(|w| w.config["metadata"]["annotations"] = json!({})), "identify"),
            (
                World::ready().with(|w| w.cluster["status"] = json!({})),
                "WaitingForClusterInfrastructureReady",
            ),
            (World::ready().with(|w| w.key = false), "WaitingForPlanKey"),
            (World::ready().with(|w| w.secret = Some(secret("id-0"))), "done"),
            // After a restore status is gone, and the Secret is not.
            (
                World::ready().with(|w| {
                    w.secret = Some(secret("id-0"));
                    w.cluster["status"] = json!({});
                }),
                "done",
            ),
            (World::ready().with(|w| w.secret = Some(secret("id-1"))), "NotAvailable"),
            (
                World::ready().with(|w| w.secret = Some(json!({"metadata": {"name": "web-0"}}))),
                "NotAvailable",
            ),
            // Never made again once it was handed on.
            (
                World::ready()
                    .with(|w| w.config["status"] = json!({"initialization": {"dataSecretCreated": true}})),
                "NotAvailable",
            ),
            (
                World::ready().with(|w| {
                    w.machine.as_mut().expect("a Machine")["spec"]["bootstrap"] =
                        json!({"dataSecretName": "web-0"});
                }),
                "NotAvailable",
            ),
        ] {
            assert_eq!(reason(&world.decide()), expected);
        }
    }

    #[test]
    fn the_control_plane_need_not_be_there() {
        let world = World::ready()
            .with(|w| w.cluster["status"]["initialization"]["controlPlaneInitialized"] = json!(false));
        assert_eq!(world.decide(), Decision::Create);
    }
}
