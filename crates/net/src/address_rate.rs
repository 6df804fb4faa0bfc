//! Rate limits for each address: token buckets in bounded memory.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// So many addresses are remembered.
const MOST_ADDRESSES: usize = 10_000;

/// A sustained rate, and how much may come at once after a rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Per second.
    pub per_second: f64,
    /// At once.
    pub burst: f64,
}

impl Rate {
    /// After this time a bucket is full again.
    fn rest(self) -> Duration {
        Duration::try_from_secs_f64(self.burst / self.per_second).unwrap_or(Duration::MAX)
    }
}

/// What is left of a rate, and when that was counted.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst, at: now }
    }

    fn refill(&mut self, rate: Rate, now: Instant) {
        let rested = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + rested * rate.per_second).min(rate.burst), now);
    }
}

/// A rate for each address, and one for all of them together.
#[derive(Debug)]
pub struct AddressRate {
    each: Rate,
    total: Option<Rate>,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_address: HashMap<IpAddr, Bucket>,
    total: Option<Bucket>,
}

impl AddressRate {
    /// All buckets are full.
    pub fn new(each: Rate, total: Rate) -> Self {
        Self { each, total: Some(total), buckets: Mutex::default() }
    }

    /// A rate for each address, without one for all together.
    pub fn each(each: Rate) -> Self {
        Self { each, total: None, buckets: Mutex::default() }
    }

    /// Takes one from the buckets. False if there is none, or if too many other addresses are remembered.
    pub fn take(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { by_address, total } = &mut *buckets;
        if by_address.len() >= MOST_ADDRESSES && !by_address.contains_key(&address) {
            let rest = self.each.rest();
            by_address.retain(|_, bucket| now.saturating_duration_since(bucket.at) < rest);
            if by_address.len() >= MOST_ADDRESSES {
                return false;
            }
        }
        let own = by_address.entry(address).or_insert_with(|| Bucket::full(self.each, now));
        own.refill(self.each, now);
        // An address that is over its own rate takes nothing from the others.
        if own.left < 1.0 {
            return false;
        }
        if let Some(rate) = self.total {
            let total = total.get_or_insert_with(|| Bucket::full(rate, now));
            total.refill(rate, now);
            if total.left < 1.0 {
                return false;
            }
            total.left -= 1.0;
        }
        own.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Rate = Rate { per_second: 10.0, burst: 100.0 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn taken(rate: &AddressRate, last: u8, now: Instant) -> usize {
        (0..1000).filter(|_| rate.take(address(last), now)).count()
    }

    #[test]
    fn each_address_has_a_rate_of_its_own() {
        let (rate, now) = (AddressRate::each(EACH), Instant::now());
        assert_eq!((taken(&rate, 1, now), taken(&rate, 2, now)), (100, 100));
        assert_eq!(taken(&rate, 1, now + Duration::from_secs(1)), 10);
        assert_eq!(taken(&rate, 1, now + Duration::from_secs(3600)), 100);
    }

    #[test]
    fn all_addresses_share_a_rate() {
        let total = Rate { per_second: 20.0, burst: 150.0 };
        let (rate, now) = (AddressRate::new(EACH, total), Instant::now());
        assert_eq!((taken(&rate, 1, now), taken(&rate, 2, now), taken(&rate, 3, now)), (100, 50, 0));
        assert_eq!(taken(&rate, 3, now + Duration::from_secs(1)), 20);
    }

    #[test]
    fn memory_does_not_grow_with_the_addresses_of_an_attacker() {
        let (rate, now) = (AddressRate::each(EACH), Instant::now());
        for number in 0..30_000_u32 {
            rate.take(IpAddr::from(number.to_be_bytes()), now);
        }
        assert!(rate.buckets.lock().expect("no panic").by_address.len() <= MOST_ADDRESSES);
        assert!(!rate.take(address(1), now) && rate.take(IpAddr::from([0, 0, 0, 1]), now));
        assert!(rate.take(address(1), now + EACH.rest()));
    }
}
