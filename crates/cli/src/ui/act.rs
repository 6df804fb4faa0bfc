//! Actions: each is one patch with the user's credentials.

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
    let Target { kind, namespace, name, .. } = target;
    if let Some(action) = roll_out(action) {
        let what = format!("{kind}/{name}");
        rollout::act(client, namespace, action, &what).await?;
    } else {
        let (resource, patch) = patch(action, target, Timestamp::now())?;
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

/// What to write, for an action on an object.
fn patch(action: Action, target: &Target, now: Timestamp) -> Result<(ApiResource, Value), Problem> {
    let Target { kind, name, version, .. } = target;
    let resource = |group: &str, version: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    let annotation = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let machine = || resource("cluster.x-k8s.io", "v1beta2", "machines");
    match (action, kind.as_str()) {
        (Action::Retry, "Machine") => Ok((machine(), annotation(RETRY, json!(now.as_second().to_string())))),
        (Action::Hold, "Machine") => Ok((machine(), annotation(HOLD, json!("set in the web view")))),
        (Action::Release, "Machine") => Ok((machine(), annotation(HOLD, Value::Null))),
        // The quarantine may be another one than the person has read about.
        (Action::EndQuarantine, "Host") if version.is_empty() => Err(Problem::Invalid(format!(
            "Open the page of Host {name} and read why it is quarantined, then repeat the action."
        ))),
        (Action::EndQuarantine, "Host") => {
            let hosts = resource("infrastructure.cluster.x-k8s.io", "v1alpha1", "hosts");
            Ok((hosts, json!({"metadata": {"resourceVersion": version}, "spec": {"quarantine": null}})))
        }
        _ => Err(Problem::Invalid(format!("{} is not possible for {kind} {name}.", action.label()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_fits_its_kind_or_is_rejected() {
        let now = Timestamp::from_second(7).expect("a time");
        for (action, kind, version, expected) in [
            (
                Action::Retry,
                "Machine",
                "",
                Some(json!({"metadata": {"annotations": {"capstan.dev/retry": "7"}}})),
            ),
            (
                Action::Release,
                "Machine",
                "",
                Some(json!({"metadata": {"annotations": {"capstan.dev/hold": null}}})),
            ),
            (
                Action::EndQuarantine,
                "Host",
                "12",
                Some(json!({"metadata": {"resourceVersion": "12"}, "spec": {"quarantine": null}})),
            ),
            (Action::EndQuarantine, "Host", "", None),
            (Action::EndQuarantine, "Machine", "12", None),
            (Action::Retry, "Secret", "", None),
        ] {
            let target = Target {
                kind: kind.to_owned(),
                namespace: "default".to_owned(),
                name: "a".to_owned(),
                version: version.to_owned(),
            };
            let patch = patch(action, &target, now).ok().map(|(_, patch)| patch);
            assert_eq!(patch, expected, "{action} {kind} {version}");
        }
    }
}
