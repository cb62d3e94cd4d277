//! A small seeded random generator for jitter and request ids, so that tests and replayed runs are reproducible. Not
//! for secrets.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use berth_model::SeededRng;

/// A seeded generator (splitmix64), shared by reference.
#[derive(Debug)]
pub struct JitterRng(AtomicU64);

impl JitterRng {
    /// The same seed produces the same numbers.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A generator with a seed from the operating system, through the standard library's hash keys.
    #[must_use]
    pub fn from_os() -> Self {
        Self::seeded(RandomState::new().hash_one(0u8))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        self.rng().next_u64()
    }

    /// A number from 0 to below 1.
    pub fn fraction(&self) -> f64 {
        self.rng().fraction()
    }

    /// A generator for one number; the shared state has already advanced.
    fn rng(&self) -> SeededRng {
        SeededRng::new(self.0.fetch_add(SeededRng::STEP, Ordering::Relaxed))
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
            let rng = JitterRng::seeded(seed);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        let rng = JitterRng::seeded(1);
        assert!(
            (0..1000)
                .map(|_| rng.fraction())
                .all(|f| (0.0..1.0).contains(&f))
        );
        assert_eq!(JitterRng::seeded(1).request_id().len(), "req-".len() + 36);
        assert_ne!(rng.request_id(), rng.request_id());
    }
}
