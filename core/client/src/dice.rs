//! Chance for jitter and request ids: a small generator with a seed, so that a test or a replayed run throws the same.
//! Nothing secret depends on it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A seeded generator (splitmix64). Clones are not needed: it is shared by reference.
#[derive(Debug)]
pub struct Dice(AtomicU64);

impl Dice {
    /// The same seed throws the same numbers.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Seeded by the operating system, through the standard library's hash keys.
    #[must_use]
    pub fn thrown() -> Self {
        Self::seeded(RandomState::new().hash_one(0u8))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below 1.
    pub fn fraction(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let numerator = (self.next() >> 11) as f64;
        numerator / (1u64 << 53) as f64
    }

    /// A request id as OpenStack writes them: `req-` and a random UUID.
    pub fn request_id(&self) -> String {
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&self.next().to_be_bytes());
        low.copy_from_slice(&self.next().to_be_bytes());
        format!(
            "req-{}",
            uuid::Builder::from_random_bytes(bytes).into_uuid()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throw = |seed| {
            let dice = Dice::seeded(seed);
            [dice.next(), dice.next(), dice.next()]
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        let dice = Dice::seeded(1);
        assert!(
            (0..1000)
                .map(|_| dice.fraction())
                .all(|f| (0.0..1.0).contains(&f))
        );
        assert_eq!(Dice::seeded(1).request_id().len(), "req-".len() + 36);
        assert_ne!(dice.request_id(), dice.request_id());
    }
}
