//! What is measured: see `docs/benchmarks.md`. The benchmarks are programs of their own, in the folders beside this; what is
//! here is what they share, and what can be tested without measuring.

pub mod process;

/// Pure parts of the benchmark `fleet`.
pub mod fleet {
    pub mod audit;
    pub mod census;
    pub mod figures;
    pub mod prometheus;
    pub mod settings;
}
