//! OpenAPI v2, in which nothing is described. kubectl asks for it before it sends a `List`, to look each item up; what it
//! does not find there it leaves to the server to judge. What there is to know is told by v3.

use http::{HeaderMap, Response, StatusCode, header};
use serde_json::json;

use crate::respond::{self, Body};

/// The type of the document, in the form that Go's clients ask for.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/v2`.
pub(crate) fn answer(server: &str, headers: &HeaderMap) -> Response<Body> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    // Clients write the version behind an `@` or a dot.
    if accept.replace('@', ".").contains(PROTOBUF) {
        return respond::bytes(StatusCode::OK, PROTOBUF, document(server));
    }
    let document = json!({
        "swagger": "2.0", "info": {"title": TITLE, "version": server}, "paths": {}, "definitions": {},
    });
    respond::bytes(StatusCode::OK, "application/json", document.to_string())
}

const TITLE: &str = "Kubernetes";

/// The same in protobuf: `swagger` is its field 1, `info` 2 with `title` 1 and `version` 2, `paths` 8 and
/// `definitions` 9.
fn document(server: &str) -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, server.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, &[]), field(9, &[])].concat()
}

/// A field of bytes. Lengths and numbers here are all below 128, where each is one byte.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(127)];
    let length = u8::try_from(bytes.len()).unwrap_or(127);
    [&[number << 3 | 2, length], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_says_whose_it_is() {
        let expected = b"\x0a\x032.0\x12\x13\x0a\x0aKubernetes\x12\x05v1.36\x42\x00\x4a\x00";
        assert_eq!(document("v1.36"), expected);
    }

    #[test]
    fn each_client_gets_the_form_it_asks_for() {
        let asked = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            answer("v1.36", &headers).headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned()
        };
        assert_eq!(asked("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), PROTOBUF);
        assert_eq!(asked("application/json"), "application/json");
    }
}
