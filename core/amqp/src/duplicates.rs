//! [`RecentUniqueIds`]: recognises a request that arrives again.

use std::collections::{HashSet, VecDeque};

/// The last unique IDs of a number of requests. RabbitMQ delivers a request again if its acknowledgement did not arrive, and a sender
/// publishes again if a confirmation did not; both repeat the request's unique ID.
///
/// It serves a process from its start. What has to be recognised after a restart belongs into a journal.
#[derive(Debug)]
pub struct RecentUniqueIds {
    capacity: usize,
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl RecentUniqueIds {
    /// Remembers the last `capacity` IDs.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            order: VecDeque::new(),
            known: HashSet::new(),
        }
    }

    /// Remembers the ID. Returns whether it is new.
    pub fn insert(&mut self, unique_id: &str) -> bool {
        if self.known.contains(unique_id) {
            return false;
        }
        while self.order.len() >= self.capacity {
            let Some(oldest) = self.order.pop_front() else {
                return true;
            };
            self.known.remove(&oldest);
        }
        self.order.push_back(unique_id.to_owned());
        self.known.insert(unique_id.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ids_are_recognised_and_older_ones_are_forgotten() {
        let mut recent = RecentUniqueIds::new(2);
        assert!(recent.insert("a") && recent.insert("b"));
        assert!(!recent.insert("a") && !recent.insert("b"));
        assert!(recent.insert("c"));
        assert!(!recent.insert("b") && recent.insert("a"));
        assert_eq!((recent.order.len(), recent.known.len()), (2, 2));
        assert!(RecentUniqueIds::new(0).insert("a"));
    }
}
