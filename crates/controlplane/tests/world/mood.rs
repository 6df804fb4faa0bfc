//! How everybody but the manager behaves: at once and without fault, unless a seed says otherwise.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// See the module.
#[derive(Default)]
pub(crate) struct Mood(Option<FaultRates>);

struct FaultRates {
    random: StdRng,
    /// How often out of a hundred somebody does what is due.
    acts: u32,
    /// How often out of a hundred an agent dies before it gets on.
    crashes: u32,
    /// How often out of a hundred a plan fails.
    fails: u32,
}

impl Mood {
    pub(crate) fn faulty(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let acts = random.random_range(30..=100);
        Self(Some(FaultRates { random, acts, crashes: 6, fails: 4 }))
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.0.is_none()
    }

    fn chance(&mut self, calm: bool, percent: impl Fn(&FaultRates) -> u32) -> bool {
        let Some(rates) = &mut self.0 else { return calm };
        let percent = percent(rates);
        rates.random.random_ratio(percent, 100)
    }

    pub(crate) fn acts(&mut self) -> bool {
        self.chance(true, |rates| rates.acts)
    }

    pub(crate) fn crashes(&mut self) -> bool {
        self.chance(false, |rates| rates.crashes)
    }

    pub(crate) fn fails(&mut self) -> bool {
        self.chance(false, |rates| rates.fails)
    }

    /// One way or the other.
    pub(crate) fn tosses(&mut self) -> bool {
        self.chance(false, |_| 50)
    }
}
