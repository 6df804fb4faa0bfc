//! Makes sure that the plane knows Capstan's kinds.

use anyhow::{Context, Result, bail};
use capstan_api::crd::{self, CustomResourceDefinition};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use std::time::Duration;

/// How long a CRD may take until it is served.
const DEADLINE: Duration = Duration::from_secs(30);

/// Applies every CRD and waits until all are served.
pub(crate) async fn crds(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("capstan").force();
    for crd in crd::all() {
        let name = crd::name(&crd);
        api.patch(&name, &params, &Patch::Apply(&crd))
            .await
            .with_context(|| format!("cannot apply CRD {name}"))?;
    }
    let all_served = async {
        for crd in crd::all() {
            let name = crd::name(&crd);
            kube::runtime::wait::await_condition(
                api.clone(),
                &name,
                kube::runtime::conditions::is_crd_established(),
            )
            .await
            .with_context(|| format!("cannot wait for CRD {name}"))?;
        }
        Ok(())
    };
    match tokio::time::timeout(DEADLINE, all_served).await {
        Ok(served) => served,
        Err(_) => bail!("the CRDs are not served after {} s", DEADLINE.as_secs()),
    }
}
