//! What a run is repeated by.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clients::Dice;

/// One run: its choices, and how often the server is killed.
pub(crate) struct Run {
    pub(crate) dice: Dice,
    pub(crate) kills: u64,
}

impl Run {
    /// From `CAPSTAN_SEED` and `CAPSTAN_KILLS`, which are printed; without them with a fresh seed and `kills`.
    pub(crate) fn start(kills: u64) -> Self {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        let seed = number("CAPSTAN_SEED").unwrap_or_else(|| now.into());
        let kills = number("CAPSTAN_KILLS").unwrap_or(kills);
        eprintln!("CAPSTAN_SEED={seed} CAPSTAN_KILLS={kills}");
        Self { dice: Dice(seed), kills }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}
