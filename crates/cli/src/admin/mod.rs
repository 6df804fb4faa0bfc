//! `capstan admin`: credentials of an embedded plane.

mod args;

pub(crate) use args::AdminVerb;

use anyhow::{Context, Result};
use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube::config::Kubeconfig;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::Duration;

use crate::client::ASKING;
use crate::embedded;
use crate::progress::waiting;
use crate::table::table;
use crate::up::pki::{ADMINISTRATOR, MASTERS, Pki};
use crate::up::{existing_data_dir, folder, kubeconfig, write_secret};
use args::{KubeconfigArgs, RevocationsArgs, RevokeArgs};

/// Where an embedded plane keeps revocations.
const PATH: &str = "/capstan/v1/revocations";
/// The end of the second of a revocation is not further away, if the clocks of both machines agree.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(crate) async fn run(verb: &AdminVerb) -> Result<()> {
    match verb {
        AdminVerb::Kubeconfig(args) => issue(args),
        AdminVerb::Revoke(args) => revoke(args).await,
        AdminVerb::Revocations(args) => show(args).await,
    }
}

fn issue(args: &KubeconfigArgs) -> Result<()> {
    let data_dir = existing_data_dir(args.data_dir.as_deref())?;
    let keys = folder::pki(&data_dir);
    let own = folder::kubeconfig(&data_dir);
    let server = Kubeconfig::read_from(&own)
        .ok()
        .and_then(|file| file.clusters.into_iter().next()?.cluster?.server)
        .with_context(|| {
            format!("cannot read the address of the plane from {}: start the plane once", own.display())
        })?;
    let now = Timestamp::now();
    let pki = Pki::open(&keys, &[], now)?;
    let text = kubeconfig::text(&server, &pki.bundle, &pki.administrator(now, args.valid_for)?)?;
    match &args.kubeconfig_out {
        Some(path) => {
            write_secret(path, &text)?;
            eprintln!("{}: valid until {}", path.display(), now.saturating_add(args.valid_for)?);
        }
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    Ok(())
}

async fn revoke(args: &RevokeArgs) -> Result<()> {
    let client = args.plane.connect().await?.client;
    let (kind, name) = match (&args.user, &args.group) {
        (Some(user), _) => ("User", user),
        (None, group) => ("Group", group.as_ref().context("pass --user or --group")?),
    };
    let mut body = json!({"kind": kind, "name": name});
    if let Some(time) = args.issued_before {
        body["issuedBefore"] = json!(time);
    }
    let request =
        Request::post(PATH).header("Content-Type", "application/json").body(body.to_string().into_bytes())?;
    let revoked: Revocation = waiting(ASKING, embedded::asked(&client, request)).await?;
    // Credentials tell the second of their issue, and those of this second are revoked, too: the next command must not issue
    // another one of them.
    let left = revoked.issued_before.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default().min(LONGEST_WAIT)).await;
    eprintln!("{revoked}: rejected from now on");
    Ok(())
}

async fn show(args: &RevocationsArgs) -> Result<()> {
    let client = args.plane.connect().await?.client;
    let all = waiting(ASKING, all(&client)).await?;
    let text = match args.output {
        Some(output) => output.print(&json!({"revocations": all}))?,
        None => {
            let row = |it: &Revocation| [it.kind.clone(), it.name.clone(), it.issued_before.to_string()];
            table(&["KIND", "NAME", "ISSUED BEFORE"], &all.iter().map(row).collect::<Vec<_>>())
        }
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// A revocation, as the plane shows it.
#[derive(Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revocation {
    kind: String,
    name: String,
    issued_before: Timestamp,
}

impl std::fmt::Display for Revocation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.to_lowercase();
        write!(out, "credentials of {kind} {} issued before {}", self.name, self.issued_before)
    }
}

impl Revocation {
    /// Whether an administrator's certificate of this time is revoked.
    pub(crate) fn covers_administrator(&self, issued: Timestamp) -> bool {
        let is_subject = match self.kind.as_str() {
            "User" => self.name == ADMINISTRATOR,
            "Group" => self.name == MASTERS,
            _ => false,
        };
        is_subject && issued < self.issued_before
    }
}

/// All revocations of an embedded plane.
pub(crate) async fn all(client: &Client) -> Result<Vec<Revocation>> {
    let mut answer: Value = embedded::asked(client, Request::get(PATH).body(Vec::new())?).await?;
    serde_json::from_value(answer["revocations"].take()).context("cannot read the revocations")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_the_administrator() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let covers = |kind: &str, name: &str, before: &str| {
            let issued_before = before.parse().unwrap();
            Revocation { kind: kind.to_owned(), name: name.to_owned(), issued_before }
                .covers_administrator(now)
        };
        assert!(covers("User", ADMINISTRATOR, "2026-01-01T00:00:01Z"));
        assert!(covers("Group", MASTERS, "2026-01-01T00:00:01Z"));
        assert!(!covers("Group", MASTERS, "2026-01-01T00:00:00Z"));
        assert!(!covers("User", "jane", "2026-01-02T00:00:00Z"));
    }
}
