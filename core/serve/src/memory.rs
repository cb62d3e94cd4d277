//! The memory of all unfinished request bodies of a listener.
//!
//! The first [`SMALL`] bytes of each body are always granted: the number of connections limits them. Large bodies
//! therefore never use up the memory for small ones, such as heartbeats. A sender may have half of the memory that others
//! leave, so that there is always some for one more sender.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client_address::ClientAddress;

/// A body of this size, in bytes, always has memory.
pub(crate) const SMALL: usize = 128 << 10;

/// How much memory request bodies may use together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    limit: usize,
    used: Mutex<UsedMemory>,
}

/// The sender of request bodies: an account or an address. The bodies of one sender count together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum BodySender {
    /// The account of the caller, by its id.
    Account(Arc<str>),
    /// The address of the client, while the account is not known.
    Address(ClientAddress),
}

#[derive(Debug, Default)]
struct UsedMemory {
    total: usize,
    /// The bytes of each sender that uses some.
    by_sender: BTreeMap<BodySender, usize>,
}

/// Why a body gets no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyMemoryExhausted {
    /// All memory of the listener for bodies is used.
    Listener,
    /// The sender has its share.
    Share,
}

impl BodySender {
    /// Whether the share of a sender limits it. Many clients have the address of a proxy.
    fn has_share(&self) -> bool {
        match self {
            Self::Account(_) => true,
            Self::Address(address) => !address.is_shared(),
        }
    }
}

impl UsedMemory {
    fn add(&mut self, sender: &BodySender, bytes: usize) {
        if bytes > 0 {
            self.total += bytes;
            *self.by_sender.entry(sender.clone()).or_default() += bytes;
        }
    }

    fn remove(&mut self, sender: &BodySender, bytes: usize) {
        self.total -= bytes;
        if let Some(own) = self.by_sender.get_mut(sender) {
            *own -= bytes;
            if *own == 0 {
                self.by_sender.remove(sender);
            }
        }
    }

    fn reserve(
        &mut self,
        sender: &BodySender,
        bytes: usize,
        limit: usize,
    ) -> Result<(), BodyMemoryExhausted> {
        let own = self.by_sender.get(sender).copied().unwrap_or_default();
        let wanted = own.saturating_add(bytes);
        let left_by_others = limit.saturating_sub(self.total - own);
        if wanted > left_by_others {
            return Err(BodyMemoryExhausted::Listener);
        }
        if sender.has_share() && wanted > left_by_others / 2 {
            return Err(BodyMemoryExhausted::Share);
        }
        self.add(sender, bytes);
        Ok(())
    }
}

impl BodyMemory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let used = Mutex::default();
        Arc::new(Self { limit, used })
    }

    fn used(&self) -> MutexGuard<'_, UsedMemory> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of one body of this client, which is empty so far.
    pub(crate) fn reserved(self: &Arc<Self>, client: ClientAddress) -> ReservedMemory {
        ReservedMemory {
            of: Arc::clone(self),
            body: Mutex::new(BodyInMemory {
                sender: BodySender::Address(client),
                bytes: 0,
            }),
        }
    }
}

/// The memory of one body, free again on drop.
#[derive(Debug)]
pub(crate) struct ReservedMemory {
    of: Arc<BodyMemory>,
    body: Mutex<BodyInMemory>,
}

#[derive(Debug)]
struct BodyInMemory {
    sender: BodySender,
    bytes: usize,
}

impl ReservedMemory {
    fn body(&self) -> MutexGuard<'_, BodyInMemory> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves more memory.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), BodyMemoryExhausted> {
        let mut body = self.body();
        let grown = body.bytes.saturating_add(bytes);
        let more = counted(grown) - counted(body.bytes);
        if more > 0 {
            self.of.used().reserve(&body.sender, more, self.of.limit)?;
        }
        body.bytes = grown;
        Ok(())
    }

    fn count_for(&self, sender: BodySender) {
        let mut body = self.body();
        let bytes = counted(body.bytes);
        let mut used = self.of.used();
        used.remove(&body.sender, bytes);
        used.add(&sender, bytes);
        body.sender = sender;
    }
}

