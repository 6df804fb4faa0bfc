//! Reads the content of a view, and detects whether the plane responds.

use capstan_api::core::Cluster;
use capstan_controller::Scope;
use capstan_ui::{Problem, Source as _};
use kube::Client;
use kube::api::{Api, ListParams};
use std::time::Duration;

use super::content::Content;
use super::state::{Name, Query, View};
use crate::ui::PlaneSource;

/// Between two looks whether the plane answers.
const BETWEEN: Duration = Duration::from_secs(3);
/// A plane that needs longer does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Loads the content of a view.
pub(super) async fn load(source: &PlaneSource, query: &Query) -> Result<Content, Problem> {
    let loaded = match &query.view {
        View::Clusters => source.all_clusters(&query.seen).await.map(Content::Clusters),
        View::Machines(cluster) => {
            let cluster =
                cluster.as_ref().map(|Name { namespace, name }| (namespace.as_str(), name.as_str()));
            source
                .all_machines(cluster, &query.seen)
                .await
                .map(|machines| Content::Machines(Box::new(machines)))
        }
        View::Hosts => source.all_hosts().await.map(Content::Hosts),
        View::Cluster(Name { namespace, name }) => {
            source.cluster(namespace, name).await.map(|page| Content::Cluster(Box::new(page)))
        }
        View::Machine(Name { namespace, name }) => {
            source.machine(namespace, name).await.map(|page| Content::Machine(Box::new(page)))
        }
        View::Host(Name { namespace, name }) => {
            source.host(namespace, name).await.map(|page| Content::Host(Box::new(page)))
        }
    };
    match loaded {
        Err(Problem::NotFound(why) | Problem::Forbidden(why)) => Ok(Content::Absent(why)),
        loaded => loaded,
    }
}

/// Waits, and then checks whether the plane responds. The caches cannot tell: a watch that reconnects reports nothing
/// if nothing has changed.
pub(super) async fn responds(client: &Client, scope: &Scope) -> Result<(), String> {
    tokio::time::sleep(BETWEEN).await;
    let api: Api<Cluster> = scope.api(client);
    match tokio::time::timeout(PATIENCE, api.list_metadata(&ListParams::default().limit(1))).await {
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        Ok(Ok(_)) => Ok(()),
        // It answers; what it does not serve or permit is among the notices.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404) => Ok(()),
        Ok(Err(error)) => Err(format!("{:#}", anyhow::Error::from(error))),
    }
}
