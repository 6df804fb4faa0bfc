//! Requests that only an embedded plane answers.

use anyhow::Result;
use http::Request;
use kube::Client;
use serde::de::DeserializeOwned;

/// Sends a request about keys and credentials of the plane.
pub(crate) async fn asked<T: DeserializeOwned>(client: &Client, request: Request<Vec<u8>>) -> Result<T> {
    client.request(request).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 => anyhow::anyhow!(
            "this management plane is not an embedded one (`capstan up`): use its own tools for its keys and credentials"
        ),
        _ => anyhow::Error::new(error).context("the plane did not answer as it should"),
    })
}
