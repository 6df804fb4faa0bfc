//! Writes the agent's report into the status of its MachineReport: only the newest report, never a queue of older ones.

use capstan_agent::pace;
use capstan_api::agent::MachineReport;
use capstan_controller::merge::difference;
use capstan_plan::{MachineIdentity, Report};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long to wait when the report cannot be written: most often it is not there yet.
const AGAIN: Duration = Duration::from_millis(250);
/// Longest wait.
const AT_LAST: Duration = Duration::from_secs(5);

pub(super) async fn run(
    client: Client,
    namespace: &str,
    machine: &MachineIdentity,
    mut reports: watch::Receiver<Report>,
) {
    let api: Api<MachineReport> = Api::namespaced(client, namespace);
    reports.mark_changed();
    let (mut pause, mut written) = (AGAIN, None);
    while reports.changed().await.is_ok() {
        pace::until_due(&mut reports, written).await;
        loop {
            let report = reports.borrow_and_update().clone();
            match write(&api, machine, &report).await {
                Ok(()) => {
                    (pause, written) = (AGAIN, Some(Instant::now()));
                    break;
                }
                Err(why) => {
                    tracing::debug!(machine = %machine.name, %why, "the report waits");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(AT_LAST);
                }
            }
        }
    }
}

async fn write(api: &Api<MachineReport>, machine: &MachineIdentity, report: &Report) -> Result<(), String> {
    let name = machine.name.as_str();
    let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
    let object = found.ok_or("there is no report to write to yet")?;
    if object.spec.machine_id != machine.machine_id.as_str() {
        return Err("the report is another machine's".to_owned());
    }
    let mut before = match &object.status {
        Some(status) => serde_json::to_value(status).map_err(|error| error.to_string())?,
        None => json!({}),
    };
    if let Some(fields) = before.as_object_mut() {
        // Enrolment writes that.
        fields.remove("credentialRequest");
    }
    let after = serde_json::to_value(report).map_err(|error| error.to_string())?;
    if is_same(&before, &after) {
        return Ok(());
    }
    let Some(change) = difference(&before, &after) else { return Ok(()) };
    let patch = json!({"status": change});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| error.to_string())?;
    Ok(())
}

/// Whether nothing but the time differs.
fn is_same(before: &Value, after: &Value) -> bool {
    let timeless = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("lastUpdated");
        }
        value
    };
    timeless(before) == timeless(after)
}
