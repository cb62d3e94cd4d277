//! Sets of CPU numbers.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of CPU numbers of a host or guest, as a bit set for speed. Numbers have 16 bits, so that input cannot request
/// much memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuBitSet(CpuBits);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CpuBits {
    /// CPUs below 192, inline, which suffices for most cells.
    Few([u64; 3]),
    /// More CPUs; the last element is not 0, so that equal sets compare equal.
    Many(Vec<u64>),
}

impl Default for CpuBits {
    fn default() -> Self {
        Self::Few([0; 3])
    }
}

impl CpuBitSet {
    /// The CPUs from 0 to `count` - 1.
    #[must_use]
    pub fn first(count: u16) -> Self {
        (0..count).collect()
    }

    pub fn insert(&mut self, cpu: u16) {
        let (word, bit) = place(cpu);
        if let CpuBits::Few(few) = &self.0
            && word >= few.len()
        {
            self.0 = CpuBits::Many(few.to_vec());
        }
        match &mut self.0 {
            CpuBits::Few(few) => few[word] |= bit,
            CpuBits::Many(many) => {
                if word >= many.len() {
                    many.resize(word + 1, 0);
                }
                many[word] |= bit;
            }
        }
    }

    #[must_use]
    pub fn contains(&self, cpu: u16) -> bool {
        let (word, bit) = place(cpu);
        self.word(word) & bit != 0
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.words().iter().map(|word| ones(*word)).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    /// All, from the least on.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        numbers(self.words().iter().copied())
    }

    /// The size of the difference.
    #[must_use]
    pub fn len_without(&self, other: &Self) -> usize {
        let words = self.words().iter().enumerate();
        words.map(|(at, word)| ones(word & !other.word(at))).sum()
    }

    /// The size of the intersection with `other` without `third`.
    #[must_use]
    pub fn len_common_without(&self, other: &Self, third: &Self) -> usize {
        let words = self.words().iter().enumerate();
        words
            .map(|(at, word)| ones(word & other.word(at) & !third.word(at)))
            .sum()
    }

    /// The intersection with `other` without `third`, ascending.
    pub fn common_without<'a>(
        &'a self,
        other: &'a Self,
        third: &'a Self,
    ) -> impl Iterator<Item = u16> + 'a {
        let words = self.words().iter().enumerate();
        numbers(words.map(|(at, word)| word & other.word(at) & !third.word(at)))
    }

    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|cpu| !other.contains(*cpu)).collect()
    }

    /// Whether one is in both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let mut words = self.words().iter().zip(other.words());
        words.any(|(one, two)| one & two != 0)
    }

    /// Whether it is a subset.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.len_without(other) == 0
    }

    fn words(&self) -> &[u64] {
        match &self.0 {
            CpuBits::Few(few) => few,
            CpuBits::Many(many) => many,
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.words().get(at).copied().unwrap_or(0)
    }
}

/// The index of the element and the bit of a CPU.
fn place(cpu: u16) -> (usize, u64) {
    (usize::from(cpu / 64), 1 << (cpu % 64))
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a word has 64 bits at most"
)]
const fn ones(word: u64) -> usize {
    word.count_ones() as usize
}

/// The numbers of the bits that are set.
fn numbers(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u16> {
    // Iterating over words first keeps the counter from overflowing 16 bits.
    words.zip(0_u16..).flat_map(|(mut word, at)| {
        std::iter::from_fn(move || {
            if word == 0 {
                return None;
            }
            let bit = word.trailing_zeros();
            word &= word - 1;
            Some((at * 64) | u16::try_from(bit).unwrap_or_default())
        })
    })
}

impl FromIterator<u16> for CpuBitSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        let mut set = Self::default();
        set.extend(cpus);
        set
    }
}

impl Extend<u16> for CpuBitSet {
    fn extend<I: IntoIterator<Item = u16>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl<const N: usize> From<[u16; N]> for CpuBitSet {
    fn from(cpus: [u16; N]) -> Self {
        cpus.into_iter().collect()
    }
}

/// A list of numbers.
impl Serialize for CpuBitSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

struct CpuListVisitor;

impl<'de> Visitor<'de> for CpuListVisitor {
    type Value = CpuBitSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of CPU numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CpuBitSet, A::Error> {
        let mut cpus = CpuBitSet::default();
        while let Some(cpu) = list.next_element::<u32>()? {
            cpus.insert(u16::try_from(cpu).map_err(|_| {
                let most = u16::MAX;
                A::Error::custom(format_args!(
                    "CPU {cpu} is out of range: the highest number is {most}"
                ))
            })?);
        }
        Ok(cpus)
    }
}

impl<'de> Deserialize<'de> for CpuBitSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(CpuListVisitor)
    }
}

/// As Nova writes them: `0-3,7`.
impl fmt::Display for CpuBitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_nothing_else() {
        let set = CpuBitSet::from([0, 1, 2, 3, 63, 64, 200]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 63, 64, 200]);
        assert_eq!((set.len(), set.is_empty()), (7, false));
        assert!(set.contains(200) && !set.contains(201) && !set.contains(u16::MAX));
        assert_eq!(set.to_string(), "0-3,63-64,200");
        assert_eq!(CpuBitSet::first(3), CpuBitSet::from([2, 1, 0]));
        assert_eq!(CpuBitSet::default().to_string(), "");
    }

    #[test]
    fn the_last_cpu_that_has_a_number_is_one_as_all_others() {
        let set = CpuBitSet::from([0, 65471, 65472, 65534, u16::MAX]);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [0, 65471, 65472, 65534, 65535]
        );
        assert_eq!(set.to_string(), "0,65471-65472,65534-65535");
        let last = CpuBitSet::from([u16::MAX]);
        assert_eq!(set.without(&last).len(), 4);
        assert_eq!(last.without(&last), CpuBitSet::default());
        let (none, all) = (CpuBitSet::default(), CpuBitSet::first(u16::MAX));
        assert_eq!(all.to_string(), "0-65534");
        assert!(set.common_without(&last, &none).eq([u16::MAX]));
    }

    #[test]
    fn sets_of_other_lengths_are_compared_as_sets() {
        let (short, long) = (CpuBitSet::from([1, 2]), CpuBitSet::from([2, 3, 100]));
        assert_eq!((short.len_without(&long), long.len_without(&short)), (1, 2));
        assert_eq!(
            long.without(&CpuBitSet::from([100])),
            CpuBitSet::from([2, 3])
        );
        assert!(short.meets(&long) && !short.is_within(&long));
        assert!(CpuBitSet::from([2]).is_within(&short) && CpuBitSet::default().is_within(&short));
        let none = CpuBitSet::default();
        assert_eq!(long.len_common_without(&short, &none), 1);
        assert_eq!(
            long.common_without(&long, &short).collect::<Vec<_>>(),
            [3, 100]
        );
    }
}
