//! Brings in the plan: the Secret of its name, and no other.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_plan::SecretData;
use serde_json::Value;
use std::ops::ControlFlow;
use tokio::sync::watch;

use crate::api::{Client, follow};
use crate::config::Config;
use crate::say;
use crate::status::Board;

pub(super) async fn run(
    client: &Client,
    config: &Config,
    plans: &watch::Sender<Option<SecretData>>,
    board: &Board,
) {
    let collection = format!("/api/v1/namespaces/{}/secrets", config.namespace());
    let name = format!("{}-plan", config.machine());
    let on = |secret: Option<Value>| {
        // A plan that is taken away changes nothing: only a reset takes things back.
        if let Some(secret) = secret {
            let data = data(&secret);
            plans.send_if_modified(|known| {
                let is_news = known.as_ref() != Some(&data);
                *known = Some(data);
                is_news
            });
        }
        ControlFlow::Continue(())
    };
    let note = |went: Result<(), &crate::api::ApiError>| {
        let went = went.map_err(ToString::to_string);
        if let Err(why) = &went {
            say!("{name}: {why}");
        }
        board.note(|status| &mut status.plan_source, went);
    };
    follow(client, &collection, &name, on, note).await;
}

/// What is in a Secret. What is not base64 is handed on as nothing, and so refused and told.
fn data(secret: &Value) -> SecretData {
    let fields = secret["data"].as_object().into_iter().flatten();
    fields
        .map(|(key, value)| {
            let bytes = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            (key.clone(), bytes.unwrap_or_default())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn data_is_decoded() {
        let read = data(&json!({"data": {"plan": "aGk=", "odd": 7}}));
        assert_eq!(read["plan"], b"hi");
        assert_eq!(read["odd"], b"");
        assert!(data(&json!({})).is_empty());
    }
}
