//! Watch: a stream over what list would give.

use http::Response;
use tokio::sync::watch as signal;

use super::{Lines, stream};
use crate::{
    call::Call,
    request::{
        Query,
        negotiate::{Format, Output},
        options::ListOptions,
    },
    respond::{self, Body},
    status::Result,
    table::Include,
};

/// Opens a watch.
pub(crate) async fn watch(
    call: &Call,
    query: &Query,
    output: Output,
    shutdown: signal::Receiver<bool>,
) -> Result<Response<Body>> {
    let options = ListOptions::parse(query, true)?;
    let include = Include::parse(query.get("includeObject"));
    let lines = Lines { output, include, columns_sent: false };
    let content_type = match output.format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let stream = stream::open(call.clone(), &options, lines, shutdown).await?;
    Ok(respond::stream(content_type, stream))
}
