//! A set of host CPUs, in the syntax of Nova's `cpu_shared_set` and `cpu_dedicated_set`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The largest allowed CPU number: larger than on any machine, and small enough that a typing error
/// does not exhaust memory.
const MAX_CPU: u32 = 65_535;

/// A text that is no CPU set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part:?} is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are"
)]
pub struct CpuSetError {
    part: String,
}

/// Host CPUs by number. Reads and shows Nova's grammar: `0-3,^2,8`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// The CPUs 0 to `count - 1`.
    #[must_use]
    pub fn first(count: u32) -> Self {
        Self((0..count).collect())
    }

    /// The CPU numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the CPU is one of them.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs that are in both.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs that are not in the other set.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut taken = BTreeSet::new();
        let mut excluded = BTreeSet::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let refuse = || CpuSetError {
                part: part.chars().take(80).collect(),
            };
            let number = |digits: &str| {
                let digits = digits.trim();
                let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                let cpu = digits.parse().ok().filter(|cpu| plain && *cpu <= MAX_CPU);
                cpu.ok_or_else(refuse)
            };
            if let Some(digits) = part.strip_prefix('^') {
                excluded.insert(number(digits)?);
            } else if let Some((from, to)) = part.split_once('-') {
                let (from, to): (u32, u32) = (number(from)?, number(to)?);
                if from > to {
                    return Err(refuse());
                }
                taken.extend(from..=to);
            } else {
                taken.insert(number(part)?);
            }
        }
        Ok(Self(taken.difference(&excluded).copied().collect()))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut first = true;
        while let Some(from) = cpus.next() {
            let mut to = from;
            while cpus.next_if_eq(&(to + 1)).is_some() {
                to += 1;
            }
            let comma = if first { "" } else { "," };
            first = false;
            if from == to {
                write!(f, "{comma}{from}")?;
            } else {
                write!(f, "{comma}{from}-{to}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_grammar_is_novas() {
        for (text, shown) in [
            ("0-3,^2,8", "0-1,3,8"),
            (" 1 , 2,3 ", "1-3"),
            ("", ""),
            ("4-4", "4"),
            ("^1,0-2", "0,2"),
        ] {
            assert_eq!(
                text.parse::<CpuSet>().unwrap().to_string(),
                shown,
                "{text:?}"
            );
        }
        for bad in ["a", "3-1", "1-", "-1", "^", "1-2-3", "70000", "0x1", "+1"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic_and_what_is_shown_reads_back(text in "[0-9,^ a-]{0,20}") {
            if let Ok(set) = text.parse::<CpuSet>() {
                prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
            }
        }
    }
}
