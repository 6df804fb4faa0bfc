//! Waits in the background until work on a host ends, so that controllers need not poll it.

use capstan_infrastructure::driver::HostKey;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::error::SshError;

/// News that nobody has read yet: more than these are dropped, and found by the controllers' timers.
const BACKLOG: usize = 256;

/// Who waits for what. Cheap to clone; all waiting ends when the last copy goes.
#[derive(Clone)]
pub(crate) struct Watch(Arc<Inner>);

struct Inner {
    news: broadcast::Sender<HostKey>,
    waiting: Arc<Mutex<HashSet<HostKey>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Default for Watch {
    fn default() -> Self {
        let (news, _) = broadcast::channel(BACKLOG);
        Self(Arc::new(Inner { news, waiting: Arc::default(), tasks: Mutex::default() }))
    }
}

impl Watch {
    /// News, from now on.
    pub(crate) fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::unfold(self.0.news.subscribe(), |mut receiver| async {
            loop {
                match receiver.recv().await {
                    Ok(key) => return Some((key, receiver)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }

    /// Tells of a host when `work` is done. While somebody waits for that host already, nothing happens.
    pub(crate) fn begin(
        &self,
        key: HostKey,
        work: impl Future<Output = Result<(), SshError>> + Send + 'static,
    ) {
        if !lock(&self.0.waiting).insert(key.clone()) {
            return;
        }
        let (news, waiting) = (self.0.news.clone(), Arc::clone(&self.0.waiting));
        let mut tasks = lock(&self.0.tasks);
        // Those that are through.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let ended = work.await;
            lock(&waiting).remove(&key);
            // An error is told to whoever asks next.
            if ended.is_ok() {
                // Nobody may listen.
                _ = news.send(key);
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves nothing half done in here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
