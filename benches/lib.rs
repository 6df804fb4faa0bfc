//! Shared code of the benchmarks, and their parts that can be tested without measuring. `docs/benchmarks.md` describes
//! the benchmarks; each is a separate program in a folder beside this file.

pub mod process;

/// Pure parts of the benchmark `fleet`.
pub mod fleet {
    pub mod audit;
    pub mod census;
    pub mod figures;
    pub mod prometheus;
    pub mod settings;
}
