//! The sign of life: the one thing that an idle agent writes.

use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

use crate::api::Client;
use crate::config::Config;
use crate::status::Board;

/// How long a sign of life holds.
const HOLDS_SECONDS: u64 = 60;
/// How long to wait between two. Two may get lost.
const BETWEEN: Duration = Duration::from_secs(HOLDS_SECONDS / 3);

pub(super) async fn run(client: &Client, config: &Config, board: &Board) {
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}-agent",
        config.namespace(),
        config.machine()
    );
    let acquired = time(Timestamp::now());
    loop {
        let patch = json!({"spec": {
            "holderIdentity": config.machine_id(),
            "leaseDurationSeconds": HOLDS_SECONDS,
            "acquireTime": acquired,
            "renewTime": time(Timestamp::now()),
        }});
        let went = client.api().merge(&path, &patch).await;
        board.note(|status| &mut status.lease, went.map(drop).map_err(|error| error.to_string()));
        tokio::time::sleep(BETWEEN.mul_f64(rand::random_range(0.9..=1.1))).await;
    }
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
    fn times_have_microseconds() {
        for (text, expected) in [
            ("2026-11-15T01:02:03Z", "2026-11-15T01:02:03.000000Z"),
            ("2026-11-15T01:02:03.123456789Z", "2026-11-15T01:02:03.123456Z"),
        ] {
            assert_eq!(time(text.parse().expect("a time")), expected);
        }
    }
}
