//! How long to wait before the next try: longer each time, and never the same for two machines.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// It worked.
    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now: between half and all of twice as long as last time.
    pub(crate) fn next(&mut self) -> Duration {
        let most = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        most.mul_f64(rand::random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_begin_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        for most in [1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.next();
            assert!(wait <= Duration::from_secs(most) && wait * 2 >= Duration::from_secs(most), "{wait:?}");
        }
        (0..100).for_each(|_| _ = backoff.next());
        backoff.succeeded();
        assert!(backoff.next() <= Duration::from_secs(1));
    }
}
