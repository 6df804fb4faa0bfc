//! What nobody may see: values that were planted or made for a cluster, and every place where they could show.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostPool};
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::Yard;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use crate::stage::*;

/// Notes the arguments of every program that runs on the machine.
const WATCH: &str = r"
import os, time
seen = set()
out = open('/var/tmp/arguments', 'ab', 0)
while True:
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            line = open('/proc/' + pid + '/cmdline', 'rb').read()
        except OSError:
            continue
        if line not in seen:
            seen.add(line)
            out.write(line.replace(b'\0', b' ') + b'\n')
    time.sleep(0.03)
";

/// Values by what they are.
pub(crate) struct Planted(Vec<(String, String)>);

impl Planted {
    pub(crate) fn new(values: &[(&str, &str)]) -> Self {
        Self(values.iter().map(|(what, value)| ((*what).to_owned(), (*value).to_owned())).collect())
    }

    fn add(&mut self, what: &str, value: &str) {
        if !self.0.iter().any(|(_, known)| known == value) {
            self.0.push((what.to_owned(), value.to_owned()));
        }
    }

    /// A line from the middle of a private key: its first lines are alike.
    pub(crate) fn add_key(&mut self, what: &str, pem: &str) -> Result<()> {
        let line = pem.lines().filter(|line| !line.starts_with('-')).max_by_key(|line| line.len());
        let all: Vec<&str> = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let line = all.get(all.len() / 2).copied().or(line).context("an empty key")?;
        self.add(what, line);
        Ok(())
    }

    /// What is made for a machine to enrol with. It is there before the machine is, and gone soon after.
    pub(crate) async fn add_token(&mut self, yard: &Yard, case: &str) -> Result<()> {
        let token = eventually(PATIENCE, "the machine's token", async || {
            let name = machine(yard, case).await?.spec.bootstrap.data_secret_name.context("no data yet")?;
            let secret = yard.api::<Secret>().get(&name).await?;
            let data = secret.data.unwrap_or_default();
            let text = String::from_utf8_lossy(&data.get("value").context("no data")?.0).into_owned();
            let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let mut words = text.split(|letter| !is_of_token(letter));
            let token = words.find(|word| word.starts_with("eyJ") && word.matches('.').count() == 2);
            // Its signature: the rest is no secret.
            Ok(token.and_then(|token| token.rsplit('.').next()).context("no token in the data")?.to_owned())
        });
        self.add("the machine's token", &token.await?);
        Ok(())
    }

    /// All that belongs to a cluster that stands.
    pub(crate) async fn add_of_cluster(&mut self, yard: &Yard, case: &str) -> Result<()> {
        let mut found = 0;
        for secret in yard.api::<Secret>().list(&ListParams::default()).await? {
            let name = secret.name_any();
            for (key, value) in secret.data.unwrap_or_default() {
                let text = String::from_utf8_lossy(&value.0).into_owned();
                if name.starts_with(case) && key == "tls.key" {
                    self.add_key(&format!("{key} of {name}"), &text)?;
                    found += 1;
                } else if name == format!("{case}-token") {
                    self.add(&format!("{key} of {name}"), text.trim());
                    found += 1;
                }
            }
        }
        ensure!(found >= 4, "only {found} secrets of {case} were found");
        Ok(())
    }

    /// Fails if one of them is anywhere.
    pub(crate) async fn are_hidden(&self, yard: &Yard, machine: &TestMachine, case: &str) -> Result<()> {
        let mut places = vec![
            ("capstan's log", std::fs::read_to_string(yard.folder().join("capstan.log"))?),
            ("the events", all::<Event>(yard).await?),
            ("the objects", objects(yard).await?),
            ("the arguments on the machine", machine.run("cat /var/tmp/arguments").await?),
            ("the machine's journal", machine.run("journalctl --no-pager -o cat").await?),
        ];
        let (text, json) = why(yard, case).await?;
        places.push(("what `capstan why` says", format!("{text}{json}")));
        let checked = yard.run(&["host", "check", "--all", "-o", "json"])?;
        places
            .push(("what `capstan host check` says", String::from_utf8_lossy(&checked.stdout).into_owned()));
        for (place, text) in &places {
            ensure!(place == &"the events" || text.len() > 100, "nothing to look at in {place}: {text}");
            for (what, value) in &self.0 {
                ensure!(value.len() >= 12, "{what} is too short to be told from other things");
                ensure!(!text.contains(value.as_str()), "{what} is in {place}");
                ensure!(!text.contains(&base64(value)), "{what} is in {place}, in base64");
            }
        }
        Ok(())
    }
}

/// Begins to note what runs on the machine.
pub(crate) async fn watch(machine: &TestMachine) -> Result<()> {
    let quoted = WATCH.replace('\'', "'\\''");
    machine.run(&format!("systemd-run --quiet --unit=watch-arguments python3 -c '{quoted}'")).await?;
    eventually(PATIENCE, "the watch to begin", async || {
        machine.run("grep -q systemd /var/tmp/arguments").await
    })
    .await?;
    Ok(())
}

async fn objects(yard: &Yard) -> Result<String> {
    Ok([
        all::<Cluster>(yard).await?,
        all::<Machine>(yard).await?,
        all::<MachineSet>(yard).await?,
        all::<MachineDeployment>(yard).await?,
        all::<CapstanControlPlane>(yard).await?,
        all::<CapstanConfig>(yard).await?,
        all::<HostCluster>(yard).await?,
        all::<HostMachine>(yard).await?,
        all::<Host>(yard).await?,
        all::<HostPool>(yard).await?,
        all::<MachineReport>(yard).await?,
    ]
    .concat())
}

async fn all<K>(yard: &Yard) -> Result<String>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let mut text = String::new();
    for object in yard.api::<K>().list(&ListParams::default()).await? {
        writeln!(text, "{}", serde_json::to_string(&object)?)?;
    }
    Ok(text)
}

/// As a Secret would show it.
fn base64(value: &str) -> String {
    let bytes = k8s_openapi::ByteString(value.as_bytes().to_vec());
    serde_json::to_value(bytes).ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}
