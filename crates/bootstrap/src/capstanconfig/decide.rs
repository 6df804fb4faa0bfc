//! The next step for a CapstanConfig. Pure.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Cluster, Machine};
use capstan_api::wait::{Cause, Wait, causes};
use capstan_controller::plane::hand_over;
use capstan_controller::{Next, identity};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::time::Duration;

use super::observe::Data;
use crate::names::{LEADS_TO, TOKEN_BOUND_TO, TOKEN_RENEWAL};
use crate::this_plane::{PlanKey, ThisPlane};

/// Longest pause until the next reconcile of a CapstanConfig that waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Shortest pause until the next reconcile, so that other objects are reconciled in between.
pub(super) const LATER: Duration = Duration::from_secs(1);

/// What was observed.
pub(crate) struct Observed<'a> {
    pub(crate) config: &'a CapstanConfig,
    pub(crate) machine: Option<&'a Machine>,
    pub(crate) cluster: Option<&'a Cluster>,
    /// The management plane of this process.
    pub(crate) this_plane: &'a ThisPlane,
    /// The key with which the machine will verify its plans.
    pub(crate) plan_key: Option<&'a PlanKey>,
    /// The object with the name of the bootstrap Secret.
    pub(crate) secret: Option<&'a Data>,
    /// Whether the machine has its own credential and needs no enrolment token.
    pub(crate) is_enrolled: bool,
    /// UID of the ServiceAccount that the token must belong to.
    pub(crate) bound_to: Option<&'a str>,
    /// The wait that blocks the bootstrap data, if any.
    pub(crate) blocked: Option<&'a Wait>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Another controller or the user must act first.
    Wait(Wait),
    /// The machine needs a machine ID, which is written before anything is derived from it.
    Identify,
    /// The Secret must be created, or written with another token, because the machine has not used the one in it.
    HandOut,
    /// The agent follows this plane: the hand-over is removed from the Secret.
    Followed,
    /// Everything is written. If the machine still needs a token, the token is checked again at this time.
    Done(Option<Timestamp>),
}

impl Decision {
    fn wait(cause: &Cause, message: impl Into<String>) -> Self {
        Self::Wait(Wait::new(cause, message))
    }
}

pub(crate) fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    let config = observed.config;
    let (Some(machine), Some(cluster)) = (observed.machine, observed.cluster) else {
        return Decision::wait(
            &causes::WAITING_FOR_MACHINE,
            "Waiting for a Machine to own this CapstanConfig",
        );
    };
    let identity = identity::of(config);
    if let Some(secret) = observed.secret {
        if identity.is_none() || identity::of(secret) != identity {
            return Decision::wait(
                &causes::OBJECT_IN_THE_WAY,
                format!(
                    "Secret {} is in the way: it is not the bootstrap data of this machine; delete or rename it",
                    secret.name_any()
                ),
            );
        }
        if observed.is_enrolled {
            return if asks_to_follow(secret) { Decision::Followed } else { Decision::Done(None) };
        }
        // Without the key there is nothing to make it from: what is there must do. The same while another plane speaks:
        // the machine would follow into an epoch that it has left.
        if !observed.plan_key.is_some_and(|key| key.speaks_at(observed.this_plane)) {
            return Decision::Done(None);
        }
        return match token_lasts_until(secret, observed, now) {
            Some(renewal) => Decision::Done(Some(renewal)),
            None => Decision::HandOut,
        };
    }
    if let Some(blocked) = observed.blocked {
        return Decision::Wait(blocked.clone());
    }
    if was_made(config, machine) {
        // A machine may have started with it, and it would not be told of another one.
        return Decision::wait(
            &causes::DATA_SECRET_DELETED,
            "The Secret with the bootstrap data has been deleted; it is not made again: delete the Machine to get another one",
        );
    }
    let provisioned = cluster
        .status
        .as_ref()
        .and_then(|status| status.initialization.as_ref())
        .and_then(|initialization| initialization.infrastructure_provisioned);
    if provisioned != Some(true) {
        return Decision::wait(
            &causes::WAITING_FOR_CLUSTER_INFRASTRUCTURE,
            "Waiting for Cluster status.initialization.infrastructureProvisioned to be true",
        );
    }
    if !observed.plan_key.is_some_and(|key| key.speaks_at(observed.this_plane)) {
        return Decision::wait(
            &causes::WAITING_FOR_PLAN_KEY,
            "Waiting for the control plane to make the key that plans are signed with, or to take it over from another \
             management plane",
        );
    }
    if identity.is_none() { Decision::Identify } else { Decision::HandOut }
}

