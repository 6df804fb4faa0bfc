//! URLs and headers of requests to the API server.

use http::Request;

use crate::server::{WIDGETS, plane};

pub(crate) fn label_selector(input: &[u8]) {
    list("labelSelector", input, &["", WATCH]);
}

pub(crate) fn field_selector(input: &[u8]) {
    list("fieldSelector", input, &["", WATCH]);
}

/// Where a list goes on.
pub(crate) fn page(input: &[u8]) {
    list("limit=1&continue", input, &[""]);
}

pub(crate) fn resource_version(input: &[u8]) {
    let matches = ["", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan", WATCH];
    list("resourceVersion", input, &matches);
}

const WATCH: &str = "&watch=1&timeoutSeconds=1";

/// A custom kind in every way, and a built-in one: few requests, because the fuzzer needs many inputs.
fn list(parameter: &str, input: &[u8], variants: &[&str]) {
    let value: String = form_urlencoded::byte_serialize(input).collect();
    plane().ask(Request::get(format!("/api/v1/events?{parameter}={value}")), &[]);
    for more in variants {
        plane().ask(Request::get(format!("{WIDGETS}?{parameter}={value}{more}")), &[]);
    }
}

/// A path with a query, as it is.
pub(crate) fn path_and_query(input: &[u8]) {
    let text = String::from_utf8_lossy(input).replace(' ', "+");
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS"] {
        let request = Request::builder().method(method).uri(&text);
        plane().ask(request.header("content-type", "application/json"), b"{}");
    }
}

pub(crate) fn accept(input: &[u8]) {
    for path in [WIDGETS, "/api/v1/namespaces/default", "/apis", "/openapi/v3", "/version"] {
        plane().ask(Request::get(path).header("accept", input), &[]);
    }
}
