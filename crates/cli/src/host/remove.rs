//! `capstan host remove`: removes a Host from the inventory; refused while the host is in use.

use anyhow::{Context, Result, bail};
use capstan_api::infrastructure::{Host, HostPool};
use capstan_controller::owners;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use kube::{Resource as _, ResourceExt as _};
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::OF_HOST;
use super::args::RemoveArgs;
use super::{read, refuse};

/// How long a host may take to go.
const DEADLINE: Duration = Duration::from_secs(60);

pub(super) async fn run(args: &RemoveArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let (name, namespace, api) = (&args.name, &place.namespace, place.hosts());
    let host = read(&place, name).await?;
    refuse(obstacle(&host))?;
    // Only the host that was seen: one that has been claimed since is another version.
    let only = Preconditions { resource_version: host.resource_version(), uid: host.uid() };
    match api.delete(name, &DeleteParams::background().preconditions(only)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            bail!("Host {name} has changed since it was read: a machine may have claimed it; try again")
        }
        deleted => _ = deleted.with_context(|| format!("cannot remove Host {namespace}/{name}"))?,
    }
    wait(&api, &host).await?;
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("{OF_HOST}={name}"));
    for secret in secrets.list(&ours).await.context("cannot list Secrets")?.items {
        // It may be gone already: the Host owned it.
        match secrets.delete(&secret.name_any(), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            gone => _ = gone.with_context(|| format!("cannot remove Secret {}", secret.name_any()))?,
        }
    }
    crate::progress::clear();
    writeln!(std::io::stdout(), "host/{name} removed").map_err(Into::into)
}

/// Why the host must stay, and what to do about it.
fn obstacle(host: &Host) -> Option<String> {
    let name = host.name_any();
    if let Some(claim) = &host.spec.claim {
        return Some(format!(
            "Host {name} stays: HostMachine {} of Cluster {} has it. Delete its Machine, or scale down what made that; \
             the host is cleaned and released, then try again",
            claim.machine_name, claim.cluster_name
        ));
    }
    let pool = owners::of_kind(host.meta(), "HostPool", &HostPool::group(&()))?;
    Some(format!(
        "Host {name} stays: HostPool {} would make it again. Take it out of the pool's spec.static.hosts, or lower its \
         spec.replicas",
        pool.name
    ))
}

async fn wait(api: &Api<Host>, host: &Host) -> Result<()> {
    let started = Instant::now();
    loop {
        let found = api.get_opt(&host.name_any()).await.context("cannot read the Host")?;
        if found.is_none_or(|found| found.uid() != host.uid()) {
            return Ok(());
        }
        if started.elapsed() > DEADLINE {
            bail!(
                "Host {} still exists: check that a manager runs, which removes its finalizer",
                host.name_any()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_host_that_is_needed_stays() {
        let host = |owners: serde_json::Value, claim: serde_json::Value| -> Host {
            serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
                "metadata": {"name": "h", "ownerReferences": owners},
                "spec": {"simulated": {}, "claim": claim},
            }))
            .unwrap()
        };
        let claim = json!({"id": "i", "machineName": "m", "clusterName": "shop"});
        assert!(obstacle(&host(json!([]), claim)).unwrap().contains("HostMachine m of Cluster shop"));
        let pool = json!([{"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool", "name": "p", "uid": "u"}]);
        assert!(obstacle(&host(pool, json!(null))).unwrap().contains("HostPool p"));
        assert_eq!(obstacle(&host(json!([]), json!(null))), None);
    }
}