/// Time until which the token in the data need not be replaced. `None` if it must be replaced now: it is too old, its
/// ServiceAccount does not exist, or the data leads to another plane, as after a move.
fn token_lasts_until(data: &Data, observed: &Observed<'_>, now: Timestamp) -> Option<Timestamp> {
    let annotation = |name: &str| data.annotations().get(name).map(String::as_str);
    let is_bound = annotation(TOKEN_BOUND_TO).is_some_and(|uid| Some(uid) == observed.bound_to);
    let renewal: Timestamp = annotation(TOKEN_RENEWAL)?.parse().ok()?;
    (is_bound && leads_to(data, observed.this_plane) && now < renewal).then_some(renewal)
}

fn leads_to(data: &Data, this_plane: &ThisPlane) -> bool {
    data.annotations().get(LEADS_TO).is_some_and(|stamp| *stamp == this_plane.stamp())
}

fn asks_to_follow(data: &Data) -> bool {
    data.labels().contains_key(hand_over::LABEL)
}

/// Whether the machine may have started with data that leads to another plane, so that its agent must be handed over to
/// this one.
pub(crate) fn may_have_started_elsewhere(data: Option<&Data>, this_plane: &ThisPlane) -> bool {
    data.is_some_and(|data| asks_to_follow(data) || !leads_to(data, this_plane))
}

/// Whether the bootstrap data has been written before.
fn was_made(config: &CapstanConfig, machine: &Machine) -> bool {
    let status = config.status.as_ref();
    let created = status.and_then(|status| status.initialization.as_ref()?.data_secret_created);
    created == Some(true)
        || machine.spec.bootstrap.data_secret_name.as_deref().is_some_and(|name| !name.is_empty())
}

