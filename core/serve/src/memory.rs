//! The memory of all unfinished request bodies of a listener.
//!
//! The first [`SMALL`] bytes of each body are always granted: the number of connections limits them. Large bodies
//! therefore never use up the memory for small ones, such as heartbeats.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A body of this size, in bytes, always has memory.
pub(crate) const SMALL: usize = 128 << 10;

/// How much memory request bodies may use together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    limit: usize,
    used: AtomicUsize,
}

impl BodyMemory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { limit, used })
    }

    /// The memory of one body, which is empty so far.
    pub(crate) fn reserved(self: &Arc<Self>) -> ReservedMemory {
        ReservedMemory {
            of: Arc::clone(self),
            bytes: Mutex::default(),
        }
    }
}

/// The memory of one body, free again on drop.
#[derive(Debug)]
pub(crate) struct ReservedMemory {
    of: Arc<BodyMemory>,
    bytes: Mutex<usize>,
}

/// All memory of the listener for bodies is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyMemoryExhausted;

impl ReservedMemory {
    /// Reserves more memory.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), BodyMemoryExhausted> {
        let mut own = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = own.saturating_add(bytes);
        let more = counted(grown) - counted(*own);
        let within = |used: usize| used.checked_add(more).filter(|all| *all <= self.of.limit);
        let used = &self.of.used;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| BodyMemoryExhausted)?;
        *own = grown;
        Ok(())
    }
}

/// The part of a body of this size that counts.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(SMALL)
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        let own = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.of.used.fetch_sub(counted(*own), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_together_have_a_limit_and_a_finished_one_gives_its_memory_back() {
        let memory = BodyMemory::new(100);
        let (first, second) = (memory.reserved(), memory.reserved());
        assert_eq!(first.grow(SMALL - 40), Ok(()));
        assert_eq!(first.grow(100), Ok(()));
        assert_eq!(second.grow(SMALL), Ok(()), "a small body has memory");
        assert_eq!(second.grow(41), Err(BodyMemoryExhausted));
        assert_eq!(second.grow(40), Ok(()));
        let third = memory.reserved();
        assert_eq!(third.grow(SMALL), Ok(()));
        drop(first);
        assert_eq!(second.grow(60), Ok(()));
        drop((second, third));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }
}
