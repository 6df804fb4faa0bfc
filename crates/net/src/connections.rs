//! Open connections of a server, limited for each address and altogether.
//!
//! Every client that reaches the port can open connections and hold them at no cost. So a connection is a stranger until
//! the server has accepted one of its requests: it authenticated the client, or it has what the client requests. Strangers
//! are closed after a short time, and the oldest of them at once when there is no room for a new connection.

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

/// Limits of open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections from one address.
    pub per_address: usize,
    /// Connections from all addresses together. One address gets at most as many as are left for the others, so that
    /// another client can always connect.
    pub total: usize,
    /// How long a connection may be open before the server has accepted one of its requests.
    pub unaccepted: Duration,
}

/// The open connections of a listener.
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_address: HashMap<IpAddr, usize>,
    total: usize,
    /// Connections without an accepted request, the oldest first.
    strangers: BTreeMap<u64, (IpAddr, Arc<Eviction>)>,
    next: u64,
}

/// Tells a connection that it must make room.
#[derive(Debug, Default)]
struct Eviction {
    happened: AtomicBool,
    notify: Notify,
}

/// The place of an open connection. Dropped when it is closed.
#[derive(Debug)]
pub struct Connection {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    eviction: Arc<Eviction>,
    has_request: AtomicBool,
}

impl Connections {
    /// No connection is open.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default() })
    }

    /// Accepts a connection, unless there are too many from its address. When there are too many altogether, the oldest
    /// stranger is closed; if there is none, the new connection is rejected.
    pub fn accept(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let mut open = self.lock();
        let count = open.by_address.get(&address).copied().unwrap_or(0);
        if count >= self.limits.per_address {
            return None;
        }
        // One address gets at most as many as are left for the others.
        if count >= self.limits.total.saturating_sub(open.total) {
            open.close_oldest_stranger(address)?;
        }
        let (number, eviction) = (open.next, Arc::new(Eviction::default()));
        open.next += 1;
        open.total += 1;
        *open.by_address.entry(address).or_default() += 1;
        open.strangers.insert(number, (address, Arc::clone(&eviction)));
        let has_request = AtomicBool::new(false);
        Some(Connection { connections: Arc::clone(self), address, number, eviction, has_request })
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
    /// The server has accepted a request of this connection. From now on it is not closed to make room for others.
    pub fn request_accepted(&self) {
        if !self.has_request.swap(true, Ordering::Relaxed) {
            self.connections.lock().strangers.remove(&self.number);
        }
    }

    /// Waits until the connection must be closed: to make room for another one, or because none of its requests was
    /// accepted in time.
    pub async fn must_close(&self) {
        let too_late = async {
            tokio::time::sleep(self.connections.limits.unaccepted).await;
            if self.has_request.load(Ordering::Relaxed) {
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

    fn connections(per_address: usize, total: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { per_address, total, unaccepted: Duration::from_secs(30) })
    }

    fn was_evicted(connection: &Connection) -> bool {
        connection.eviction.happened.load(Ordering::Relaxed)
    }

    #[test]
    fn an_address_has_only_so_many_connections() {
        let connections = connections(1, 10);
        let first = connections.accept(address(1)).expect("accepted");
        assert!(connections.accept(address(1)).is_none() && connections.accept(address(2)).is_some());
        drop(first);
        assert!(connections.accept(address(1)).is_some());
        assert!(connections.lock().by_address.is_empty());
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        let connections = connections(100, 4);
        let open: Vec<Connection> =
            (1..=4).map(|last| connections.accept(address(last)).expect("accepted")).collect();
        open[0].request_accepted();
        let fifth = connections.accept(address(5)).expect("accepted");
        assert_eq!(open.iter().map(was_evicted).collect::<Vec<_>>(), [false, true, false, false]);
        // A request that comes too late does not count twice.
        open[1].request_accepted();
        assert_eq!(connections.lock().total, 4);
        drop(open);
        assert_eq!(connections.lock().total, 1);
        drop(fifth);
        assert_eq!(connections.lock().total, 0);
    }

    #[test]
    fn a_client_with_an_accepted_request_stays() {
        let connections = connections(100, 3);
        let open: Vec<Connection> =
            (1..=3).map(|last| connections.accept(address(last)).expect("accepted")).collect();
        open.iter().for_each(Connection::request_accepted);
        assert!(connections.accept(address(4)).is_none());
        assert!(!open.iter().any(was_evicted));
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let connections = connections(100, 12);
        let known = |last| {
            let connection = connections.accept(address(last))?;
            connection.request_accepted();
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
        let (stranger, known) = (
            connections.accept(address(1)).expect("accepted"),
            connections.accept(address(2)).expect("accepted"),
        );
        known.request_accepted();
        let start = tokio::time::Instant::now();
        stranger.must_close().await;
        assert_eq!(start.elapsed().as_secs(), 30);
        let waits = known.must_close();
        assert!(tokio::time::timeout(Duration::from_secs(3600), waits).await.is_err());
    }
}
