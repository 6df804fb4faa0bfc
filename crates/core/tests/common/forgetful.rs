//! A way to the API server that loses responses.

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client that does not get the response to every other write, as a process that dies and starts again.
pub(crate) fn forgetful(client: &Client) -> Client {
    let (client, writes) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, writes) = (client.clone(), Arc::clone(&writes));
        async move {
            let is_write = request.method() != Method::GET;
            let response = client.send(request).await?;
            match is_write && writes.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                true => Err::<Response<Body>, tower::BoxError>("the connection was reset".into()),
                false => Ok(response),
            }
        }
    });
    Client::new(service, super::NAMESPACE)
}
