//! `capstan host abandon`: releases the claim of a host that will not come back, and quarantines the host.

use anyhow::{Context, Result, bail};
use capstan_api::conditions::is_true;
use capstan_api::infrastructure::{Host, HostQuarantine};
use capstan_api::wait::causes;
use capstan_infrastructure::names::host::REACHABLE;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::io::Write as _;

use super::args::AbandonArgs;
use super::{read, refuse};

/// What takes everything off a host, and then the note of whose it was.
const CLEAN: &str = "/opt/capstan/capstan-agent reset && rm -r /var/lib/capstan-claims";

pub(super) async fn run(args: &AbandonArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let (name, namespace, api) = (&args.name, &place.namespace, place.hosts());
    let host = read(&place, name).await?;
    refuse(obstacle(&host))?;
    let patch = Patch::Merge(abandoned(&host, Timestamp::now()));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            bail!("Host {name} has changed meanwhile; try again")
        }
        done => _ = done.with_context(|| format!("cannot abandon Host {namespace}/{name}"))?,
    }
    crate::progress::clear();
    writeln!(
        std::io::stdout(),
        "host/{name} abandoned; delete the Machine that was on it, if that is still there"
    )
    .map_err(Into::into)
}

/// Why the host must not be given up, and what to do instead.
fn obstacle(host: &Host) -> Option<String> {
    let name = host.name_any();
    let Some(claim) = &host.spec.claim else {
        return Some(format!("Host {name} is not claimed: remove it with `capstan host remove {name}`"));
    };
    is_true(host, REACHABLE).then(|| {
        format!(
            "Host {name} answers: delete the Machine of HostMachine {} instead; the host is then cleaned and released",
            claim.machine_name
        )
    })
}

/// One write: nobody may take the host for free between two.
fn abandoned(host: &Host, now: Timestamp) -> Value {
    let was_on_it = host.spec.claim.as_ref().map_or("a machine", |claim| claim.machine_name.as_str());
    let quarantine = HostQuarantine {
        reason: causes::ABANDONED.reason.to_owned(),
        message: Some(format!(
            "given up while {was_on_it} was on it: nothing was cleaned. If the host comes back, run \
             `{CLEAN}` there"
        )),
        since: Some(Time(now)),
    };
    json!({
        "metadata": {"resourceVersion": host.resource_version()},
        "spec": {"claim": null, "quarantine": quarantine},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(claim: &Value, reachable: &str) -> Host {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": "h", "resourceVersion": "7"},
            "spec": {"simulated": {}, "claim": claim},
            "status": {"conditions": [{"type": "Reachable", "status": reachable, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_host_that_is_gone_is_given_up() {
        let claim = json!({"id": "i", "machineName": "m", "clusterName": "shop"});
        assert_eq!(obstacle(&host(&claim, "False")), None);
        assert!(obstacle(&host(&claim, "True")).unwrap().contains("HostMachine m instead"));
        assert!(obstacle(&host(&json!(null), "False")).unwrap().contains("capstan host remove h"));
    }

    #[test]
    fn it_is_let_go_and_locked_up_in_one_write() {
        let claim = json!({"id": "i", "machineName": "m", "clusterName": "shop"});
        let patch = abandoned(&host(&claim, "False"), Timestamp::UNIX_EPOCH);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert!(patch["spec"]["claim"].is_null());
        assert_eq!(patch["spec"]["quarantine"]["reason"], "Abandoned");
    }
}
