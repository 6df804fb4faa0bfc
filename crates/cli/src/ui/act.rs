//! Actions: each is one patch with the caller's credentials.

use anyhow::{Context as _, Result};
use capstan_planner::annotations::{HOLD, RETRY};
use capstan_ui::{Action, Problem, Target};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::rollout;

/// What writes say about who made them.
const FIELD_MANAGER: &str = "capstan-ui";

pub(super) async fn act(client: &Client, action: Action, target: &Target) -> Result<String> {
    let Target { kind, namespace, name } = target;
    if let Some(action) = roll_out(action) {
        let what = format!("{kind}/{name}");
        rollout::act(client, namespace, action, &what).await?;
    } else {
        let (resource, patch) = patch(action, kind, Timestamp::now()).ok_or_else(|| {
            Problem::Invalid(format!("{} is not possible for {kind} {name}.", action.label()))
        })?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(name, &parameters, &Patch::Merge(&patch))
            .await
            .with_context(|| format!("cannot change {kind} {namespace}/{name}"))?;
    }
    Ok(format!("{}: {kind} {namespace}/{name}", action.label()))
}

fn roll_out(action: Action) -> Option<rollout::Action> {
    match action {
        Action::Restart => Some(rollout::Action::Restart),
        Action::Pause => Some(rollout::Action::Pause),
        Action::Resume => Some(rollout::Action::Resume),
        Action::Retry | Action::Hold | Action::Release | Action::EndQuarantine => None,
    }
}

/// What to write, for an action on an object of this kind.
fn patch(action: Action, kind: &str, now: Timestamp) -> Option<(ApiResource, Value)> {
    let resource = |group: &str, version: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    let annotation = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let machine = || resource("cluster.x-k8s.io", "v1beta2", "machines");
    match (action, kind) {
        (Action::Retry, "Machine") => {
            Some((machine(), annotation(RETRY, json!(now.as_second().to_string()))))
        }
        (Action::Hold, "Machine") => Some((machine(), annotation(HOLD, json!("set in the web view")))),
        (Action::Release, "Machine") => Some((machine(), annotation(HOLD, Value::Null))),
        (Action::EndQuarantine, "Host") => {
            let hosts = resource("infrastructure.cluster.x-k8s.io", "v1alpha1", "hosts");
            Some((hosts, json!({"spec": {"quarantine": null}})))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_fits_its_kind_or_is_rejected() {
        let now = Timestamp::from_second(7).expect("a time");
        for (action, kind, expected) in [
            (
                Action::Retry,
                "Machine",
                Some(json!({"metadata": {"annotations": {"capstan.dev/retry": "7"}}})),
            ),
            (
                Action::Release,
                "Machine",
                Some(json!({"metadata": {"annotations": {"capstan.dev/hold": null}}})),
            ),
            (Action::EndQuarantine, "Host", Some(json!({"spec": {"quarantine": null}}))),
            (Action::EndQuarantine, "Machine", None),
            (Action::Retry, "Secret", None),
        ] {
            assert_eq!(patch(action, kind, now).map(|(_, patch)| patch), expected, "{action} {kind}");
        }
    }
}
