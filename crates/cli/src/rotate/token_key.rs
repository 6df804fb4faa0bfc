//! `capstan rotate token-key`: replaces the key that signs tokens on an embedded plane. Machines whose credential would end before
//! they renew it enrol again.

use anyhow::{Context, Result, bail};
use capstan_api::agent::{MachineCredential, MachineReport};
use http::Request;
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use super::args::TokenKeyArgs;
use crate::client::ASKING;
use crate::embedded;
use crate::progress::waiting;

/// Where an embedded plane replaces the key of tokens.
const TOKEN_KEYS: &str = "/capstan/v1/token-keys";

/// How often credentials of earlier keys are looked for.
const PASSES: u32 = 10;
const BETWEEN_PASSES: Duration = Duration::from_secs(1);

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
    let signs = keys["signs"].as_str().map(str::to_owned).context(
        "the key was replaced, but the response of the plane does not name the new key, so credentials of machines were not \
         checked: run `capstan rotate token-key` of the version of the plane",
    )?;
    let machines =
        waiting("taking back credentials of machines", enrol_again(&client, &signs, until)).await?;
    let text = match args.output {
        Some(output) => {
            keys["enrolAgain"] = json!(machines);
            output.print(&keys)?
        }
        None => {
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
            format!("Tokens are signed with key {signs}.\n{earlier}\n{machines}")
        }
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Takes back the credentials that end with an earlier key before machines renew them: the manager then tells these machines how to
/// enrol again. Gives their names.
async fn enrol_again(client: &Client, signs: &str, until: Timestamp) -> Result<Vec<String>> {
    let all: Api<MachineReport> = Api::all(client.clone());
    let mut names = BTreeSet::new();
    let mut left = Vec::new();
    for pass in 0..PASSES {
        if pass > 0 {
            tokio::time::sleep(BETWEEN_PASSES).await;
        }
        let now = Timestamp::now();
        let found = all.list(&ListParams::default()).await.context("cannot list MachineReports")?;
        left.clear();
        for report in &found.items {
            let Some(credential) = &report.spec.credential else { continue };
            let Some(change) = change(credential, signs, now, until) else { continue };
            left.push(full_name(report));
            if write(client, report, credential, change).await? && change == Change::TakeBack {
                names.insert(full_name(report));
            }
        }
        // Not after one pass: the manager may have written a token that it got before the key changed.
        if pass > 0 && left.is_empty() {
            return Ok(names.into_iter().collect());
        }
    }
    bail!(
        "the key was replaced, but machines have credentials of an earlier key: remove spec.credential of MachineReports {}",
        left.join(", ")
    )
}

fn full_name(report: &MachineReport) -> String {
    format!("{}/{}", report.namespace().unwrap_or_default(), report.name_any())
}

/// What becomes of a credential that would be valid for longer than the key that signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The machine enrols again.
    TakeBack,
    /// The machine renews it in time. If it is off until then, the manager must know that the credential has expired.
    Shorten(Timestamp),
}

fn change(credential: &MachineCredential, signs: &str, now: Timestamp, until: Timestamp) -> Option<Change> {
    if credential.token_key.as_deref() == Some(signs) || credential.expires_at.0 <= until {
        return None;
    }
    // One that should have renewed it before is off, and does not know the time that is left.
    let renews_in_time = (now..until).contains(&credential.renewal());
    Some(if renews_in_time { Change::Shorten(until) } else { Change::TakeBack })
}

/// Changes a credential, unless it was replaced since the report was read. What the machine writes meanwhile does not matter.
async fn write(
    client: &Client,
    report: &MachineReport,
    credential: &MachineCredential,
    change: Change,
) -> Result<bool> {
    let changed = match change {
        Change::TakeBack => json!({"op": "remove", "path": "/spec/credential"}),
        Change::Shorten(until) => {
            json!({"op": "replace", "path": "/spec/credential/expiresAt", "value": until})
        }
    };
    let is_the_same =
        json!({"op": "test", "path": "/spec/credential/sealedToken", "value": credential.sealed_token});
    let patch: Patch<()> = Patch::Json(serde_json::from_value(json!([is_the_same, changed]))?);
    let reports: Api<MachineReport> =
        Api::namespaced(client.clone(), &report.namespace().unwrap_or_default());
    match reports.patch(&report.name_any(), &PatchParams::default(), &patch).await {
        Ok(_) => Ok(true),
        // Replaced or removed since, or in the middle of many writes of the machine: the next pass knows.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot write MachineReport {}", full_name(report))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn no_credential_is_recorded_for_longer_than_its_key() {
        let time = |day: u8| -> Timestamp { format!("2026-01-{day:02}T00:00:00Z").parse().unwrap() };
        // Renewed on the 21st.
        let credential = |key: Option<&str>| MachineCredential {
            sealed_token: "x".to_owned(),
            account: "a".to_owned(),
            token_key: key.map(str::to_owned),
            issued_at: Time(time(1)),
            expires_at: Time(time(31)),
        };
        let shorten = |day| Some(Change::Shorten(time(day)));
        for (now, until, expected) in [
            (10, 10, Some(Change::TakeBack)),
            (10, 20, Some(Change::TakeBack)),
            (10, 25, shorten(25)),
            (10, 31, None),
            // It is off.
            (22, 22, Some(Change::TakeBack)),
            (22, 30, Some(Change::TakeBack)),
        ] {
            let decided = |key| change(&credential(key), "new", time(now), time(until));
            assert_eq!(decided(Some("old")), expected, "{now} {until}");
            assert_eq!(decided(None), expected, "an unknown key is an earlier one: {now} {until}");
            assert_eq!(decided(Some("new")), None, "{now} {until}");
        }
    }
}
