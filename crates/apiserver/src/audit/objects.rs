//! The bodies of requests and responses in the audit log, as a policy selects them: as JSON, up to a size.

use http::Response;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use crate::{
    object,
    request::body::{self, media_type},
    response_body::Body,
};

/// The most of a body that is recorded, as the log of kube-apiserver has it by default if it truncates events.
pub(super) const MOST: usize = 100 << 10;

/// What is recorded of a body.
#[derive(Debug, PartialEq)]
pub(super) enum Recorded {
    /// There is none, or none that can be read.
    Nothing,
    /// It is too large.
    TooLarge,
    Object(Value),
}

/// A body of this media type.
pub(super) fn recorded(media_type: &str, bytes: &[u8], omit_managed_fields: bool) -> Recorded {
    if bytes.is_empty() {
        return Recorded::Nothing;
    }
    if bytes.len() > MOST {
        return Recorded::TooLarge;
    }
    let decoded = match media_type {
        // Patches are recorded as they are.
        "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json" => body::json(bytes),
        "application/apply-patch+yaml" => body::yaml(bytes),
        media_type => body::decode(media_type, bytes),
    };
    let Ok(decoded) = decoded else { return Recorded::Nothing };
    let mut value = decoded.value;
    if omit_managed_fields {
        without_managed_fields(&mut value);
    }
    // What is written may be larger than what was read.
    if value.to_string().len() > MOST { Recorded::TooLarge } else { Recorded::Object(value) }
}

/// The body of a response, which is read and put back if it is there as a whole.
pub(super) async fn of_response(
    response: Response<Body>,
    omit_managed_fields: bool,
) -> (Response<Body>, Recorded) {
    let is_small = response.body().size_hint().exact().is_some_and(|size| size <= MOST as u64);
    if !is_small {
        return (response, Recorded::TooLarge);
    }
    let (parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    };
    let recorded = recorded(media_type(&parts.headers), &bytes, omit_managed_fields);
    (Response::from_parts(parts, Full::new(bytes).boxed_unsync()), recorded)
}

/// Removes managed fields from an object, and from the items of a list or table.
fn without_managed_fields(value: &mut Value) {
    let forget = |object: &mut Value| {
        if object::metadata(object).is_some() {
            object::metadata_mut(object).shift_remove("managedFields");
        }
    };
    forget(value);
    for item in value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        forget(item);
    }
    for row in value.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        row.get_mut("object").into_iter().for_each(forget);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::{request::negotiate::Format, respond};

    #[test]
    fn bodies_are_json_and_bounded() {
        let yaml = recorded("application/yaml", b"a: {metadata: {managedFields: [{}]}}", true);
        assert_eq!(yaml, Recorded::Object(json!({"a": {"metadata": {"managedFields": [{}]}}})));
        let patch = recorded("application/json-patch+json", b"[{\"op\": \"test\"}]", true);
        assert_eq!(patch, Recorded::Object(json!([{"op": "test"}])));
        assert_eq!(recorded("application/json", b"{", false), Recorded::Nothing);
        assert_eq!(recorded("application/json", b"", false), Recorded::Nothing);
        let large = format!("{:?}", "x".repeat(MOST));
        assert_eq!(recorded("application/json", large.as_bytes(), false), Recorded::TooLarge);
        // Written again, it is larger.
        let numbers = format!("[{}]", ["1e9"; 20_000].join(","));
        assert!(numbers.len() < MOST);
        assert_eq!(recorded("application/json", numbers.as_bytes(), false), Recorded::TooLarge);
    }

    #[test]
    fn managed_fields_are_left_out_where_objects_are() {
        let object = || json!({"metadata": {"name": "a", "managedFields": [{}]}});
        let mut list = json!({"items": [object()], "rows": [{"object": object()}]});
        without_managed_fields(&mut list);
        let bare = json!({"metadata": {"name": "a"}});
        assert_eq!(list, json!({"items": [bare], "rows": [{"object": bare}]}));
    }

    #[tokio::test]
    async fn a_response_stays_as_it_is() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "code": 200});
        for format in [Format::Json, Format::Yaml, Format::Protobuf] {
            let sent = respond::value(StatusCode::OK, &status, format);
            let (response, recorded) = of_response(sent, false).await;
            assert!(matches!(recorded, Recorded::Object(value) if value["code"] == 200), "{format:?}");
            let same = respond::value(StatusCode::OK, &status, format);
            let [left, right] = [response, same].map(|response| response.into_body().collect());
            assert_eq!(left.await.unwrap().to_bytes(), right.await.unwrap().to_bytes());
        }
        let chunks = futures::stream::iter([Bytes::from_static(b"{}")]);
        let (response, recorded) = of_response(respond::stream("application/json", chunks), false).await;
        assert_eq!(recorded, Recorded::TooLarge);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
    }
}
