//! One client cannot make others wait: limits of its requests and watches at the same time, of its rate, and of the requests that
//! are worked on at the same time. Administrators and the controllers of this process are not limited, so that they can repair a
//! plane under load.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use capstan_net::{AddressRate, Rate};
use rustix::process::{Resource, getrlimit};

use crate::{
    fair_seats::{FairSeats, Seat, Share},
    status::{ApiError, Result},
    user::{ANONYMOUS, MASTERS, User},
};

/// Failed authentications that an address may have.
const FAILURES: Rate = Rate { per_second: 10.0, burst: 100.0 };

/// Lower limits for each of some ServiceAccounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountLimits {
    /// How the names of the ServiceAccounts end.
    pub account_suffix: &'static str,
    /// Concurrent requests other than watches.
    pub requests: usize,
    /// Concurrent watches.
    pub watches: usize,
    /// Sustained requests per second.
    pub per_second: f64,
    /// Requests that an idle client may send at once.
    pub burst: f64,
    /// Bytes of request bodies that are being read or processed.
    pub bytes: usize,
    /// Seconds of CPU time, per second and after a rest.
    pub cpu: Rate,
}

/// Limits for each client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Lower limits for some ServiceAccounts.
    pub accounts: Option<AccountLimits>,
    /// Concurrent requests other than watches.
    pub requests: usize,
    /// Concurrent watches.
    pub watches: usize,
    /// Sustained requests per second.
    pub per_second: f64,
    /// Requests that an idle client may send at once.
    pub burst: f64,
    /// Bytes of request bodies that are being read or processed.
    pub bytes: usize,
    /// Seconds of CPU time, per second and after a rest.
    pub cpu: Rate,
    /// Bytes of request bodies of all clients together.
    pub all_bytes: usize,
    /// Requests other than watches that are worked on at the same time. Clients take turns, and one has at most half of
    /// them.
    pub seats: usize,
    /// Connections from one address.
    pub connections: usize,
    /// Connections from all addresses together. One address gets at most as many as are left for the others, so that
    /// another client can always connect.
    pub all_connections: usize,
    /// How long a connection may be open before one of its requests is authenticated.
    pub unauthenticated: Duration,
    /// Interval in which the client of a watch is authenticated and authorized again.
    pub recheck: Duration,
    /// Timeout for receiving a request body, and for a write to the connection that makes no progress.
    pub stall_timeout: Duration,
}

impl Default for Limits {
    /// Several times what the busiest manager asks for. Half of the files that this process may open are for connections.
    fn default() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Self {
            accounts: None,
            requests: 200,
            watches: 1000,
            per_second: 1000.0,
            burst: 4000.0,
            bytes: 32 << 20,
            cpu: Rate { per_second: (cores / 2.0).max(1.0), burst: 30.0 },
            all_bytes: 256 << 20,
            seats: 32,
            // As many machines as a site behind one address has.
            connections: 5000,
            all_connections: usize::try_from(files / 2).unwrap_or(usize::MAX).min(20_000),
            unauthenticated: Duration::from_secs(30),
            recheck: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Those of one user.
    fn of(&self, user: &User) -> AccountLimits {
        let Self { accounts, requests, watches, per_second, burst, bytes, cpu, .. } = *self;
        let lower = accounts.filter(|lower| user.is_account(lower.account_suffix));
        lower.unwrap_or(AccountLimits {
            account_suffix: "",
            requests,
            watches,
            per_second,
            burst,
            bytes,
            cpu,
        })
    }
}

/// Who is in, and how much each has taken.
pub(crate) struct Gate {
    limits: Limits,
    clients: Mutex<HashMap<String, Client>>,
    /// Bytes of all bodies.
    bytes: AtomicUsize,
    seats: Arc<FairSeats>,
    failures: AddressRate,
}

struct Client {
    limits: AccountLimits,
    requests: usize,
    watches: usize,
    bytes: usize,
    /// Requests that may still come at once.
    left: f64,
    /// Seconds of CPU time that are left. Below zero after an expensive request.
    cpu_left: f64,
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
        Arc::new(Self {
            limits,
            clients: Mutex::default(),
            bytes: AtomicUsize::new(0),
            seats: FairSeats::new(limits.seats),
            failures: AddressRate::each(FAILURES),
        })
    }

    /// Counts a failed authentication, and says whether it is within the limits of its address. One that is not is
    /// neither explained nor audited.
    pub(crate) fn may_fail(&self, address: IpAddr, now: Instant) -> bool {
        self.failures.take(address, now)
    }

