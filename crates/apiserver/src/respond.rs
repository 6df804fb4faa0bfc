//! HTTP responses with objects, tables and errors. Lists are in [`crate::chunked_list`].

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};

use crate::{
    call::{Call, Representation},
    protobuf,
    request::negotiate::{Form, Format, Output},
    status::ApiError,
    table::{self, Include},
};

/// The media type of objects in protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(crate) use crate::response_body::Body;

pub(crate) fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn value(code: StatusCode, value: &Value, format: Format) -> Response<Body> {
    match format {
        Format::Json => bytes(code, "application/json", value.to_string()),
        Format::Yaml => match serde_saphyr::to_string(value) {
            Ok(text) => bytes(code, "application/yaml", text),
            Err(error) => self::error(&ApiError::internal(&error.to_string()), Format::Json),
        },
        Format::Protobuf => match protobuf::encode(value) {
            Ok(encoded) => bytes(code, PROTOBUF, encoded),
            Err(error) => self::error(&ApiError::internal(&error.to_string()), Format::Json),
        },
    }
}

pub(crate) fn error(error: &ApiError, format: Format) -> Response<Body> {
    let status = error.to_status();
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = value(code, &status, format);
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(response, error.warnings())
}

/// One object, in the form that was asked for.
pub(crate) fn object(
    call: &Call,
    code: StatusCode,
    shown: &Representation,
    output: Output,
    include: Include,
) -> Response<Body> {
    if output == Output::JSON {
        return bytes(code, "application/json", shown.json());
    }
    let object = shown.value();
    let shown = match output.form {
        Form::Object | Form::Discovery => return value(code, &object, output.format),
        Form::Metadata(version) => table::metadata_only(&object, version),
        Form::Table(version) => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let objects = std::iter::once(object.as_ref());
            table::table(&call.version.columns, objects, &metadata, include, version, call.plane.now())
        }
    };
    value(code, &shown, output.format)
}

/// A response in pieces.
pub(crate) fn stream(
    content_type: &'static str,
    lines: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds warnings, as `kubectl` prints them.
/// A client can cause as many warnings as its body has fields. As upstream, long ones are cut when all of them are long, and what
/// is beyond that is left out.
const MOST_WARNING_BYTES: usize = 4 << 10;
const MOST_BYTES_OF_MANY: usize = 256;

pub(crate) fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    let is_much = warnings.iter().map(String::len).sum::<usize>() > MOST_WARNING_BYTES;
    let mut left = MOST_WARNING_BYTES;
    for warning in warnings {
        let end = if is_much { warning.floor_char_boundary(MOST_BYTES_OF_MANY) } else { warning.len() };
        let warning = &warning[..end];
        let Some(rest) = left.checked_sub(warning.len()) else { break };
        left = rest;
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded() {
        let shown = |warnings: &[String]| {
            let response = warn(bytes(StatusCode::OK, "text/plain", ""), warnings);
            let texts = response.headers().get_all(header::WARNING).iter().map(HeaderValue::len);
            texts.collect::<Vec<_>>()
        };
        assert_eq!(shown(&["a".repeat(4000)]), [4000 + 8]);
        assert_eq!(shown(&["a".repeat(4000), "b".repeat(97)]), [256 + 8, 97 + 8]);
        // Clients refuse responses with so many headers.
        let many: Vec<String> =
            (0..100_000).map(|number| format!("unknown field \"f{number:06}\"")).collect();
        assert_eq!(shown(&many).len(), 4096 / many[0].len());
        assert_eq!(shown(&["é".repeat(3000)]), [256 + 8]);
    }
}
