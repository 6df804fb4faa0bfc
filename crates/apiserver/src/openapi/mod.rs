//! OpenAPI, from which clients learn kinds and fields: v3 as an index and a document for each group and version, v2 as one
//! document.

mod components;
mod v2;
mod v2_protobuf;
mod v2_schema;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use self::components::{Components, Edition};
use crate::{
    discovery::served,
    documents::{Document, Documents},
    heavy,
    registry::Registry,
    request::negotiate::Format,
    respond::{self, Body},
    status::{ApiError, Result},
};

/// The type of the second version's document in the form that Go's clients ask for.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers a path under `/openapi/v3`.
pub(crate) fn v3(
    registry: &Registry,
    documents: &Documents,
    server: &str,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>> {
    if path.is_empty() {
        return Ok(respond::value(StatusCode::OK, &index(registry), Format::Json));
    }
    let document = cached(registry, documents, path, || {
        let parts: Vec<&str> = path.split('/').collect();
        let (group, version) = match parts.as_slice() {
            ["api", version] => ("", *version),
            ["apis", group, version] => (*group, *version),
            _ => return Err(ApiError::no_such_path()),
        };
        Ok(v3_document(registry, server, group, version)?.to_string().into())
    })?;
    Ok(response(&document, "application/json", headers))
}

/// Answers `/openapi/v2`.
pub(crate) fn v2(
    registry: &Registry,
    documents: &Documents,
    server: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    // Clients write the version behind an `@` or a dot.
    if accept.replace('@', ".").contains(V2_PROTOBUF) {
        let make = || Ok(v2_protobuf::encoded(&v2::document(registry, server)).into());
        return Ok(response(&cached(registry, documents, "v2.protobuf", make)?, V2_PROTOBUF, headers));
    }
    let make = || Ok(v2::document(registry, server).to_string().into());
    Ok(response(&cached(registry, documents, "v2", make)?, "application/json", headers))
}

/// A document of this state of the registry, made if it was not asked for yet.
fn cached(
    registry: &Registry,
    documents: &Documents,
    name: &str,
    make: impl FnOnce() -> Result<Bytes>,
) -> Result<Document> {
    if let Some(document) = documents.get(registry, name) {
        return Ok(document);
    }
    let (body, digest) = heavy::at_once(|| {
        let body = make()?;
        let digest = digest::digest(&digest::SHA256, &body);
        Ok::<_, ApiError>((body, digest))
    })?;
    let etag = digest.as_ref().iter().fold("\"".to_owned(), |text, byte| format!("{text}{byte:02X}")) + "\"";
    let document = Document { body, etag };
    documents.keep(registry, name, document.clone());
    Ok(document)
}

/// The document, or nothing for a client that has it.
fn response(document: &Document, content_type: &'static str, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').any(|tag| tag.trim() == document.etag);
    let mut response = if is_known {
        respond::bytes(StatusCode::NOT_MODIFIED, content_type, Bytes::new())
    } else {
        respond::bytes(StatusCode::OK, content_type, document.body.clone())
    };
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            // A document changes only with the registry; clients that see the same hash keep theirs.
            let url = format!("/openapi/v3/{path}?hash={:016X}", registry.generation);
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn v3_document(registry: &Registry, server: &str, group: &str, version: &str) -> Result<Value> {
    let mut components = Components::default();
    for (resource, version) in served(registry, group, version) {
        components.add(resource, version, Edition::V3);
    }
    let Components { schemas, paths } = components;
    if paths.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": server},
        "paths": paths, "components": {"schemas": schemas},
    }))
}
