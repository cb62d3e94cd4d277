//! What a weigher's weights count.

use super::range::Range;
use crate::host_state::Aggregates;
use crate::numbers;
use crate::options::SchedulerOptions;

/// An option, which the aggregates of a host may override by a key of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Multiplier {
    key: &'static str,
    configured: MultiplierSource,
    sign: f64,
}

/// The multiplier without an aggregate's override.
#[derive(Debug, Clone, Copy)]
enum MultiplierSource {
    Option(fn(&SchedulerOptions) -> f64),
    Fixed(f64),
}

impl Multiplier {
    /// The key of aggregates, and the option.
    #[must_use]
    pub fn new(key: &'static str, configured: fn(&SchedulerOptions) -> f64) -> Self {
        Self {
            key,
            configured: MultiplierSource::Option(configured),
            sign: 1.0,
        }
    }

    /// The key of aggregates, and what holds where none of them has it: of a weigher that has no option among [`SchedulerOptions`].
    #[must_use]
    pub fn fixed(key: &'static str, multiplier: f64) -> Self {
        Self {
            key,
            configured: MultiplierSource::Fixed(multiplier),
            sign: 1.0,
        }
    }

    /// For a weigher whose weights count against a host.
    #[must_use]
    pub fn against(self) -> Self {
        Self { sign: -1.0, ..self }
    }

    /// The key by which aggregates override it.
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The multiplier without an aggregate's override.
    pub fn configured(&self, options: &SchedulerOptions) -> f64 {
        let configured = match self.configured {
            MultiplierSource::Option(option) => option(options),
            MultiplierSource::Fixed(multiplier) => multiplier,
        };
        self.sign * configured
    }
}

/// The multipliers that a host's aggregates override, by the index of the weigher.
///
/// The minimum over all aggregates counts. If one of the values is invalid or the minimum is not finite, the option's
/// value is used.
pub(super) fn overridden(
    multipliers: &[Multiplier],
    aggregates: &Aggregates,
    range: Range,
) -> Vec<(usize, f64)> {
    let mut found: Vec<(usize, Option<f64>)> = Vec::new();
    let values = aggregates.iter().flat_map(|one| &one.metadata);
    for (key, value) in values.filter(|(key, _)| key.ends_with("_weight_multiplier")) {
        for (place, one) in multipliers.iter().enumerate() {
            if one.key != key.as_str() {
                continue;
            }
            let value = numbers::float(value);
            let value = value.filter(|it| range == Range::AsNova || !it.is_nan());
            match found.iter_mut().find(|(of, _)| *of == place) {
                Some((_, least)) => *least = least.zip(value).map(|(a, b)| a.min(b)),
                None => found.push((place, value)),
            }
        }
    }
    let signed = |(place, value): (usize, Option<f64>)| {
        let one: &Multiplier = multipliers.get(place)?;
        let value = range.multiplier(value?)?;
        Some((place, one.sign * range.keep(value)))
    };
    found.into_iter().filter_map(signed).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host_state::Aggregate;
    use crate::weighers::LARGEST;

    #[test]
    fn the_least_of_the_aggregates_values_overrides_unless_one_is_no_number() {
        let multipliers = [
            Multiplier::new("ram_weight_multiplier", |_| 7.0),
            Multiplier::new("build_failure_weight_multiplier", |_| 7.0).against(),
        ];
        for (values, expected) in [
            (&[][..], None),
            (&["2"], Some(2.0)),
            (&[" 3 ", "-1.5"], Some(-1.5)),
            (&["1e3", "inf"], Some(1000.0)),
            (&["1", "x"], None),
            (&["x", "1"], None),
            (&["1", "x", "0"], None),
            (&[""], None),
            (&["1,2"], None),
            (&["nan", "4"], None),
            (&["nan"], None),
            (&["inf"], None),
            (&["inf", "inf"], None),
            (&["1", "-inf"], None),
            (&["1e200"], Some(LARGEST)),
        ] {
            for (place, one) in multipliers.iter().enumerate() {
                let aggregate = |value: &&str| {
                    let metadata = [(one.key.to_owned(), (*value).to_owned())];
                    Arc::new(Aggregate {
                        metadata: metadata.into(),
                        ..Aggregate::default()
                    })
                };
                let aggregates = Aggregates::new(values.iter().map(aggregate).collect());
                let expected: Vec<_> = expected
                    .map(|it| (place, one.sign * it))
                    .into_iter()
                    .collect();
                assert_eq!(
                    overridden(&multipliers, &aggregates, Range::Bounded),
                    expected,
                    "{values:?}"
                );
            }
        }
    }
}
