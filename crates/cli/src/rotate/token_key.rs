//! `capstan rotate token-key`: replaces the key that signs tokens on an embedded plane. Machines whose credential would end before
//! they renew it enrol again.

use anyhow::{Context, Result};
use capstan_api::agent::MachineReport;
use http::Request;
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::io::Write as _;

use super::args::TokenKeyArgs;
use crate::client::ASKING;
use crate::embedded;
use crate::progress::waiting;

/// Where an embedded plane replaces the key of tokens.
const TOKEN_KEYS: &str = "/capstan/v1/token-keys";

pub(super) async fn run(args: &TokenKeyArgs) -> Result<()> {
    let client = args.plane.connect().await?.client;
    let until = Timestamp::from_second(Timestamp::now().saturating_add(args.keep_old_for)?.as_second())?;
    let body = match args.keep_old_for.is_zero() {
        // The plane's own clock counts.
        true => json!({}),
        false => json!({"keepOldUntil": until}),
    };
    let request = Request::post(TOKEN_KEYS).header("Content-Type", "application/json");
    let asked = embedded::asked::<Value>(&client, request.body(body.to_string().into_bytes())?);
    let mut keys = waiting(ASKING, asked).await?;
    // After the new key signs: before, they would enrol with the old one.
    let machines = waiting("taking back credentials of machines", enrol_again(&client, until)).await?;
    let text = match args.output {
        Some(output) => {
            keys["enrolAgain"] = json!(machines);
            output.print(&keys)?
        }
        None => {
            let key = keys["signs"].as_str().unwrap_or_default();
            let earlier = match args.keep_old_for.is_zero() {
                true => "Tokens of earlier keys are rejected from now on.".to_owned(),
                false => {
                    format!("Tokens of earlier keys are valid until {until}, if they do not expire before.")
                }
            };
            let machines = match machines.len() {
                0 => String::new(),
                many => format!("{many} machines enrol again now: see `capstan get machines -A`.\n"),
            };
            format!("Tokens are signed with key {key}.\n{earlier}\n{machines}")
        }
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Takes back the credentials that machines would not renew in time: the manager then tells these machines how to enrol again. Gives
/// their names.
async fn enrol_again(client: &Client, until: Timestamp) -> Result<Vec<String>> {
    let all: Api<MachineReport> = Api::all(client.clone());
    let found = all.list(&ListParams::default()).await.context("cannot list MachineReports")?;
    let mut names = Vec::new();
    for report in found.items.iter().filter(|report| is_too_late(report, until)) {
        let (namespace, name) = (report.namespace().unwrap_or_default(), report.name_any());
        // One that the manager has just answered has a token of the new key, and keeps it.
        let patch = json!({
            "metadata": {"resourceVersion": report.resource_version()}, "spec": {"credential": null},
        });
        let reports: Api<MachineReport> = Api::namespaced(client.clone(), &namespace);
        match reports.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
            written => {
                written.with_context(|| format!("cannot write MachineReport {namespace}/{name}"))?;
                names.push(format!("{namespace}/{name}"));
            }
        }
    }
    Ok(names)
}

/// Whether the credential of a machine ends with the old key before the machine renews it.
fn is_too_late(report: &MachineReport, until: Timestamp) -> bool {
    report.spec.credential.as_ref().is_some_and(|credential| credential.renewal() >= until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_renew_in_time_keep_their_credential() {
        let report = |credential: Value| -> MachineReport {
            let spec = json!({"machineName": "m", "machineID": "i", "credential": credential});
            serde_json::from_value(json!({
                "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"}, "spec": spec,
            }))
            .unwrap()
        };
        let credential = json!({
            "sealedToken": "x", "account": "a", "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-31T00:00:00Z",
        });
        for (until, expected) in [("2026-01-20T00:00:00Z", true), ("2026-01-22T00:00:00Z", false)] {
            let until = until.parse().unwrap();
            assert_eq!(is_too_late(&report(credential.clone()), until), expected, "{until}");
            assert!(!is_too_late(&report(Value::Null), until), "it has not enrolled");
        }
    }
}
