//! Version predicates: `>=1.5.3, <2`, as PEP 440 compares versions.

use std::cmp::Ordering;

/// Comparisons with versions, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPredicate(Vec<(VersionOperator, ComparedVersion)>);

/// What is no predicate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text has no operator or no version, or more than these.
    #[error("`{0}` is no comparison with a version")]
    NoComparison(String),
    /// The version cannot be read.
    #[error("`{0}` is no version")]
    NoVersion(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionOperator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Longer ones first, because the others begin them.
const OPERATORS: [(&str, VersionOperator); 6] = [
    ("<=", VersionOperator::LessOrEqual),
    (">=", VersionOperator::GreaterOrEqual),
    ("!=", VersionOperator::NotEqual),
    ("==", VersionOperator::Equal),
    ("<", VersionOperator::Less),
    (">", VersionOperator::Greater),
];

/// A version that plain ones (`8.2.1`) are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ComparedVersion {
    epoch: u64,
    release: Vec<u64>,
    /// The order among versions of the same release: a candidate is less than the release, an update is greater.
    place: Ordering,
}

impl VersionPredicate {
    /// Reads comparisons with commas between them.
    pub fn new(text: &str) -> Result<Self, VersionError> {
        text.split(',')
            .map(comparison)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a plain version is as it should be. `[8, 2, 1]` is 8.2.1.
    #[must_use]
    pub fn holds_for(&self, version: &[u64]) -> bool {
        self.0.iter().all(|(operator, bound)| {
            let order = bound.cmp_plain(version);
            match operator {
                VersionOperator::Less => order.is_lt(),
                VersionOperator::LessOrEqual => order.is_le(),
                VersionOperator::Greater => order.is_gt(),
                VersionOperator::GreaterOrEqual => order.is_ge(),
                VersionOperator::Equal => order.is_eq(),
                VersionOperator::NotEqual => order.is_ne(),
            }
        })
    }
}

/// The parts of a hypervisor's version number: 8002001 is 8.2.1. `None` if it was not reported (0).
#[must_use]
pub fn parts(number: i64) -> Option<Vec<u64>> {
    let mut number = u64::try_from(number).ok().filter(|it| *it > 0)?;
    let mut parts = Vec::new();
    while number > 0 {
        parts.insert(0, number % 1000);
        number /= 1000;
    }
    Some(parts)
}

fn comparison(text: &str) -> Result<(VersionOperator, ComparedVersion), VersionError> {
    let none = || VersionError::NoComparison(text.trim().to_owned());
    let bare = text.trim();
    let (sign, operator) = OPERATORS
        .iter()
        .find(|(sign, _)| bare.starts_with(sign))
        .ok_or_else(none)?;
    let version = bare[sign.len()..].trim_start();
    if version.is_empty() || version.contains(char::is_whitespace) {
        return Err(none());
    }
    let bound = ComparedVersion::read(version)
        .ok_or_else(|| VersionError::NoVersion(version.to_owned()))?;
    Ok((*operator, bound))
}

impl ComparedVersion {
    fn read(version: &str) -> Option<Self> {
        let version = version.to_ascii_lowercase();
        let version = version.strip_prefix('v').unwrap_or(&version);
        let (version, local) = match version.split_once('+') {
            Some((version, local)) => (version, Some(local)),
            None => (version, None),
        };
        let (epoch, version) = match version.split_once('!') {
            Some((epoch, version)) => (number(epoch)?, version),
            None => (0, version),
        };
        let end = version.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (release, suffix) = version.split_at(end.unwrap_or(version.len()));
        // The point before a suffix is the suffix's.
        let (release, suffix) = match release.strip_suffix('.') {
            Some(bare) if !suffix.is_empty() => (bare, &version[bare.len()..]),
            _ => (release, suffix),
        };
        let release = release.split('.').map(number).collect::<Option<_>>()?;
        let suffix = Suffix::read(suffix)?;
        let place = match (suffix, local) {
            (Suffix::Before, _) => Ordering::Less,
            (Suffix::After, _) => Ordering::Greater,
            (Suffix::None, Some(_)) => Ordering::Greater,
            (Suffix::None, None) => Ordering::Equal,
        };
        let is_local = |it: &str| {
            let parts = |c: char| matches!(c, '.' | '-' | '_');
            let is_part = |part: &str| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
            };
            it.split(parts).all(is_part)
        };
        local.is_none_or(is_local).then_some(Self {
            epoch,
            release,
            place,
        })
    }

