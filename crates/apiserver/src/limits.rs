//! Nobody takes so much that others wait: how many requests and watches one client may have at once, and how fast it may
//! ask. Administrators and whoever is in this process are let through, so that a plane that is pressed can still be put right.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::{Resource, getrlimit};

use crate::{
    auth::{MASTERS, User},
    status::{ApiError, Result},
};

/// The most that a request, or an object as JSON, may be. Patches could add to an object for ever otherwise.
pub(crate) const MOST_BYTES: usize = 3 << 20;

/// What one client may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests at once, other than watches.
    pub requests: usize,
    /// Watches at once.
    pub watches: usize,
    /// Requests in a second, in the long run.
    pub per_second: f64,
    /// Requests that may come all at once after a rest.
    pub burst: f64,
    /// Bytes of bodies that are being read or worked on.
    pub bytes: usize,
    /// Connections from one address.
    pub connections: usize,
    /// Connections from all addresses together. An address may have as many as are left for others, so that there is
    /// always room for the next one.
    pub all_connections: usize,
    /// How long a body may take to come, and how long a client may take nothing of what it is sent.
    pub patience: Duration,
}

impl Default for Limits {
    /// Several times what the busiest manager asks for. Half of the files that this process may open are for connections.
    fn default() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self {
            requests: 200,
            watches: 1000,
            per_second: 1000.0,
            burst: 4000.0,
            bytes: 32 << 20,
            connections: 1000,
            all_connections: usize::try_from(files / 2).unwrap_or(usize::MAX).min(4000),
            patience: Duration::from_secs(60),
        }
    }
}

/// Who is in, and how much each has taken.
pub(crate) struct Gate {
    limits: Limits,
    clients: Mutex<HashMap<String, Client>>,
}

struct Client {
    requests: usize,
    watches: usize,
    bytes: usize,
    /// Requests that may still come at once.
    left: f64,
    counted: Instant,
}

/// What has been let in; dropped when it has been answered to its end.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    who: String,
    watches: bool,
    /// Of its body.
    bytes: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, clients: Mutex::new(HashMap::new()) })
    }

    /// Lets a request in, or says that it comes too soon. `None` is for whoever need not be counted.
    pub(crate) fn enter(self: &Arc<Self>, user: &User, watches: bool, now: Instant) -> Result<Option<Pass>> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(None);
        }
        let limits = self.limits;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Client { requests: 0, watches: 0, bytes: 0, left: limits.burst, counted: now };
        let client = clients.entry(user.name.clone()).or_insert_with(fresh);
        client.refill(&limits, now);
        let (running, most) = if watches {
            (&mut client.watches, limits.watches)
        } else {
            (&mut client.requests, limits.requests)
        };
        if *running >= most || client.left < 1.0 {
            return Err(ApiError::too_many_requests());
        }
        *running += 1;
        client.left -= 1.0;
        Ok(Some(Pass { gate: Arc::clone(self), who: user.name.clone(), watches, bytes: AtomicUsize::new(0) }))
    }
}

impl Pass {
    /// Counts the body of the request, or says that its sender has too many of them on the way.
    pub(crate) fn weigh(&self, bytes: usize) -> Result<()> {
        let mut clients = self.gate.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = clients.get_mut(&self.who) else { return Ok(()) };
        if client.bytes + bytes > self.gate.limits.bytes {
            return Err(ApiError::too_many_requests());
        }
        client.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// How many connections there are from each address.
pub(crate) struct Crowd {
    most: usize,
    together: usize,
    from: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that was let in; dropped with it.
pub(crate) struct Visitor {
    crowd: Arc<Crowd>,
    address: IpAddr,
}

impl Crowd {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let (most, together) = (limits.connections, limits.all_connections);
        Arc::new(Self { most, together, from: Mutex::new(HashMap::new()) })
    }

    /// Lets a connection in, unless there are too many from its address, or more than are left for others.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Visitor> {
        let mut from = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.together.saturating_sub(from.values().sum());
        let count = from.get(&address).copied().unwrap_or(0);
        (count < self.most.min(left)).then(|| {
            from.insert(address, count + 1);
            Visitor { crowd: Arc::clone(self), address }
        })
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut from = self.crowd.from.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = from.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                from.remove(&self.address);
            }
        }
    }
}

