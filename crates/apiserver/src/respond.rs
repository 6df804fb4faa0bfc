//! Answers: objects, lists, tables and errors as HTTP responses.

use std::{borrow::Cow, convert::Infallible};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};

use crate::{
    request::negotiate::{Form, Format, Output},
    status::{ApiError, Result},
    store::Stored,
    table::{self, Include},
    verbs::{
        Call,
        read::{Page, list_kind},
    },
};

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

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
            Err(error) => self::error(&ApiError::internal(&error.to_string())),
        },
    }
}

pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let status = error.to_status();
    let mut response = value(error.code(), &status, Format::Json);
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(response, error.warnings())
}

/// One object, in the form that was asked for.
pub(crate) fn object(
    call: &Call,
    code: StatusCode,
    object: &Value,
    output: Output,
    include: Include,
) -> Response<Body> {
    let shown = match output.form {
        Form::Object | Form::Discovery => return value(code, object, output.format),
        Form::Metadata => table::metadata_only(object),
        Form::Table => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            table::table(&call.version.columns, std::iter::once(object), &metadata, include, call.plane.now())
        }
    };
    value(code, &shown, output.format)
}

/// A list, in the form that was asked for.
pub(crate) async fn list(
    call: &Call,
    page: &Page,
    output: Output,
    include: Include,
) -> Result<Response<Body>> {
    let (api_version, kind) = list_kind(call);
    let items: Vec<&Stored> = page.items.iter().map(AsRef::as_ref).collect();
    let objects = call.present_all(&items).await?;
    if output == Output::JSON {
        // The items are serialised already: copied, not walked.
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": page.metadata}).to_string();
        let said = said_by_the_list(call, &api_version);
        let size: usize = page.items.iter().map(|stored| stored.json.len() + 1).sum();
        let mut body = BytesMut::with_capacity(head.len() + size + 16);
        body.put_slice(&head.as_bytes()[..head.len() - 1]);
        body.put_slice(br#","items":["#);
        for (index, (stored, object)) in page.items.iter().zip(&objects).enumerate() {
            if index > 0 {
                body.put_u8(b',');
            }
            if call.is_presentable(stored) {
                put_item(&mut body, &stored.json, &said);
            } else {
                put_item(&mut body, object.to_string().as_bytes(), &said);
            }
        }
        body.put_slice(b"]}");
        return Ok(bytes(StatusCode::OK, "application/json", body.freeze()));
    }
    let shown = match output.form {
        Form::Table => {
            let objects = objects.iter().map(AsRef::as_ref);
            table::table(&call.version.columns, objects, &page.metadata, include, call.plane.now())
        }
        Form::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| table::metadata_only(object)).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata, "items": items,
            })
        }
        Form::Object | Form::Discovery => {
            let mut items: Vec<Value> = objects.into_iter().map(Cow::into_owned).collect();
            for item in
                items.iter_mut().filter_map(Value::as_object_mut).filter(|_| !call.resource.is_custom())
            {
                item.shift_remove("apiVersion");
                item.shift_remove("kind");
            }
            json!({"kind": kind, "apiVersion": api_version, "metadata": page.metadata, "items": items})
        }
    };
    Ok(value(StatusCode::OK, &shown, output.format))
}

/// How items of built-in kinds begin. Their list says it once for all of them, and upstream's items do not say it again.
fn said_by_the_list(call: &Call, api_version: &str) -> String {
    if call.resource.is_custom() {
        return String::new();
    }
    let head = json!({"apiVersion": api_version, "kind": call.resource.kind}).to_string();
    format!("{},", head.trim_end_matches('}'))
}

fn put_item(body: &mut BytesMut, item: &[u8], said: &str) {
    match item.strip_prefix(said.as_bytes()).filter(|_| !said.is_empty()) {
        Some(rest) => {
            body.put_u8(b'{');
            body.put_slice(rest);
        }
        None => body.put_slice(item),
    }
}

/// A stream of lines.
pub(crate) fn stream(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds warnings, as `kubectl` prints them.
pub(crate) fn warn(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