    /// Lets a request in, or says that it comes too soon. `None` is for whoever need not be counted.
    pub(crate) fn enter(
        self: &Arc<Self>,
        user: &User,
        address: IpAddr,
        watches: bool,
        now: Instant,
    ) -> Result<Option<Pass>> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(None);
        }
        let limits = self.limits.of(user);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Client {
            limits,
            requests: 0,
            watches: 0,
            bytes: 0,
            left: limits.burst,
            cpu_left: limits.cpu.burst,
            counted: now,
        };
        // Anonymous clients are as many as there are addresses.
        let is_anonymous = user.name == ANONYMOUS;
        let who = if is_anonymous { format!("{ANONYMOUS} {address}") } else { user.name.clone() };
        let client = clients.entry(who.clone()).or_insert_with(fresh);
        client.limits = limits;
        client.refill(now);
        let (running, most) = if watches {
            (&mut client.watches, limits.watches)
        } else {
            (&mut client.requests, limits.requests)
        };
        if *running >= most || client.left < 1.0 || client.cpu_left <= 0.0 {
            return Err(ApiError::too_many_requests());
        }
        *running += 1;
        client.left -= 1.0;
        Ok(Some(Pass { gate: Arc::clone(self), who, watches, bytes: AtomicUsize::new(0) }))
    }
}

