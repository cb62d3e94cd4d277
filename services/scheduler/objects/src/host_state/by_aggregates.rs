//! A cache of values computed from aggregates, shared by hosts with the same aggregates.

use super::Aggregates;

/// The size of the cache; clouds have few different sets of aggregates.
const KEPT: usize = 64;

/// The cache. Keys are compared by identity, not content. Evicted values are computed again.
#[derive(Debug)]
pub struct ByAggregates<T>(Vec<Option<(Aggregates, T)>>);

impl<T> Default for ByAggregates<T> {
    fn default() -> Self {
        Self((0..KEPT).map(|_| None).collect())
    }
}

impl<T> ByAggregates<T> {
    /// The cached value, computed on first use.
    pub fn get(&mut self, of: &Aggregates, make: impl FnOnce(&Aggregates) -> T) -> &T {
        let slot = &mut self.0[place(of)];
        let kept = slot.take().filter(|(it, _)| it.is(of));
        let kept = kept.unwrap_or_else(|| (of.clone(), make(of)));
        &slot.insert(kept).1
    }
}

fn place(of: &Aggregates) -> usize {
    // Values lie some bytes apart, and then evenly.
    let address = of.address() >> 4;
    (address ^ (address >> 6) ^ (address >> 12)) % KEPT
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host_state::Aggregate;

    #[test]
    fn each_value_has_its_own_however_many_there_are() {
        let many = 3 * KEPT;
        let named = |name: String| {
            let aggregate = Aggregate {
                name,
                ..Aggregate::default()
            };
            Aggregates::new(vec![Arc::new(aggregate)])
        };
        let all: Vec<Aggregates> = (0..many).map(|at| named(at.to_string())).collect();
        let mut made = ByAggregates::default();
        let name = |of: &Aggregates| of.iter().map(|it| it.name.clone()).collect::<String>();
        for _ in 0..2 {
            for (at, one) in all.iter().enumerate() {
                assert_eq!(*made.get(one, name), at.to_string());
                assert_eq!(
                    *made.get(&one.clone(), |_| "again".to_owned()),
                    at.to_string()
                );
            }
        }
    }
}
