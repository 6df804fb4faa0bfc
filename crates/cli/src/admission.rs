//! Admission of Cluster API's objects on the embedded plane, in the process of its API server.

use capstan_admission::{Kind, Operation, Rejection, Write, kind::VERSION};
use capstan_apiserver::{self as apiserver, Admission, AdmissionRequest, ApiError, Mutated};
use capstan_webhooks::{Admitter, status};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use std::sync::OnceLock;

/// Admits writes as soon as it knows the plane. The API server needs it before there is a client.
#[derive(Default)]
pub(crate) struct PlaneAdmission(OnceLock<Admitter>);

impl PlaneAdmission {
    /// Reads facts with this client from now on.
    pub(crate) fn read_with(&self, client: &Client) {
        // A second client would be one of the same plane.
        drop(self.0.set(Admitter::new(client.clone())));
    }

    fn admitter(&self) -> Result<&Admitter, ApiError> {
        self.0
            .get()
            .ok_or_else(|| ApiError::unavailable("the plane is starting: admission cannot read objects"))
    }
}

const fn operation(of: apiserver::Operation) -> Operation {
    match of {
        apiserver::Operation::Create => Operation::Create,
        apiserver::Operation::Update => Operation::Update,
        apiserver::Operation::Delete => Operation::Delete,
    }
}

/// The write, if there are rules for its kind in this version. There are none for other versions of a kind.
fn write<'a>(request: &AdmissionRequest<'a>) -> Option<Write<'a>> {
    let kind = Kind::find(request.group, request.kind).filter(|_| request.version == VERSION)?;
    let operation = operation(request.operation);
    Some(Write { kind, operation, old: request.old, new: request.object })
}

fn rejected(write: &Write<'_>, name: &str, rejection: &Rejection) -> ApiError {
    ApiError::from_status(&status(write.kind, name, rejection))
}

impl Admission for PlaneAdmission {
    fn mutates(&self, group: &str, kind: &str, of: apiserver::Operation) -> bool {
        Kind::find(group, kind).is_some_and(|kind| kind.defaulted().contains(&operation(of)))
    }

    fn validates(&self, group: &str, kind: &str, of: apiserver::Operation) -> bool {
        Kind::find(group, kind).is_some_and(|kind| kind.validated().contains(&operation(of)))
    }

    fn mutate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Mutated, ApiError>> {
        async move {
            let Some(write) = write(&request) else { return Ok(Mutated::default()) };
            match self.admitter()?.default(&write).await {
                Ok((object, warnings)) => Ok(Mutated { object, warnings }),
                Err(rejection) => Err(rejected(&write, request.name, &rejection)),
            }
        }
        .boxed()
    }

    fn validate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Vec<String>, ApiError>> {
        async move {
            let Some(write) = write(&request) else { return Ok(Vec::new()) };
            let warnings = self.admitter()?.validate(&write).await;
            warnings.map_err(|rejection| rejected(&write, request.name, &rejection))
        }
        .boxed()
    }
}
