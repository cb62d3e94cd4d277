//! Lists that are nearly always short, which then need no memory of their own.

use std::ops::{Index, IndexMut};

/// So many values; beyond the first `N` they are on the heap.
#[derive(Debug, Clone)]
pub(crate) struct SmallVec<T, const N: usize> {
    few: [T; N],
    many: Vec<T>,
}

impl<T: Copy + Default, const N: usize> SmallVec<T, N> {
    /// Each one the default.
    pub(crate) fn new(len: usize) -> Self {
        Self {
            few: [T::default(); N],
            many: vec![T::default(); len.saturating_sub(N)],
        }
    }
}

impl<T, const N: usize> Index<usize> for SmallVec<T, N> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        match at.checked_sub(N) {
            None => &self.few[at],
            Some(beyond) => &self.many[beyond],
        }
    }
}

impl<T, const N: usize> IndexMut<usize> for SmallVec<T, N> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        match at.checked_sub(N) {
            None => &mut self.few[at],
            Some(beyond) => &mut self.many[beyond],
        }
    }
}

/// A set of places of a list.
#[derive(Debug, Clone)]
pub(crate) struct IndexSet(SmallVec<u64, 2>);

impl IndexSet {
    /// None of a list of so many.
    pub(crate) fn none(len: usize) -> Self {
        Self(SmallVec::new(len.div_ceil(64)))
    }

    pub(crate) fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    pub(crate) fn contains(&self, place: usize) -> bool {
        self.0[place / 64] & 1 << (place % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_at_a_place_is_there_and_nowhere_else() {
        let mut list = SmallVec::<i64, 2>::new(4);
        for at in 0..4 {
            list[at] = 10 + i64::try_from(at).unwrap_or_default();
        }
        assert_eq!(
            (0..4).map(|at| list[at]).collect::<Vec<_>>(),
            [10, 11, 12, 13]
        );
        let mut places = IndexSet::none(200);
        for at in [0, 63, 64, 128, 199] {
            places.insert(at);
        }
        let all: Vec<_> = (0..200).filter(|at| places.contains(*at)).collect();
        assert_eq!(all, [0, 63, 64, 128, 199]);
    }
}
