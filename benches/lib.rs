//! What is measured: see `docs/benchmarks.md`. The benchmarks are programs of their own, in the folders beside this.
