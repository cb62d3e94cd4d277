//! Choices that a seed decides.

/// A sequence of choices made by a seed alone (SplitMix64): the same on every machine and in every build, which a
/// library's "small generator" does not promise across versions. Not for secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `choices - 1`; 0 where there is no choice.
    pub fn below(&mut self, choices: usize) -> usize {
        let drawn = self.draw();
        let choices = u64::try_from(choices).unwrap_or(u64::MAX);
        match drawn.checked_rem(choices) {
            // Below `choices`, which was a usize.
            Some(chosen) => usize::try_from(chosen).unwrap_or(0),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut seeded = Seeded::new(1_234_567);
        assert_eq!(seeded.draw(), 6_457_827_717_110_365_317);
        assert_eq!(seeded.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn choices_stay_in_range() {
        let mut seeded = Seeded::new(7);
        for choices in 1..50 {
            assert!(seeded.below(choices) < choices);
        }
        assert_eq!(seeded.below(0), 0);
    }
}
