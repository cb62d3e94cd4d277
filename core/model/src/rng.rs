//! A seeded random number generator (SplitMix64) for jitter, shuffles and repeatable tests.
//!
//! The standard algorithm is written out here because a library's "small generator" does not promise the same numbers across versions,
//! and a test that prints its seed must be repeatable with it. Not for secrets.

/// A generator with numbers that depend on its seed alone: the same on every machine and in every
/// build. Not for secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// How far the state advances with each number. A generator that is shared between threads keeps the state in an atomic integer,
    /// adds this to it, and calls [`SeededRng::next_u64`] on a generator made of the previous value.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, uniform over all 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::STEP);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `choices - 1`; 0 if `choices` is 0. Small choices are uniform for all practical purposes: the bias of the
    /// remainder is below `choices` / 2^64.
    pub fn below(&mut self, choices: usize) -> usize {
        let number = self.next_u64();
        let choices = u64::try_from(choices).unwrap_or(u64::MAX);
        match number.checked_rem(choices) {
            // Below `choices`, which was a usize.
            Some(chosen) => usize::try_from(chosen).unwrap_or(0),
            None => 0,
        }
    }

    /// A number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let numerator = (self.next_u64() >> 11) as f64;
        numerator / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut rng = SeededRng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut rng = SeededRng::new(7);
        for choices in 1..50 {
            assert!(rng.below(choices) < choices);
            assert!((0.0..1.0).contains(&rng.fraction()));
        }
        assert_eq!(rng.below(0), 0);
    }
}
