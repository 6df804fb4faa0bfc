//! `/healthz`, `/livez` and `/readyz`: the checks of the server itself, and those of the process it runs in.
//!
//! The server checks its store and its certificates. What else runs in the process is known to its owner only, who adds
//! checks with [`crate::Options::checks`].

use capstan_text::health::{self, Check, Endpoint, Parameters};
use http::{HeaderValue, Response, StatusCode, header};

use crate::{
    plane::Plane,
    request::Query,
    respond::{self, Body},
    status::{ApiError, Result},
};

/// The response to a path below `/healthz`, `/livez` or `/readyz`.
pub(crate) fn answer(
    plane: &Plane,
    endpoint: Endpoint,
    below: &[&str],
    query: &Query,
) -> Result<Response<Body>> {
    let checks = checks(plane);
    let response = match below {
        [] => health::respond(endpoint, &checks, &Parameters::of(query.pairs())),
        [name] => health::respond_one(endpoint, &checks, name).ok_or_else(ApiError::no_such_path)?,
        _ => return Err(ApiError::no_such_path()),
    };
    let code = if response.is_healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let mut response = respond::bytes(code, "text/plain; charset=utf-8", response.text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

fn checks(plane: &Plane) -> Vec<Check> {
    std::iter::once(Check::ping()).chain(components(plane)).collect()
}

/// The checks of parts of the process.
pub(crate) fn components(plane: &Plane) -> Vec<Check> {
    let (store, certificates) = (plane.store.health(), plane.certificates.health(plane.now()));
    let own = [
        Check::new("store", move || store.clone()),
        Check::new("certificates", move || certificates.clone()),
    ];
    own.into_iter().chain(plane.checks.iter().cloned()).collect()
}