/// When to reconcile the CapstanConfig again. `enrolment` is when its enrolment must be checked, if known.
pub(super) fn again(data: &Decision, enrolment: Option<Duration>, now: Timestamp) -> Next {
    let of_data = match data {
        // Watches wake it, but for a Secret of another owner that is in the way.
        Decision::Wait(_) => Next::After(LONGEST_WAIT),
        Decision::Done(Some(renewal)) => {
            Next::After(Duration::try_from(renewal.duration_since(now)).unwrap_or_default().max(LATER))
        }
        _ => Next::Changed,
    };
    enrolment.map_or(of_data, |again| of_data.or(Next::After(again)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    struct World {
        config: Value,
        machine: Option<Value>,
        cluster: Value,
        key: Option<PlanKey>,
        secret: Option<Value>,
        is_enrolled: bool,
        blocked: Option<Wait>,
    }

    fn this_plane() -> ThisPlane {
        ThisPlane::new("plane-a", "https://a", b"CA")
    }

    fn key(plane: Option<&str>) -> PlanKey {
        PlanKey { public: vec![7; 32], successions: Vec::new(), epoch: 1, plane: plane.map(str::to_owned) }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).expect("a time")
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
                key: Some(key(Some("plane-a"))),
                secret: None,
                is_enrolled: false,
                blocked: None,
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
            let secret = self.secret.map(|secret| serde_json::from_value::<Data>(secret).expect("a Secret"));
            let observed = Observed {
                config: &config,
                machine: machine.as_ref(),
                cluster: Some(&cluster),
                this_plane: &this_plane(),
                plan_key: self.key.as_ref(),
                secret: secret.as_ref(),
                is_enrolled: self.is_enrolled,
                bound_to: Some("uid-0"),
                blocked: self.blocked.as_ref(),
            };
            decide(&observed, now())
        }
    }

    fn reason(decision: &Decision) -> &str {
        match decision {
            Decision::Wait(wait) => &wait.reason,
            Decision::Identify => "identify",
            Decision::HandOut => "hand out",
            Decision::Followed => "followed",
            Decision::Done(_) => "done",
        }
    }

    fn secret(id: &str) -> Value {
        json!({"metadata": {"name": "web-0", "annotations": {
            "capstan.dev/machine-id": id,
            TOKEN_BOUND_TO: "uid-0",
            LEADS_TO: this_plane().stamp(),
            TOKEN_RENEWAL: Timestamp::from_second(1_000_001).expect("a time").to_string(),
        }}})
    }

    #[test]
    fn each_situation_has_one_next_step() {
        for (world, expected) in [
            (World::ready(), "hand out"),
            (
                World::ready().with(|w| {
                    w.blocked = Some(Wait::new(&causes::WAITING_FOR_FORMER_MACHINE, "x"));
                }),
                "WaitingForFormerMachine",
            ),
            (World::ready().with(|w| w.machine = None), "WaitingForMachine"),
            (World::ready().with(|w| w.config["metadata"]["annotations"] = json!({})), "identify"),
            (
                World::ready().with(|w| w.cluster["status"] = json!({})),
                "WaitingForClusterInfrastructureReady",
            ),
            (World::ready().with(|w| w.key = None), "WaitingForPlanKey"),
            (World::ready().with(|w| w.secret = Some(secret("id-0"))), "done"),
            // After a restore status is gone, and the Secret is not.
            (
                World::ready().with(|w| {
                    w.secret = Some(secret("id-0"));
                    w.cluster["status"] = json!({});
                }),
                "done",
            ),
            (World::ready().with(|w| w.secret = Some(secret("id-1"))), "ObjectInTheWay"),
            (
                World::ready().with(|w| w.secret = Some(json!({"metadata": {"name": "web-0"}}))),
                "ObjectInTheWay",
            ),
            // Never made again once it was handed on.
            (
                World::ready()
                    .with(|w| w.config["status"] = json!({"initialization": {"dataSecretCreated": true}})),
                "DataSecretDeleted",
            ),
            (
                World::ready().with(|w| {
                    w.machine.as_mut().expect("a Machine")["spec"]["bootstrap"] =
                        json!({"dataSecretName": "web-0"});
                }),
                "DataSecretDeleted",
            ),
        ] {
            assert_eq!(reason(&world.decide()), expected);
        }
    }

    #[test]
    fn the_control_plane_need_not_be_there() {
        let world = World::ready()
            .with(|w| w.cluster["status"]["initialization"]["controlPlaneInitialized"] = json!(false));
        assert_eq!(world.decide(), Decision::HandOut);
    }

    #[test]
    fn a_machine_that_started_on_another_plane_follows_to_this_one() {
        let led_to = |this_plane: &ThisPlane| {
            let mut data = secret("id-0");
            data["metadata"]["annotations"][LEADS_TO] = json!(this_plane.stamp());
            data
        };
        let there = ThisPlane::new("plane-b", "https://b", b"CB");
        let moved = || World::ready().with(|w| w.secret = Some(led_to(&there)));
        assert_eq!(moved().decide(), Decision::HandOut);
        // Not before the control plane has taken over, and not with a key that nobody speaks with.
        assert_eq!(moved().with(|w| w.key = Some(key(Some("plane-b")))).decide(), Decision::Done(None));
        assert_eq!(moved().with(|w| w.key = Some(key(None))).decide(), Decision::HandOut);
        // Another address of the same plane is news, too.
        let readdressed = ThisPlane::new("plane-a", "https://c", b"CA");
        let world = World::ready().with(|w| w.secret = Some(led_to(&readdressed)));
        assert_eq!(world.decide(), Decision::HandOut);

        let as_secret = |value: Value| serde_json::from_value::<Data>(value).expect("a Secret");
        let mut handed_over = led_to(&this_plane());
        assert!(!may_have_started_elsewhere(Some(&as_secret(handed_over.clone())), &this_plane()));
        assert!(!may_have_started_elsewhere(None, &this_plane()));
        assert!(may_have_started_elsewhere(Some(&as_secret(led_to(&there))), &this_plane()));
        handed_over["metadata"]["labels"] = json!({hand_over::LABEL: ""});
        assert!(may_have_started_elsewhere(Some(&as_secret(handed_over.clone())), &this_plane()));
        let followed = World::ready().with(|w| (w.secret, w.is_enrolled) = (Some(handed_over), true));
        assert_eq!(followed.decide(), Decision::Followed);
    }

    #[test]
    fn a_token_is_replaced_while_it_may_still_be_used() {
        let with = |name: &'static str, value: Value| {
            World::ready().with(move |w| {
                let mut data = secret("id-0");
                data["metadata"]["annotations"][name] = value;
                w.secret = Some(data);
            })
        };
        let at = |second: i64| json!(Timestamp::from_second(second).expect("a time").to_string());
        let lasts = Decision::Done(Timestamp::from_second(1_000_001).ok());
        assert_eq!(with(TOKEN_RENEWAL, at(1_000_001)).decide(), lasts);
        assert_eq!(with(TOKEN_RENEWAL, at(1_000_000)).decide(), Decision::HandOut);
        assert_eq!(with(TOKEN_RENEWAL, json!("soon")).decide(), Decision::HandOut);
        assert_eq!(with(TOKEN_BOUND_TO, json!("uid-9")).decide(), Decision::HandOut);
        // Not for a machine that needs none, and not without what it would be made from.
        let due = || with(TOKEN_RENEWAL, at(1));
        assert_eq!(due().with(|w| w.is_enrolled = true).decide(), Decision::Done(None));
        assert_eq!(due().with(|w| w.key = None).decide(), Decision::Done(None));
    }

    /// The bootstrap data is made before a Host is claimed. What depends on the Host comes with the plan, after the claim.
    #[test]
    fn bootstrap_data_does_not_depend_on_the_host() {
        let on_hosts = |w: &mut World| {
            let config = json!({"settings": {"node-ip": "10.0.0.2"}});
            w.config["spec"] = json!({"hostConfig": [{"name": "a", "selector": {}, "config": config}]});
        };
        assert_eq!(World::ready().with(on_hosts).decide(), Decision::HandOut);
        let lasts = |w: &mut World| {
            let mut data = secret("id-0");
            let renewal = Timestamp::from_second(1_000_001).expect("a time").to_string();
            data["metadata"]["annotations"][TOKEN_RENEWAL] = json!(renewal);
            w.secret = Some(data);
        };
        assert_eq!(World::ready().with(lasts).with(on_hosts).decide(), World::ready().with(lasts).decide());
    }

    #[test]
    fn the_sooner_of_two_times_counts() {
        let after = |seconds| Next::After(Duration::from_secs(seconds));
        let soon = Some(Duration::from_secs(7));
        let renewal = |seconds: i64| Decision::Done(Timestamp::from_second(1_000_000 + seconds).ok());
        let waits = Decision::wait(&causes::FORBIDDEN, "x");
        for (data, enrolment, expected) in [
            (&waits, None, after(60)),
            (&waits, soon, after(7)),
            (&Decision::Done(None), None, Next::Changed),
            (&Decision::Done(None), soon, after(7)),
            (&renewal(3), soon, after(3)),
            (&renewal(-3), None, after(1)),
        ] {
            assert_eq!(again(data, enrolment, now()), expected, "{data:?} {enrolment:?}");
        }
    }
}
