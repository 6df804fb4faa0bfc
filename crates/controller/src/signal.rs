//! Events that cannot be lost: each listener receives every item at least once after it was last sent, however slow the
//! listener is. An item that is sent twice before it is received is received once, so a listener never has more items
//! waiting than there are items.

use futures::Stream;
use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// A channel to any number of listeners that loses nothing: an item that a listener has not received yet is queued
/// once. Cheap to clone.
#[derive(Debug)]
pub struct Signal<T>(Arc<Mutex<Vec<Weak<Mailbox<T>>>>>);

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Signal<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[derive(Debug)]
struct Mailbox<T> {
    waiting: Mutex<(HashSet<T>, VecDeque<T>)>,
    news: Notify,
}

impl<T: Clone + Eq + Hash + Send + 'static> Signal<T> {
    /// Sends to all listeners. It is not an error if there are none.
    pub fn send(&self, thing: &T) {
        lock(&self.0).retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            mailbox.put(thing.clone());
            true
        });
    }

    /// Everything that is sent from now on.
    pub fn listen(&self) -> impl Stream<Item = T> + Send + 'static + use<T> {
        self.listen_from(Vec::new)
    }

    /// Like `listen`, beginning with these items. They are requested after the listener is registered, so that
    /// nothing is missed.
    pub fn listen_from<F: FnOnce() -> Vec<T>>(
        &self,
        things: F,
    ) -> impl Stream<Item = T> + Send + 'static + use<T, F> {
        let mailbox = Arc::new(Mailbox { waiting: Mutex::default(), news: Notify::new() });
        lock(&self.0).push(Arc::downgrade(&mailbox));
        for thing in things() {
            mailbox.put(thing);
        }
        futures::stream::unfold(mailbox, |mailbox| async {
            let thing = mailbox.take().await;
            Some((thing, mailbox))
        })
    }
}

impl<T: Clone + Eq + Hash> Mailbox<T> {
    fn put(&self, thing: T) {
        let mut waiting = lock(&self.waiting);
        if waiting.0.insert(thing.clone()) {
            waiting.1.push_back(thing);
        }
        drop(waiting);
        self.news.notify_one();
    }

    async fn take(&self) -> T {
        loop {
            {
                let mut waiting = lock(&self.waiting);
                if let Some(thing) = waiting.1.pop_front() {
                    waiting.0.remove(&thing);
                    return thing;
                }
            }
            self.news.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves no change half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, StreamExt as _};

    fn heard(stream: &mut (impl Stream<Item = u32> + Unpin)) -> Vec<u32> {
        std::iter::from_fn(|| stream.next().now_or_never().flatten()).collect()
    }

    #[test]
    fn a_slow_listener_loses_nothing_and_hears_nothing_twice() {
        let signal = Signal::default();
        let mut slow = Box::pin(signal.listen());
        for round in 0..10_000_u32 {
            signal.send(&(round % 100));
        }
        assert_eq!(heard(&mut slow), (0..100).collect::<Vec<_>>());
        assert!(heard(&mut slow).is_empty());
        signal.send(&7);
        assert_eq!(heard(&mut slow), [7], "heard before, and told again");
    }

    #[test]
    fn listeners_do_not_take_from_each_other_and_may_go() {
        let signal = Signal::default();
        let (mut one, other) = (Box::pin(signal.listen_from(|| vec![9])), signal.listen());
        drop(other);
        signal.send(&1);
        assert_eq!(heard(&mut one), [9, 1]);
        assert_eq!(lock(&signal.0).len(), 1, "who is gone is forgotten");
    }
}
