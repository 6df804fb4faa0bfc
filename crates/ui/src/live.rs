//! Notifies open pages of changes: server-sent events with an increasing number.
//!
//! The script on the page then fetches the page again and replaces its content. So there is one way to render a page,
//! and a browser that was disconnected needs only the newest number.

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _, stream};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;

/// Changes that come closer together are one.
const BETWEEN: Duration = Duration::from_millis(700);

/// The events for one open page.
pub(crate) fn events(changes: watch::Receiver<u64>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Sse::new(numbers(changes).map(|number| Ok(Event::default().event("changed").data(number.to_string()))))
        .keep_alive(keep_alive)
}

/// The newest number, whenever it has changed, but not more often than once in [`BETWEEN`].
fn numbers(changes: watch::Receiver<u64>) -> impl Stream<Item = u64> {
    stream::unfold(changes, async |mut changes| {
        changes.changed().await.ok()?;
        tokio::time::sleep(BETWEEN).await;
        let number = *changes.borrow_and_update();
        Some((number, changes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_that_come_together_are_one_event() {
        let (sender, receiver) = watch::channel(0);
        let mut numbers = Box::pin(numbers(receiver));
        for number in 1..=5 {
            sender.send_replace(number);
        }
        assert_eq!(numbers.next().await, Some(5));
        sender.send_replace(6);
        assert_eq!(numbers.next().await, Some(6));
        drop(sender);
        assert_eq!(numbers.next().await, None);
    }
}
