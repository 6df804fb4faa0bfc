//! The type of response bodies. It knows neither requests nor the plane.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// The body of every response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
