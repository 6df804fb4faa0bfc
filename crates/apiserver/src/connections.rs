//! Which connections are open.
//!
//! Every client that reaches the port can open connections and hold them at no cost. So a connection is a stranger until
//! one of its requests is authenticated. Strangers are closed after a short time, and the oldest of them at once when there
//! is no room for a new connection.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::limits::Limits;

/// The open connections of a listener.
pub(crate) struct Connections {
    /// The most from one address.
    most: usize,
    /// The most from all addresses together.
    together: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_address: HashMap<IpAddr, usize>,
    total: usize,
    /// Connections without an authenticated request, the oldest first.
    strangers: BTreeMap<u64, (IpAddr, Arc<Eviction>)>,
    next: u64,
}

/// Tells a connection that it must make room.
#[derive(Default)]
struct Eviction {
    happened: AtomicBool,
    notify: Notify,
}

/// An open connection. Dropped when it is closed.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    eviction: Arc<Eviction>,
    is_authenticated: AtomicBool,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let (most, together) = (limits.connections, limits.all_connections);
        Arc::new(Self { most, together, open: Mutex::new(Open::default()) })
    }

    /// Accepts a connection, unless there are too many from its address. When there are too many altogether, the oldest
    /// stranger is closed; if there is none, the new connection is rejected.
    pub(crate) fn accept(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let mut open = self.lock();
        let count = open.by_address.get(&address).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        // One address gets at most as many as are left for the others.
        if count >= self.together.saturating_sub(open.total) {
            open.close_oldest_stranger(address)?;
        }
        let (number, eviction) = (open.next, Arc::new(Eviction::default()));
        open.next += 1;
        open.total += 1;
        *open.by_address.entry(address).or_default() += 1;
        open.strangers.insert(number, (address, Arc::clone(&eviction)));
        let is_authenticated = AtomicBool::new(false);
        Some(Connection { connections: Arc::clone(self), address, number, eviction, is_authenticated })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// One of the same address if it has any, so that an address with many connections closes its own.
    fn close_oldest_stranger(&mut self, address: IpAddr) -> Option<()> {
        let own = self.strangers.iter().find(|(_, (of, _))| *of == address).map(|(number, _)| *number);
        let number = own.or_else(|| self.strangers.keys().next().copied())?;
        let (address, eviction) = self.strangers.remove(&number)?;
        eviction.happened.store(true, Ordering::Relaxed);
        eviction.notify.notify_one();
        self.leave(address);
        Some(())
    }

    fn leave(&mut self, address: IpAddr) {
        self.total -= 1;
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Connection {
    /// A request of this connection was authenticated.
    pub(crate) fn authenticated(&self) {
        if !self.is_authenticated.swap(true, Ordering::Relaxed) {
            self.connections.lock().strangers.remove(&self.number);
        }
    }

    /// Waits until the connection must be closed: to make room for another one, or because none of its requests was
    /// authenticated in time.
    pub(crate) async fn must_close(&self, timeout: Duration) {
        let too_late = async {
            tokio::time::sleep(timeout).await;
            if self.is_authenticated.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.eviction.notify.notified() => {}
            () = too_late => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.strangers.remove(&self.number);
        // One that was evicted does not count any more.
        if !self.eviction.happened.load(Ordering::Relaxed) {
            open.leave(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn connections(most: usize, together: usize) -> Arc<Connections> {
        Connections::new(&Limits { connections: most, all_connections: together, ..Limits::default() })
    }

    fn was_evicted(connection: &Connection) -> bool {
        connection.eviction.happened.load(Ordering::Relaxed)
    }

    #[test]
    fn an_address_has_only_so_many_connections() {
        let connections = connections(1, 10);
        let first = connections.accept(address(1)).unwrap();
        assert!(connections.accept(address(1)).is_none() && connections.accept(address(2)).is_some());
        drop(first);
        assert!(connections.accept(address(1)).is_some());
        assert!(connections.lock().by_address.is_empty());
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        let connections = connections(100, 4);
        let open: Vec<Connection> = (1..=4).map(|last| connections.accept(address(last)).unwrap()).collect();
        open[0].authenticated();
        let fifth = connections.accept(address(5)).unwrap();
        assert_eq!(open.iter().map(was_evicted).collect::<Vec<_>>(), [false, true, false, false]);
        // Authentication that comes too late does not count twice.
        open[1].authenticated();
        assert_eq!(connections.lock().total, 4);
        drop(open);
        assert_eq!(connections.lock().total, 1);
        drop(fifth);
        assert_eq!(connections.lock().total, 0);
    }

    #[test]
    fn whoever_has_authenticated_stays() {
        let connections = connections(100, 3);
        let open: Vec<Connection> = (1..=3).map(|last| connections.accept(address(last)).unwrap()).collect();
        open.iter().for_each(Connection::authenticated);
        assert!(connections.accept(address(4)).is_none());
        assert!(!open.iter().any(was_evicted));
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let connections = connections(100, 12);
        let known = |last| {
            let connection = connections.accept(address(last))?;
            connection.authenticated();
            Some(connection)
        };
        let open: Vec<Connection> =
            (1..=3).flat_map(|last| std::iter::from_fn(move || known(last))).collect();
        assert!(open.len() < 12, "{}", open.len());
        assert!(connections.accept(address(9)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_is_closed_in_time() {
        let connections = connections(10, 10);
        let (stranger, known) =
            (connections.accept(address(1)).unwrap(), connections.accept(address(2)).unwrap());
        known.authenticated();
        let start = tokio::time::Instant::now();
        stranger.must_close(Duration::from_secs(30)).await;
        assert_eq!(start.elapsed().as_secs(), 30);
        let waits = known.must_close(Duration::from_secs(30));
        assert!(tokio::time::timeout(Duration::from_secs(3600), waits).await.is_err());
    }
}
