//! A pool of connections: opened on demand, and closed when they have been idle for some time.

use russh::keys::PublicKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::Output;
use super::connection::{Connection, RunError, first_key};
use super::root::Elevation;
use crate::access::Access;
use crate::error::SshError;
use crate::settings::Settings;

/// A pool of connections to hosts. Cheap to clone; the connections are closed when the last clone is dropped.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    settings: Settings,
    slots: Mutex<HashMap<[u8; 32], Arc<Slot>>>,
    handshakes: Semaphore,
    sweeper: Mutex<Option<AbortHandle>>,
}

/// The place of one connection. Whoever holds it opens the connection; the others wait for that.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Connection>>>);

impl Pool {
    /// A pool that closes idle connections in a background task. Requires a tokio runtime.
    pub fn new(settings: Settings) -> Self {
        let every = (settings.idle / 2).max(Duration::from_millis(10));
        let inner = Arc::new(Inner {
            handshakes: Semaphore::new(settings.handshakes),
            slots: Mutex::default(),
            sweeper: Mutex::default(),
            settings,
        });
        let sweeper = tokio::spawn(sweep(Arc::downgrade(&inner), every)).abort_handle();
        *lock(&inner.sweeper) = Some(sweeper);
        Self(inner)
    }

    /// Settings of the pool.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Number of open connections.
    pub async fn open(&self) -> usize {
        let mut open = 0;
        for slot in self.0.all() {
            open += usize::from(slot.0.lock().await.as_ref().is_some_and(|connection| connection.is_open()));
        }
        open
    }

    /// The host key that a host presents, without login.
    pub async fn first_key(&self, host: &str, port: u16) -> Result<PublicKey, SshError> {
        first_key(host, port, &self.0.settings, &self.0.handshakes).await
    }

    /// Runs a script as root, through its standard input.
    pub async fn run(&self, access: &Access, doing: &'static str, script: &str) -> Result<Output, SshError> {
        let slot = self.0.slot(access);
        let (connection, fresh) = self.0.connection(&slot, access).await?;
        match self.try_run(&connection, access, doing, script).await {
            Ok(output) => Ok(output),
            Err(RunError::Begun(error)) => {
                if !matches!(error, SshError::NotRoot(_) | SshError::Failed { .. }) {
                    slot.discard(&connection).await;
                }
                Err(error)
            }
            Err(RunError::NotBegun(error)) => {
                slot.discard(&connection).await;
                if fresh {
                    return Err(error);
                }
                // It went stale in the pool, and nothing has been sent.
                let (connection, _) = self.0.connection(&slot, access).await?;
                let again = self.try_run(&connection, access, doing, script).await;
                again.map_err(|(RunError::Begun(error) | RunError::NotBegun(error))| error)
            }
        }
    }

    async fn try_run(
        &self,
        connection: &Connection,
        access: &Access,
        doing: &'static str,
        script: &str,
    ) -> Result<Output, RunError> {
        let settings = &self.0.settings;
        let (command, input) = Elevation::of(connection, access, settings).await?.command(script);
        connection.run(doing, &command, input, settings).await
    }
}

impl Inner {
    fn slot(&self, access: &Access) -> Arc<Slot> {
        Arc::clone(lock(&self.slots).entry(access.identity()).or_default())
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).values().cloned().collect()
    }

    /// The connection in a slot, and whether it was opened just now.
    async fn connection(&self, slot: &Slot, access: &Access) -> Result<(Arc<Connection>, bool), SshError> {
        let mut held = slot.0.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| connection.is_open()) {
            return Ok((Arc::clone(connection), false));
        }
        let opened = Arc::new(Connection::open(access, &self.settings, &self.handshakes).await?);
        tracing::debug!(address = opened.address(), "connected");
        *held = Some(Arc::clone(&opened));
        Ok((opened, true))
    }

    /// Closes what nobody has used for a while, sooner if there is too much.
    async fn sweep(&self) {
        let slots: Vec<_> = lock(&self.slots).iter().map(|(key, slot)| (*key, Arc::clone(slot))).collect();
        let most_idle = match slots.len() > self.settings.connections {
            true => Duration::ZERO,
            false => self.settings.idle,
        };
        for (key, slot) in slots {
            // Somebody opens it just now.
            let Ok(mut held) = slot.0.try_lock() else { continue };
            let is_idle = |connection: &Arc<Connection>| {
                !connection.is_open() || Arc::strong_count(connection) == 1 && connection.idle() >= most_idle
            };
            if let Some(connection) = held.take_if(|connection| is_idle(connection)) {
                connection.close().await;
            }
            if held.is_none() {
                drop(held);
                let mut all = lock(&self.slots);
                // The map's and ours: nobody waits for it.
                if Arc::strong_count(&slot) == 2 {
                    all.remove(&key);
                }
            }
        }
    }
}

impl Slot {
    /// Drops a connection that did not work, unless there is another one by now.
    async fn discard(&self, connection: &Arc<Connection>) {
        let mut held = self.0.lock().await;
        if held.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *held = None;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(sweeper) = lock(&self.sweeper).take() {
            sweeper.abort();
        }
    }
}

async fn sweep(pool: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = pool.upgrade() else { return };
        inner.sweep().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    /// An address at which nothing answers, like that of a host that is switched off: its queue is full.
    async fn silent() -> (TcpListener, Vec<TcpStream>, u16) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            queued.push(stream);
        }
        (listener, queued, address.port())
    }

    #[tokio::test]
    async fn a_host_that_does_not_respond_does_not_block_others() {
        let (_listener, _queued, dead) = silent().await;
        let settings = Settings { handshakes: 1, connect: Duration::from_secs(5), ..Settings::default() };
        let pool = Pool::new(settings);
        let other = pool.clone();
        let waiting = tokio::spawn(async move { other.first_key("127.0.0.1", dead).await });
        tokio::task::yield_now().await;
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Instant::now();
        // Nothing listens there: that is an answer, and it comes at once.
        assert!(pool.first_key("127.0.0.1", closed).await.is_err());
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert!(!waiting.is_finished());
        waiting.abort();
    }
}
