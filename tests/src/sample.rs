//! Chooses the size of a sample: `make test` runs a sample of a long list of cases, `make soak` (feature `soak`) all of
//! them.

/// One of so many cases, or every case in `make soak`.
#[must_use]
pub const fn one_of(cases: usize) -> usize {
    if cfg!(feature = "soak") { 1 } else { cases }
}

/// A number of guests (or rows, or requests), and how many of them `make test` uses.
#[must_use]
pub const fn up_to(all: u32, sample: u32) -> u32 {
    if cfg!(feature = "soak") { all } else { sample }
}
