//! Says no where users look: as an event of their MachineDeployment.

use capstan_api::core::MachineDeployment;
use kube::api::Api;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

/// As much as an event may say.
const LONGEST: usize = 1024;

pub(super) struct Events {
    client: Client,
    recorder: Recorder,
}

impl Events {
    pub(super) fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "capstan-hooks".to_owned(), instance: None };
        Self { recorder: Recorder::new(client.clone(), reporter), client }
    }

    /// A change of the MachineDeployment was refused. That it cannot be told is no reason not to refuse it.
    pub(super) async fn refused(&self, namespace: &str, deployment: &str, why: &str) {
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), namespace);
        let told = async {
            let Some(deployment) = api.get_opt(deployment).await? else { return Ok(()) };
            let event = Event {
                type_: EventType::Warning,
                reason: "ChangeRefused".to_owned(),
                note: Some(shortened(why)),
                action: "Rollout".to_owned(),
                secondary: None,
            };
            self.recorder.publish(&event, &deployment.object_ref(&())).await
        };
        if let Err(error) = told.await {
            tracing::warn!(%error, deployment, "cannot make an event of a refusal");
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_not_too_long() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(900));
        assert!(long.len() <= LONGEST && long.ends_with("ä..."), "{}", long.len());
    }
}
