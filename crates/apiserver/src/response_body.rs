//! The type of response bodies. It does not depend on requests or the plane.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of every response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