/// The part of a body of this size that counts.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(SMALL)
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.of.used().remove(&body.sender, counted(body.bytes));
    }
}

/// The share of memory that the body of a request uses. It is an extension of each request with a body.
#[derive(Debug, Clone)]
pub struct BodyShare(Arc<ReservedMemory>);

impl BodyShare {
    pub(crate) fn new(memory: Arc<ReservedMemory>) -> Self {
        Self(memory)
    }

    /// The body counts for the account with this id, and no longer for the address of the client.
    pub fn count_for_account(&self, id: &str) {
        self.0.count_for(BodySender::Account(id.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that many clients have.
    fn shared() -> ClientAddress {
        ClientAddress::default()
    }

    fn address(last: u8) -> ClientAddress {
        Some([192, 0, 2, last].into()).into()
    }

    #[test]
    fn all_bodies_together_have_a_limit_and_a_finished_one_gives_its_memory_back() {
        let memory = BodyMemory::new(100);
        let (first, second) = (memory.reserved(shared()), memory.reserved(shared()));
        assert_eq!(first.grow(SMALL - 40), Ok(()));
        assert_eq!(first.grow(100), Ok(()));
        assert_eq!(second.grow(SMALL), Ok(()), "a small body has memory");
        assert_eq!(second.grow(41), Err(BodyMemoryExhausted::Listener));
        assert_eq!(second.grow(40), Ok(()));
        let third = memory.reserved(shared());
        assert_eq!(third.grow(SMALL), Ok(()));
        drop(first);
        assert_eq!(second.grow(60), Ok(()));
        drop((second, third));
        assert_eq!(memory.used().total, 0);
        assert!(memory.used().by_sender.is_empty());
    }

    #[test]
    fn a_sender_has_half_of_the_memory_that_others_leave() {
        let memory = BodyMemory::new(800);
        let mut bodies = Vec::new();
        let mut grow = |client, account: Option<&str>, bytes| {
            let body = Arc::new(memory.reserved(client));
            if let Some(account) = account {
                BodyShare::new(Arc::clone(&body)).count_for_account(account);
            }
            let grown = body.grow(SMALL + bytes);
            bodies.push(body);
            grown
        };
        let exhausted = Err(BodyMemoryExhausted::Share);
        // The bodies of an account count together, whatever its addresses are.
        assert_eq!(grow(address(1), Some("alice"), 300), Ok(()));
        assert_eq!(grow(shared(), Some("alice"), 101), exhausted);
        assert_eq!(grow(shared(), Some("alice"), 100), Ok(()));
        // Other accounts at these addresses have shares of their own.
        assert_eq!(grow(address(1), Some("bob"), 201), exhausted);
        assert_eq!(grow(address(1), Some("bob"), 200), Ok(()));
        // Without an account, the address counts.
        assert_eq!(grow(address(1), None, 101), exhausted);
        assert_eq!(grow(address(1), None, 100), Ok(()));
        assert_eq!(grow(address(1), None, 1), exhausted);
        assert_eq!(grow(address(2), None, 50), Ok(()));
        assert_eq!(grow(shared(), None, 51), Err(BodyMemoryExhausted::Listener));
        assert_eq!(grow(shared(), None, 50), Ok(()));
        drop(bodies);
        assert_eq!(memory.used().total, 0);
    }

    #[test]
    fn what_a_body_uses_moves_with_it_to_the_account() {
        let memory = BodyMemory::new(400);
        let body = Arc::new(memory.reserved(address(1)));
        assert_eq!(body.grow(SMALL + 200), Ok(()));
        BodyShare::new(Arc::clone(&body)).count_for_account("alice");
        assert_eq!(body.grow(1), Err(BodyMemoryExhausted::Share));
        assert_eq!(memory.reserved(address(1)).grow(SMALL + 100), Ok(()));
        assert_eq!(memory.used().total, 200);
    }
}
