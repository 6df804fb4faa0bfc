//! The patches for restart, pause and resume, and when they are refused. Pure.

use anyhow::{Result, bail};
use capstan_api::meta::annotations;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Restart,
    Pause,
    Resume,
}

impl Action {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    pub(super) const fn done(self) -> &'static str {
        match self {
            Self::Restart => "restarted",
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }
}

/// Kinds with rollouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutKind {
    MachineDeployment,
    CapstanControlPlane,
    KubeadmControlPlane,
}

impl RolloutKind {
    const ALL: [Self; 3] = [Self::MachineDeployment, Self::CapstanControlPlane, Self::KubeadmControlPlane];

    pub(super) fn gvk(self) -> GroupVersionKind {
        match self {
            Self::MachineDeployment => {
                GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment")
            }
            Self::CapstanControlPlane => {
                GroupVersionKind::gvk("controlplane.cluster.x-k8s.io", "v1alpha1", "CapstanControlPlane")
            }
            Self::KubeadmControlPlane => {
                GroupVersionKind::gvk("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane")
            }
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::MachineDeployment => "machinedeployments",
            Self::CapstanControlPlane => "capstancontrolplanes",
            Self::KubeadmControlPlane => "kubeadmcontrolplanes",
        }
    }

    /// As kubectl takes it: the kind, its plural, or its short name.
    fn is_called(self, word: &str) -> bool {
        let word = word.to_ascii_lowercase();
        let short = match self {
            Self::MachineDeployment => "md",
            Self::CapstanControlPlane => "ccp",
            Self::KubeadmControlPlane => "kcp",
        };
        word == self.gvk().kind.to_ascii_lowercase() || word == self.plural() || word == short
    }
}

/// The object of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: RolloutKind,
    pub(super) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.gvk().kind.to_ascii_lowercase(), self.name)
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((kind, name)) =
            text.split_once('/').filter(|(_, name)| !name.is_empty() && !name.contains('/'))
        else {
            bail!("{text:?} names no object: say KIND/NAME, as in machinedeployment/web");
        };
        match RolloutKind::ALL.into_iter().find(|known| known.is_called(kind)) {
            Some(kind) => Ok(Self { kind, name: name.to_owned() }),
            None => bail!(
                "{kind:?} does not roll out: say machinedeployment/NAME, capstancontrolplane/NAME or kubeadmcontrolplane/NAME"
            ),
        }
    }
}

/// The patch for an action.
pub(super) fn decide(
    action: Action,
    target: &Target,
    object: &DynamicObject,
    now: Timestamp,
) -> Result<Value> {
    // A MachineDeployment has a field for it; control planes rest by annotation.
    let by_field = target.kind == RolloutKind::MachineDeployment;
    let is_paused = match by_field {
        true => object.data["spec"]["paused"] == true,
        false => object.annotations().contains_key(annotations::PAUSED),
    };
    let pause = |value: Value| match by_field {
        true => json!({"spec": {"paused": value}}),
        false => json!({"metadata": {"annotations": {annotations::PAUSED: value}}}),
    };
    match action {
        Action::Pause if is_paused => bail!("{target} is paused already"),
        Action::Pause if by_field => Ok(pause(json!(true))),
        Action::Pause => Ok(pause(json!("true"))),
        Action::Resume if !is_paused => bail!("{target} is not paused"),
        Action::Resume => Ok(pause(Value::Null)),
        Action::Restart if is_paused => {
            bail!("{target} is paused: run `capstan rollout resume {target}` first")
        }
        Action::Restart => {
            let after = object.data["spec"]["rollout"]["after"].as_str();
            if after.and_then(|after| after.parse::<Timestamp>().ok()).is_some_and(|after| after > now) {
                bail!("{target} has a restart ahead: remove its spec.rollout.after first");
            }
            // Kubernetes keeps whole seconds.
            let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
            Ok(json!({"spec": {"rollout": {"after": seconds.to_string()}}}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(fields: &Value) -> DynamicObject {
        let mut object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}});
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn each_action_is_one_patch_or_one_line() {
        let now: Timestamp = "2026-11-15T12:00:00.5Z".parse().unwrap();
        let paused = json!({"spec": {"paused": true}});
        let annotated = json!({"metadata": {"name": "a", "annotations": {"cluster.x-k8s.io/paused": ""}}});
        let later = json!({"spec": {"rollout": {"after": "2027-01-01T00:00:00Z"}}});
        let restart = || Ok(json!({"spec": {"rollout": {"after": "2026-11-15T12:00:00Z"}}}));
        for (action, what, fields, expected) in [
            (Action::Restart, "md/a", json!({}), restart()),
            (Action::Restart, "capstancontrolplane/a", json!({}), restart()),
            (Action::Restart, "md/a", paused.clone(), Err("capstan rollout resume machinedeployment/a")),
            (
                Action::Restart,
                "ccp/a",
                annotated.clone(),
                Err("capstan rollout resume capstancontrolplane/a"),
            ),
            (Action::Restart, "md/a", later, Err("remove its spec.rollout.after first")),
            (Action::Pause, "MachineDeployments/a", json!({}), Ok(json!({"spec": {"paused": true}}))),
            (
                Action::Pause,
                "kcp/a",
                json!({}),
                Ok(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}})),
            ),
            (Action::Pause, "md/a", paused.clone(), Err("is paused already")),
            (Action::Resume, "md/a", paused, Ok(json!({"spec": {"paused": null}}))),
            (
                Action::Resume,
                "ccp/a",
                annotated,
                Ok(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})),
            ),
            (Action::Resume, "ccp/a", json!({}), Err("is not paused")),
        ] {
            let decided = decide(action, &what.parse().unwrap(), &object(&fields), now);
            match (decided, expected) {
                (Ok(patch), Ok(expected)) => assert_eq!(patch, expected, "{what}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (decided, expected) => panic!("{what}: {decided:?} instead of {expected:?}"),
            }
        }
        for wrong in ["md", "md/", "md/a/b", "cluster/a", ""] {
            let error = wrong.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("say ") && !error.contains('\n'), "{error}");
        }
    }
}
