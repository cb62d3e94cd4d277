//! How much of a long list of cases a test runs: `make test` a sample, `make soak` all (feature `soak`).

/// One of so many cases, or every case in `make soak`.
#[must_use]
pub const fn one_of(cases: usize) -> usize {
    if cfg!(feature = "soak") { 1 } else { cases }
}
