//! A pool that makes its own machines, on a bridge of ours: found again by the next `capstan`, made fewer, and gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use capstan_api::infrastructure::{Host, HostPool, HostState};
use capstan_nspawn::Set;
use capstan_testkit::eventually;
use capstan_tests::Yard;
use capstan_tools::machine_rootfs;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::*;

const POOL: &str = "farm";

/// The plane, and a bridge for a pool's machines. Whatever becomes of the test, nothing of it stays.
struct Farm {
    yard: Yard,
    bridge: String,
    base: PathBuf,
}

impl Farm {
    async fn new() -> Result<Self> {
        let base = tokio::task::spawn_blocking(machine_rootfs).await??;
        let yard = Yard::embedded(&[]).await?;
        let farm = Self { yard, bridge: format!("capt{:x}", std::process::id()), base };
        ip(&["link", "add", "name", &farm.bridge, "type", "bridge"])?;
        let used = ip(&["-4", "-o", "address"])? + &ip(&["-4", "route"])?;
        let free = (0..=255).find(|number| !used.contains(&format!("10.67.{number}.")));
        let address = format!("10.67.{}.1/24", free.context("no network is free")?);
        ip(&["address", "add", &address, "dev", &farm.bridge])?;
        ip(&["link", "set", "dev", &farm.bridge, "up"])?;
        Ok(farm)
    }

    /// Where the pool's machines are.
    fn folder(&self) -> PathBuf {
        self.yard.folder().join("data/machines").join(format!("default.{POOL}"))
    }

    fn machine_folders(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<String> =
            folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The links of machines on the bridge.
    fn links(&self) -> Result<usize> {
        Ok(ip(&["-o", "link", "show", "master", &self.bridge])?.lines().count())
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.yard.api::<HostPool>().patch(POOL, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits until the pool has these hosts and no others, all of them available.
    async fn until_there_are(&self, names: &[&str]) -> Result<BTreeMap<String, Host>> {
        eventually(PATIENCE, &format!("the hosts {names:?}"), async || {
            let hosts = self.yard.api::<Host>().list(&ListParams::default()).await?.items;
            let found: Vec<String> = hosts.iter().map(ResourceExt::name_any).collect();
            let pool = self.yard.api::<HostPool>().get_opt(POOL).await?;
            let said = pool.and_then(|pool| pool.status).map(|status| status.conditions);
            ensure!(found == names, "{found:?}: {said:?}");
            for host in &hosts {
                let status = host.status.clone().unwrap_or_default();
                ensure!(status.state == Some(HostState::Available), "{:?}", status.conditions);
            }
            Ok(hosts.into_iter().map(|host| (host.name_any(), host)).collect())
        })
        .await
    }

    /// Waits until nothing is left of machines that are not named.
    async fn until_only(&self, names: &[&str]) -> Result<()> {
        eventually(PATIENCE, "the other machines to be gone", async || {
            ensure!(self.machine_folders() == names, "{:?}", self.machine_folders());
            ensure!(self.links()? == names.len(), "{} links", self.links()?);
            ensure!(self.processes()? == names.len(), "{} machines run", self.processes()?);
            Ok(())
        })
        .await
    }

    /// How many machines run from the pool's folder.
    fn processes(&self) -> Result<usize> {
        let wanted = format!("--directory={}", self.folder().display());
        let processes = std::fs::read_dir("/proc")?.flatten();
        let is_one = |path: &Path| {
            let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            words.next().is_some_and(|program| program.ends_with("systemd-nspawn"))
                && words.any(|word| word.starts_with(&wanted))
        };
        Ok(processes.filter(|entry| is_one(&entry.path())).count())
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        // First whoever would make them again.
        self.yard.stop();
        if self.folder().exists()
            && let Ok(set) = Set::lasting(&self.folder(), &self.base, &self.bridge)
        {
            for name in self.machine_folders() {
                if let Err(error) = set.remove(&name) {
                    eprintln!("{name} stays: {error}");
                }
            }
        }
        // It may never have been made.
        let _ = ip(&["link", "delete", "dev", &self.bridge]);
    }
}

fn ip(words: &[&str]) -> Result<String> {
    let output = Command::new("ip").args(words).output().context("cannot run `ip`")?;
    ensure!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_makes_machines_finds_them_again_and_takes_them_away() {
    let _turn = exclusive().await;
    run().await.unwrap();
}

async fn run() -> Result<()> {
    let mut farm = Farm::new().await?;
    let pool = pool(&farm);

    // Without its key pair the pool says which, and where.
    farm.yard.cluster("x").apply(&pool).await?;
    eventually(PATIENCE, "the pool to miss its key", async || {
        let pool = farm.yard.api::<HostPool>().get(POOL).await?;
        let conditions = pool.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").context("no condition")?;
        expect(&ready.message, &["spec.nspawn.credentialsRef", "farm-key", "ssh-publickey"])
    })
    .await?;
    ensure!(farm.links()? == 0, "machines without a key");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "farm-key"},
        "stringData": {
            "ssh-privatekey": std::fs::read_to_string(farm.yard.machines().private_key())?,
            "ssh-publickey": farm.yard.machines().public_key()?,
        },
    });
    farm.yard.cluster("x").apply(&secret).await?;
    let made = farm.until_there_are(&["farm-0", "farm-1"]).await?;
    farm.until_only(&["farm-0", "farm-1"]).await?;
    farm.yard.capstan(&["host", "check", "farm-0", "farm-1"])?;

    farm.yard.kill_and_restart().await?;
    ensure!(farm.processes()? == 2, "machines ended with capstan");
    // One more, which shows that the new process is at work; and the others are the same.
    farm.scale(3).await?;
    let found = farm.until_there_are(&["farm-0", "farm-1", "farm-2"]).await?;
    for (name, before) in &made {
        let after = &found[name];
        ensure!(after.uid() == before.uid() && after.spec.ssh == before.spec.ssh, "{name} is another host");
        let boot = |host: &Host| {
            let facts = host.status.as_ref().and_then(|status| status.facts.as_ref());
            facts.and_then(|facts| facts.boot_id.clone())
        };
        ensure!(boot(before).is_some() && boot(before) == boot(after), "{name} was booted again");
    }

    farm.scale(1).await?;
    farm.until_there_are(&["farm-0"]).await?;
    farm.until_only(&["farm-0"]).await?;
    farm.yard.api::<HostPool>().delete(POOL, &DeleteParams::default()).await?;
    farm.until_there_are(&[]).await?;
    farm.until_only(&[]).await?;
    eventually(PATIENCE, "the pool to be gone", async || {
        ensure!(farm.yard.api::<HostPool>().get_opt(POOL).await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

fn pool(farm: &Farm) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool", "metadata": {"name": POOL},
        "spec": {"replicas": 2, "nspawn": {
            "rootFilesystem": farm.base, "bridge": farm.bridge, "credentialsRef": {"name": "farm-key"},
        }},
    })
}