    /// Compares this version with a plain version.
    fn cmp_plain(&self, version: &[u64]) -> Ordering {
        let length = self.release.len().max(version.len());
        let at = |parts: &[u64], place: usize| parts.get(place).copied().unwrap_or(0);
        let release = (0..length).map(|it| at(version, it).cmp(&at(&self.release, it)));
        let by_release = release.fold(Ordering::Equal, Ordering::then);
        let by_epoch = 0.cmp(&self.epoch);
        by_epoch.then(by_release).then(self.place.reverse())
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The part after the release: `rc1`, `.post2`, `.dev3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    /// A candidate, or in the making.
    Before,
    /// An update of the release.
    After,
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        let (pre, rest) = tagged(
            text,
            &["alpha", "beta", "preview", "pre", "rc", "a", "b", "c"],
        );
        let (mut post, mut rest) = tagged(rest, &["post", "rev", "r"]);
        // `1.0-3` is `1.0.post3`.
        if let Some(bare) = rest.strip_prefix('-').filter(|_| !post) {
            let end = bare.find(|it: char| !it.is_ascii_digit());
            let end = end.unwrap_or(bare.len());
            if end > 0 {
                (post, rest) = (true, &bare[end..]);
            }
        }
        let (dev, rest) = tagged(rest, &["dev"]);
        let suffix = match (pre, post, dev) {
            (true, _, _) | (false, false, true) => Self::Before,
            (false, true, _) => Self::After,
            (false, false, false) => Self::None,
        };
        rest.is_empty().then_some(suffix)
    }
}

/// Whether the text starts with one of the words and its number; also returns the rest.
fn tagged<'a>(text: &'a str, words: &[&str]) -> (bool, &'a str) {
    let separator = |it: char| matches!(it, '.' | '-' | '_');
    let bare = text.strip_prefix(separator).unwrap_or(text);
    let Some(rest) = words.iter().find_map(|word| bare.strip_prefix(word)) else {
        return (false, text);
    };
    let after = rest.strip_prefix(separator).unwrap_or(rest);
    let digits = after.find(|it: char| !it.is_ascii_digit());
    match digits.unwrap_or(after.len()) {
        0 => (true, rest),
        end => (true, &after[end..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_part_by_part() {
        for (predicate, version, expected) in [
            (">=1.5.3, <2", "1.5.3", true),
            (">=1.5.3, <2", "2", false),
            (">= 6.2.0", "6.2", true),
            (" >10.3 ", "10.3.1", true),
            ("==2.0.0", "2", true),
            ("!=2.0.0", "2.0.1", true),
            ("<1.0", "0.999", true),
            (">=1.0rc1", "1.0", true),
            (">1.0rc1.post2", "1.0", true),
            ("<=1.0.dev3", "1.0", false),
            ("<1.0.post1", "1.0", true),
            ("<1.0-1", "1.0", true),
            ("<1.0+deb1", "1.0", true),
            (">=1!1.0", "9.0", false),
            ("==v2", "2", true),
        ] {
            let read = VersionPredicate::new(predicate).expect(predicate);
            let version: Vec<u64> = version.split('.').filter_map(number).collect();
            assert_eq!(
                read.holds_for(&version),
                expected,
                "{predicate} {version:?}"
            );
        }
    }

    #[test]
    fn what_is_no_predicate_is_refused() {
        for text in [
            "", "1.5.3", "junk", ">=", ">= 1 2", "=1", "~=1.0", ">=1,", ">=1.x", ">=.1", ">=1..2",
            ">=1.0+", ">=1.0foo", "> =1", ">=1.",
        ] {
            assert!(VersionPredicate::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_version_in_one_number_has_parts_of_three_digits() {
        assert_eq!(parts(8_002_001), Some(vec![8, 2, 1]));
        assert_eq!(parts(999), Some(vec![999]));
        assert_eq!(parts(0), None);
        assert_eq!(parts(-1), None);
    }
}
