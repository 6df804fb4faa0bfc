//! Responses: the bytes of the file with the requested digest, or an error status.

use bytes::{Bytes, BytesMut};
use capstan_plan::Digest;
use futures::stream;
use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
    RETRY_AFTER,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use std::io;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::range::{Wanted, wanted};
use crate::Software;
use crate::software::PATH;

/// How much of a file is in memory for each who reads it.
const CHUNK: usize = 256 << 10;

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// Answers one request. Only whole digests lead anywhere: there is nothing to list, and no path to wander off on.
pub(super) async fn answer<B>(software: &Software, request: &Request<B>) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return with(StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD".to_owned())], nothing());
    }
    let digest = request.uri().path().strip_prefix(PATH).and_then(|text| text.parse::<Digest>().ok());
    let Some((digest, (path, expected))) =
        digest.and_then(|digest| Some((digest, software.file_of(&digest)?)))
    else {
        return bare(StatusCode::NOT_FOUND);
    };
    let opened = async {
        let file = File::open(&path).await?;
        let metadata = file.metadata().await?;
        Ok::<_, io::Error>((file, metadata.is_file() && metadata.len() == expected))
    };
    let file = match opened.await {
        Ok((file, true)) => file,
        Ok((_, false)) => {
            tracing::warn!(path = %path.display(), "an artifact is not what the index says: see `capstan artifacts verify`");
            return bare(StatusCode::NOT_FOUND);
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "an artifact cannot be read");
            return bare(StatusCode::NOT_FOUND);
        }
    };
    let etag = format!("\"{digest}\"");
    let (status, first, length) = match wanted(range(request.headers(), &etag), expected) {
        Wanted::All => (StatusCode::OK, 0, expected),
        Wanted::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Wanted::Unsatisfiable => {
            let headers = [(CONTENT_RANGE, format!("bytes */{expected}"))];
            return with(StatusCode::RANGE_NOT_SATISFIABLE, headers, nothing());
        }
    };
    let body = match *request.method() == Method::HEAD {
        true => nothing(),
        false => match send(file, first, length).await {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "an artifact cannot be read");
                return bare(StatusCode::INTERNAL_SERVER_ERROR);
            }
        },
    };
    let mut headers = vec![
        (ACCEPT_RANGES, "bytes".to_owned()),
        // What has this digest never changes.
        (CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
        (CONTENT_LENGTH, length.to_string()),
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (ETAG, etag),
    ];
    if status == StatusCode::PARTIAL_CONTENT {
        headers.push((CONTENT_RANGE, format!("bytes {first}-{}/{expected}", first + length - 1)));
    }
    with(status, headers, body)
}

/// The client has sent too many requests.
pub(super) fn too_many_requests() -> Response<Body> {
    with(StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1".to_owned())], nothing())
}

/// The range that is asked for, unless it is of something that is no more.
fn range<'h>(headers: &'h HeaderMap, etag: &str) -> Option<&'h str> {
    let condition = headers.get(IF_RANGE);
    let range = headers.get(RANGE)?.to_str().ok()?;
    condition.is_none_or(|condition| condition.as_bytes() == etag.as_bytes()).then_some(range)
}

async fn send(mut file: File, first: u64, length: u64) -> io::Result<Body> {
    file.seek(io::SeekFrom::Start(first)).await?;
    let chunks = stream::try_unfold((file, length), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        let mut chunk = BytesMut::with_capacity(most);
        let read = file.read_buf(&mut chunk).await?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        chunk.truncate(most);
        let left = left - chunk.len() as u64;
        Ok(Some((Frame::data(chunk.freeze()), (file, left))))
    });
    Ok(BodyExt::boxed(StreamBody::new(chunks)))
}

fn nothing() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn bare(status: StatusCode) -> Response<Body> {
    with(status, [], nothing())
}

fn with(
    status: StatusCode,
    headers: impl IntoIterator<Item = (HeaderName, String)>,
    body: Body,
) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in headers {
        // Digits, digests and texts of this file: each can be a header.
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
