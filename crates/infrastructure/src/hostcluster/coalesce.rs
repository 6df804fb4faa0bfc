//! Coalesces the changes of a namespace into one reconcile of its HostClusters.
//!
//! A HostCluster evaluates all Hosts of its namespace, so in a large namespace one reconcile of each HostCluster for
//! each change of a Host would be too much. The first change of a namespace is delivered at once, and later ones after
//! a pause that grows with the work of the reconcile.

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest pause.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest pause, and so the longest delay of a HostCluster.
const LONGEST: Duration = Duration::from_secs(10);
/// Pause for each evaluation of a Host: ten times its cost, so that at most a tenth of a core is used.
const FOR_EACH_LOOK: Duration = Duration::from_micros(5);

/// The pause of a namespace with these numbers of HostClusters and Hosts.
pub(super) fn rest(host_clusters: usize, hosts: usize) -> Duration {
    let looks = u32::try_from(host_clusters.saturating_mul(hosts)).unwrap_or(u32::MAX);
    FOR_EACH_LOOK.saturating_mul(looks).clamp(SHORTEST, LONGEST)
}

/// The namespaces with changes, and when each may be delivered. Pure: the caller passes the time.
#[derive(Default)]
struct Windows {
    due: HashMap<String, Instant>,
    not_before: HashMap<String, Instant>,
}

impl Windows {
    fn changed(&mut self, namespace: String, now: Instant) {
        let not_before = self.not_before.get(&namespace).copied();
        self.due.entry(namespace).or_insert(not_before.map_or(now, |not_before| not_before.max(now)));
    }

    /// When the next namespace is due.
    fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Takes a namespace that is due. The caller sets its next pause.
    fn take(&mut self, now: Instant) -> Option<String> {
        let namespace =
            self.due.iter().find(|(_, due)| **due <= now).map(|(namespace, _)| namespace.clone())?;
        self.due.remove(&namespace);
        Some(namespace)
    }

    fn rests(&mut self, namespace: String, now: Instant, rest: Duration) {
        self.not_before.retain(|_, not_before| *not_before > now);
        self.not_before.insert(namespace, now + rest);
    }
}

/// Namespaces with changes. `rest_of` returns the pause of a namespace after it was delivered.
pub(super) fn coalesced<R>(
    changed: BoxStream<'static, String>,
    rest_of: impl Fn(String) -> R + Send + 'static,
) -> impl Stream<Item = String> + Send + 'static
where
    R: Future<Output = Duration> + Send,
{
    unfold((changed, Windows::default(), rest_of), async |(mut changed, mut windows, rest_of)| {
        loop {
            if let Some(namespace) = windows.take(Instant::now()) {
                let rest = rest_of(namespace.clone()).await;
                windows.rests(namespace.clone(), Instant::now(), rest);
                return Some((namespace, (changed, windows, rest_of)));
            }
            let due = windows.next();
            let waits = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // What has come already is one change, however much it is.
                biased;
                namespace = changed.next() => windows.changed(namespace?, Instant::now()),
                () = waits => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_namespace_is_delivered_at_once_and_a_busy_one_at_intervals() {
        let (mut windows, now) = (Windows::default(), Instant::now());
        let later = |millis| now + Duration::from_millis(millis);
        windows.changed("n".to_owned(), now);
        assert_eq!(windows.take(now).as_deref(), Some("n"));
        windows.rests("n".to_owned(), now, Duration::from_secs(1));
        for millis in [10, 20, 900] {
            windows.changed("n".to_owned(), later(millis));
            assert_eq!(windows.take(later(millis)), None);
        }
        assert_eq!(windows.next(), Some(later(1000)));
        assert_eq!(windows.take(later(1000)).as_deref(), Some("n"), "the last change is not lost");
        assert_eq!((windows.next(), windows.take(later(5000))), (None, None));
        // Another one does not wait for it.
        windows.rests("n".to_owned(), later(1000), Duration::from_secs(9));
        windows.changed("m".to_owned(), later(1001));
        assert_eq!(windows.take(later(1001)).as_deref(), Some("m"));
    }

    #[test]
    fn the_while_grows_with_the_work() {
        assert_eq!(rest(1, 3), SHORTEST);
        assert_eq!(rest(100, 1000), Duration::from_millis(500));
        assert_eq!(rest(1000, 5000), LONGEST);
        assert_eq!(rest(usize::MAX, 2), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_delivered_twice() {
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let mut told = std::pin::pin!(coalesced(receiver.boxed(), async |_| Duration::from_secs(1)));
        sender.unbounded_send("n".to_owned()).unwrap();
        assert_eq!(told.next().await.as_deref(), Some("n"));
        for _ in 0..1000 {
            sender.unbounded_send("n".to_owned()).unwrap();
        }
        assert_eq!(told.next().await.as_deref(), Some("n"));
        drop(sender);
        assert_eq!(told.next().await, None);
    }
}
