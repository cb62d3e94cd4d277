//! Host aggregates: groups of hosts with metadata set by an operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::numbers::{float, int_or_nearest, strip};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregate {
    /// The UUID in Placement; `None` if only the metadata matter.
    pub uuid: Option<String>,
    pub name: String,
    /// The metadata that filters and weighers use.
    pub metadata: BTreeMap<String, String>,
}

/// The aggregates of one host. Hosts with the same aggregates share one value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregates(Arc<[Arc<Aggregate>]>);

impl Aggregates {
    #[must_use]
    pub fn new(aggregates: Vec<Arc<Aggregate>>) -> Self {
        Self(aggregates.into())
    }

    /// Whether both are the same shared value; equal values may be different ones.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Aggregate> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The raw values of a key in all aggregates that have it.
    pub fn raw<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter_map(move |one| one.metadata.get(key).map(String::as_str))
    }

    /// Whether one of them has a key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.raw(key).next().is_some()
    }

    /// The values of a key, each parted at its commas, without blanks around.
    pub fn split<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.raw(key).flat_map(parts)
    }

    /// The minimum of a key's values, which overrides an option. `None` if no aggregate has the key or a value is not a
    /// whole number; then the option applies.
    #[must_use]
    pub fn least_int(&self, key: &str) -> Option<i64> {
        self.least(key, int_or_nearest, i64::min)
    }

    /// Like [`Aggregates::least_int`] for floats. `nan` only counts if all values are `nan`.
    #[must_use]
    pub fn least_float(&self, key: &str) -> Option<f64> {
        self.least(key, float, f64::min)
    }

    fn least<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        less: impl Fn(T, T) -> T,
    ) -> Option<T> {
        let mut least = None;
        for value in self.iter().filter_map(|one| one.metadata.get(key)) {
            let value = read(value)?;
            least = Some(match least {
                Some(other) => less(other, value),
                None => value,
            });
        }
        least
    }
}

/// The parts of a value, without blanks around.
pub fn parts(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(strip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[&str]) -> Aggregates {
        let aggregate = |value: &&str| {
            let metadata = [("key".to_owned(), (*value).to_owned())];
            Arc::new(Aggregate {
                metadata: metadata.into(),
                ..Aggregate::default()
            })
        };
        Aggregates::new(values.iter().map(aggregate).collect())
    }

    #[test]
    fn the_least_value_overrides_unless_one_is_none() {
        for (values, int, float) in [
            (&[][..], None, None),
            (&["7"], Some(7), Some(7.0)),
            (&[" 7 ", "1_0"], Some(7), Some(7.0)),
            (&["7", "-1"], Some(-1), Some(-1.0)),
            (&["7", "1.5"], None, Some(1.5)),
            (&["7", "x"], None, None),
            (&["7,8"], None, None),
            (&["99999999999999999999", "8"], Some(8), Some(8.0)),
            (&["nan", "2"], None, Some(2.0)),
        ] {
            let aggregates = with(values);
            assert_eq!(aggregates.least_int("key"), int, "{values:?}");
            assert_eq!(aggregates.least_float("key"), float, "{values:?}");
            assert_eq!(aggregates.least_int("other"), None);
        }
        assert!(with(&["nan"]).least_float("key").is_some_and(f64::is_nan));
    }

    #[test]
    fn a_value_is_parted_at_its_commas() {
        let aggregates = with(&["a, b", "c"]);
        assert_eq!(aggregates.split("key").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(aggregates.raw("key").collect::<Vec<_>>(), ["a, b", "c"]);
    }
}
