//! `capstan rotate plane-ca`: replaces the CA of an embedded plane in two steps, with a restart of the plane after each.

use anyhow::{Context, Result, bail};
use capstan_api::agent::MachineReport;
use capstan_plan::Digest;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use std::io::Write as _;
use std::path::Path;

use super::args::PlaneCaArgs;
use crate::client::{ASKING, PlaneArgs};
use crate::progress::waiting;
use crate::up::authorities::{self, Authorities, Replacement};
use crate::up::{existing_data_dir, folder};

/// Names in one message.
const MOST_NAMES: usize = 20;

pub(super) async fn run(args: &PlaneCaArgs) -> Result<()> {
    let data_dir = existing_data_dir(args.data_dir.as_deref())?;
    let keys = folder::pki(&data_dir);
    let said = match args.finish {
        false => {
            authorities::begin(&keys)?;
            "A second CA is ready. Restart `capstan up`: machines then follow by themselves.\n\
             After that, give up the old CA with `capstan rotate plane-ca --finish`.\n"
        }
        true => {
            if Replacement::of(&keys) == Replacement::Both && !args.abandon_machines {
                let behind = waiting(ASKING, behind(&data_dir, &keys)).await?;
                refuse_if_any(&behind)?;
            }
            authorities::finish(&keys)?;
            "Restart `capstan up`: it gives up the old CA. Then make a backup, and new copies of admin.kubeconfig.\n"
        }
    };
    Ok(std::io::stdout().write_all(said.as_bytes())?)
}

fn refuse_if_any(behind: &[String]) -> Result<()> {
    let Some(first) = behind.first() else { return Ok(()) };
    let names = behind.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match behind.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    bail!(
        "machines that do not trust the new CA yet: {names}{more}. Was the plane restarted? `capstan why machine/{first}` says what \
         they wait for"
    )
}

/// Machines that do not trust both CAs yet, as the running plane knows it.
async fn behind(data_dir: &Path, keys: &Path) -> Result<Vec<String>> {
    let bundle = Digest::of(Authorities::open(keys)?.bundle.as_bytes()).to_string();
    let kubeconfig = Some(folder::kubeconfig(data_dir));
    let plane = PlaneArgs { kubeconfig, ..PlaneArgs::default() };
    let reports: Api<MachineReport> = Api::all(plane.connect().await?.client);
    let reports = reports.list(&ListParams::default()).await;
    let reports = reports.context("cannot ask the plane which machines trust the new CA: does it run?")?;
    let trusts = |report: &MachineReport| {
        report.spec.enrolled_with.as_ref().is_some_and(|enrolled| enrolled.ca_digest == bundle)
    };
    Ok(reports.items.iter().filter(|report| !trusts(report)).map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_have_not_followed_are_named() {
        assert!(refuse_if_any(&[]).is_ok());
        let many: Vec<String> = (0..25).map(|number| format!("m{number}")).collect();
        let said = refuse_if_any(&many).unwrap_err().to_string();
        assert!(
            said.contains("m0, m1,") && said.contains("m19 and 5 more") && !said.contains("m20"),
            "{said}"
        );
    }
}
