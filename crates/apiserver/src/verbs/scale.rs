//! Writes to the scale subresource.

use serde_json::Value;

use super::update;
use crate::{
    call::{Call, Outcome},
    request::options::WriteOptions,
    status::Result,
    validation::scale::set,
};

/// Replaces the scale.
pub(crate) async fn replace(call: &Call, scale: &Value, options: &WriteOptions) -> Result<Outcome> {
    let edit = |current: Option<&Value>| {
        let current = current.ok_or_else(|| call.not_found())?;
        Ok(update::Edit { object: set(call, current, scale)?, warnings: Vec::new(), tracked: false })
    };
    update::update(call, options, edit).await
}