impl Pass {
    /// Counts the body of the request, or says that its sender has too many of them on the way.
    pub(crate) fn weigh(&self, bytes: usize) -> Result<()> {
        let mut clients = self.gate.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = clients.get_mut(&self.who) else { return Ok(()) };
        let all = self.gate.bytes.load(Ordering::Relaxed);
        if client.bytes + bytes > client.limits.bytes || all + bytes > self.gate.limits.all_bytes {
            return Err(ApiError::too_many_requests());
        }
        client.bytes += bytes;
        // Under the lock of all clients, as every change of it.
        self.gate.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Pass {
    /// Takes CPU time from what the client has left. Requests that run go on; the next ones are rejected until there is some again.
    pub(crate) fn charge(&self, spent: Duration) {
        let mut clients = self.gate.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(&self.who) {
            client.cpu_left -= spent.as_secs_f64();
        }
    }

    /// Waits until the request may be worked on. Not while its body is read: a slow client would keep others waiting.
    /// Requests without a share need not wait.
    pub(crate) async fn seat(&self, share: Option<&Share>) -> Option<Seat> {
        let share = share.filter(|_| !self.watches)?;
        Some(self.gate.seats.take(&self.who, share).await)
    }
}

impl Client {
    /// Whether it is as one that has not sent a request yet, so it need not be remembered.
    fn is_fresh(&self) -> bool {
        let has_rested = self.left >= self.limits.burst && self.cpu_left >= self.limits.cpu.burst;
        self.requests == 0 && self.watches == 0 && has_rested
    }

    fn refill(&mut self, now: Instant) {
        let rested = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left = (self.left + rested * self.limits.per_second).min(self.limits.burst);
        let Rate { per_second, burst } = self.limits.cpu;
        self.cpu_left = (self.cpu_left + rested * per_second).min(burst);
        self.counted = now;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut clients = self.gate.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = clients.get_mut(&self.who) else { return };
        let running = if self.watches { &mut client.watches } else { &mut client.requests };
        *running -= 1;
        let bytes = self.bytes.load(Ordering::Relaxed);
        client.bytes -= bytes;
        self.gate.bytes.fetch_sub(bytes, Ordering::Relaxed);
        client.refill(Instant::now());
        if client.is_fresh() {
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

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn user(name: &str) -> User {
        User { name: name.to_owned(), groups: Vec::new(), ..User::anonymous() }
    }

    #[test]
    fn one_client_has_only_so_many_at_once_and_others_have_theirs() {
        let (gate, now) = (gate(), Instant::now());
        let passes = [
            gate.enter(&user("a"), HERE, false, now).unwrap(),
            gate.enter(&user("a"), HERE, false, now).unwrap(),
        ];
        assert!(gate.enter(&user("a"), HERE, false, now).is_err());
        assert!(gate.enter(&user("b"), HERE, false, now).is_ok());
        assert!(gate.enter(&user("a"), HERE, true, now).is_ok(), "watches are counted for themselves");
        drop(passes);
        // All that may come at once has come.
        assert!(gate.enter(&user("a"), HERE, false, now).is_err());
        assert!(gate.enter(&user("a"), HERE, false, now + Duration::from_secs(2)).is_ok());
    }

    #[test]
    fn watches_are_limited_and_administrators_are_not() {
        let (gate, now) = (gate(), Instant::now());
        let _watch = gate.enter(&user("a"), HERE, true, now).unwrap();
        assert!(gate.enter(&user("a"), HERE, true, now).is_err());
        for _ in 0..10 {
            assert!(gate.enter(&User::admin(), HERE, true, now).unwrap().is_none());
        }
    }

    #[test]
    fn bodies_are_weighed_until_they_are_answered() {
        let (gate, now) = (gate(), Instant::now());
        let [first, second] = [(); 2].map(|()| gate.enter(&user("a"), HERE, false, now).unwrap().unwrap());
        assert!(first.weigh(6).is_ok() && second.weigh(6).is_err() && second.weigh(4).is_ok());
        let other = gate.enter(&user("b"), HERE, false, now).unwrap().unwrap();
        assert!(other.weigh(10).is_ok(), "others have theirs");
        drop(first);
        assert!(second.weigh(6).is_ok());
    }

    #[test]
    fn all_bodies_together_are_limited() {
        let limits = Limits { bytes: 10, all_bytes: 15, ..Limits::default() };
        let (gate, now) = (Gate::new(limits), Instant::now());
        let [a, b] = ["a", "b"].map(|name| gate.enter(&user(name), HERE, false, now).unwrap().unwrap());
        assert!(a.weigh(10).is_ok() && b.weigh(6).is_err() && b.weigh(5).is_ok());
        drop(a);
        assert!(b.weigh(5).is_ok(), "there is room again");
    }

    #[test]
    fn a_client_that_has_used_much_cpu_time_must_rest() {
        let limits = Limits { cpu: Rate { per_second: 0.5, burst: 2.0 }, ..Limits::default() };
        let (gate, now) = (Gate::new(limits), Instant::now());
        let pass = gate.enter(&user("a"), HERE, false, now).unwrap().unwrap();
        pass.charge(Duration::from_millis(1900));
        assert!(gate.enter(&user("a"), HERE, false, now).is_ok(), "a little is left");
        pass.charge(Duration::from_millis(1100));
        assert!(gate.enter(&user("a"), HERE, false, now).is_err());
        assert!(gate.enter(&user("b"), HERE, false, now).is_ok(), "others have theirs");
        drop(pass);
        assert!(gate.enter(&user("a"), HERE, false, now + Duration::from_millis(1900)).is_err());
        assert!(gate.enter(&user("a"), HERE, false, now + Duration::from_millis(2100)).is_ok());
    }

    #[test]
    fn some_accounts_have_their_own_limits() {
        let (account_suffix, per_second, burst) = (".machine", 1.0, 2.0);
        let cpu = Rate { per_second: 1.0, burst: 1.0 };
        let lower =
            AccountLimits { account_suffix, requests: 1, watches: 1, per_second, burst, bytes: 5, cpu };
        let gate = Gate::new(Limits { accounts: Some(lower), ..Limits::default() });
        let now = Instant::now();
        let machine = user("system:serviceaccount:default:web-0.machine");
        let pass = gate.enter(&machine, HERE, false, now).unwrap().unwrap();
        assert!(gate.enter(&machine, HERE, false, now).is_err());
        assert!(pass.weigh(6).is_err() && pass.weigh(5).is_ok());
        for name in ["a", "b.machine", "system:serviceaccount:default:web-0"] {
            for _ in 0..10 {
                assert!(gate.enter(&user(name), HERE, false, now).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn anonymous_clients_are_distinguished_by_their_address() {
        let (gate, now) = (gate(), Instant::now());
        let other = IpAddr::from([127, 0, 0, 2]);
        let enter = |address| gate.enter(&User::anonymous(), address, false, now);
        let _inside = [enter(HERE).unwrap(), enter(HERE).unwrap()];
        assert!(enter(HERE).is_err() && enter(other).is_ok());
    }

    #[test]
    fn an_address_may_fail_only_so_often() {
        let (gate, now) = (gate(), Instant::now());
        let allowed = (0..1000).filter(|_| gate.may_fail(HERE, now)).count();
        assert_eq!(allowed, 100);
        assert!(gate.may_fail(IpAddr::from([127, 0, 0, 2]), now));
        let later = now + Duration::from_secs(1);
        assert_eq!((0..1000).filter(|_| gate.may_fail(HERE, later)).count(), 10);
    }

    #[test]
    fn whoever_has_rested_is_forgotten() {
        let (gate, now) = (gate(), Instant::now().checked_sub(Duration::from_secs(60)).unwrap());
        drop(gate.enter(&user("a"), HERE, false, now).unwrap());
        assert!(gate.clients.lock().unwrap().is_empty());
    }
}