impl Client {
    fn refill(&mut self, limits: &Limits, now: Instant) {
        let rested = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left = (self.left + rested * limits.per_second).min(limits.burst);
        self.counted = now;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut clients = self.gate.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = clients.get_mut(&self.who) else { return };
        let running = if self.watches { &mut client.watches } else { &mut client.requests };
        *running -= 1;
        client.bytes -= self.bytes.load(Ordering::Relaxed);
        // Whoever has nothing running and has rested is as good as new, and need not be remembered.
        client.refill(&self.gate.limits, Instant::now());
        if client.requests == 0 && client.watches == 0 && client.left >= self.gate.limits.burst {
            clients.remove(&self.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn gate() -> Arc<Gate> {
        Gate::new(Limits {
            requests: 2,
            watches: 1,
            per_second: 1.0,
            burst: 3.0,
            bytes: 10,
            ..Limits::default()
        })
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), groups: Vec::new(), ..User::anonymous() }
    }

    #[test]
    fn one_client_has_only_so_many_at_once_and_others_have_theirs() {
        let (gate, now) = (gate(), Instant::now());
        let passes =
            [gate.enter(&user("a"), false, now).unwrap(), gate.enter(&user("a"), false, now).unwrap()];
        assert!(gate.enter(&user("a"), false, now).is_err());
        assert!(gate.enter(&user("b"), false, now).is_ok());
        assert!(gate.enter(&user("a"), true, now).is_ok(), "watches are counted for themselves");
        drop(passes);
        // All that may come at once has come.
        assert!(gate.enter(&user("a"), false, now).is_err());
        assert!(gate.enter(&user("a"), false, now + Duration::from_secs(2)).is_ok());
    }

    #[test]
    fn watches_are_limited_and_administrators_are_not() {
        let (gate, now) = (gate(), Instant::now());
        let _watch = gate.enter(&user("a"), true, now).unwrap();
        assert!(gate.enter(&user("a"), true, now).is_err());
        for _ in 0..10 {
            assert!(gate.enter(&User::admin(), true, now).unwrap().is_none());
        }
    }

    #[test]
    fn bodies_are_weighed_until_they_are_answered() {
        let (gate, now) = (gate(), Instant::now());
        let [first, second] = [(); 2].map(|()| gate.enter(&user("a"), false, now).unwrap().unwrap());
        assert!(first.weigh(6).is_ok() && second.weigh(6).is_err() && second.weigh(4).is_ok());
        let other = gate.enter(&user("b"), false, now).unwrap().unwrap();
        assert!(other.weigh(10).is_ok(), "others have theirs");
        drop(first);
        assert!(second.weigh(6).is_ok());
    }

    #[test]
    fn there_is_room_for_one_more_address() {
        let crowd = Crowd::new(&Limits { connections: 100, all_connections: 12, ..Limits::default() });
        let mut inside = Vec::new();
        for last in 1..=3 {
            while let Some(visitor) = crowd.enter(IpAddr::from([127, 0, 0, last])) {
                inside.push(visitor);
            }
        }
        assert!(inside.len() < 12);
        assert!(crowd.enter(IpAddr::from([10, 0, 0, 1])).is_some());
    }

    #[test]
    fn an_address_has_only_so_many_connections() {
        let crowd = Crowd::new(&Limits { connections: 1, ..Limits::default() });
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let visitor = crowd.enter(one).unwrap();
        assert!(crowd.enter(one).is_none() && crowd.enter(other).is_some());
        drop(visitor);
        assert!(crowd.enter(one).is_some());
        assert!(crowd.from.lock().unwrap().is_empty());
    }

    #[test]
    fn whoever_has_rested_is_forgotten() {
        let (gate, now) = (gate(), Instant::now().checked_sub(Duration::from_secs(60)).unwrap());
        drop(gate.enter(&user("a"), false, now).unwrap());
        assert!(gate.clients.lock().unwrap().is_empty());
    }
}
