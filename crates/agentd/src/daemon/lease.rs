//! The heartbeat: the one thing that an idle agent writes.

use capstan_plan::heartbeat;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

use crate::api::Client;
use crate::config::Config;
use crate::status::Board;

/// Renews the Lease in the interval that the manager asks for.
pub(super) async fn run(client: &Client, config: &Config, board: &Board) {
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}-agent",
        config.namespace(),
        config.machine()
    );
    let acquired = time(Timestamp::now());
    let mut interval = heartbeat::DEFAULT;
    loop {
        let patch = json!({"spec": {
            "holderIdentity": config.machine_id(),
            "leaseDurationSeconds": heartbeat::validity(interval).as_secs(),
            "acquireTime": acquired,
            "renewTime": time(Timestamp::now()),
        }});
        let renewed = client.api().merge(&path, &patch).await;
        let wanted = renewed.as_ref().ok().map(asked_interval);
        board.note(|status| &mut status.lease, renewed.map(drop).map_err(|error| error.to_string()));
        // A Lease that is valid for the shorter interval would end before its next renewal.
        let is_longer = wanted.is_some_and(|wanted| wanted > interval);
        interval = wanted.unwrap_or(interval);
        if !is_longer {
            tokio::time::sleep(interval.mul_f64(rand::random_range(0.9..=1.1))).await;
        }
    }
}

/// The interval that a Lease asks for.
fn asked_interval(lease: &Value) -> Duration {
    let asked = lease["metadata"]["annotations"][heartbeat::ANNOTATION].as_str();
    asked.and_then(heartbeat::read).unwrap_or(heartbeat::DEFAULT)
}

/// As the API wants it: with microseconds, always.
fn time(time: Timestamp) -> String {
    let micros = time.subsec_microsecond();
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time).to_string();
    format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_says_how_often_it_is_renewed() {
        let asked = |annotations: Value| asked_interval(&json!({"metadata": {"annotations": annotations}}));
        assert_eq!(asked(json!({heartbeat::ANNOTATION: "120"})), Duration::from_secs(120));
        for absent in [
            Value::Null,
            json!({}),
            json!({heartbeat::ANNOTATION: "often"}),
            json!({heartbeat::ANNOTATION: 7}),
        ] {
            assert_eq!(asked(absent), heartbeat::DEFAULT);
        }
    }

    #[test]
    fn times_have_microseconds() {
        for (text, expected) in [
            ("2026-11-15T01:02:03Z", "2026-11-15T01:02:03.000000Z"),
            ("2026-11-15T01:02:03.123456789Z", "2026-11-15T01:02:03.123456Z"),
        ] {
            assert_eq!(time(text.parse().expect("a time")), expected);
        }
    }
}
