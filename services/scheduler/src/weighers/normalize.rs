//! Raw weights, brought to one scale.

/// Ends of a scale that are not the list's own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    /// The lower bound; smaller values count as the bound.
    pub min: Option<f64>,
    /// The upper bound; larger values count as the bound.
    pub max: Option<f64>,
}

impl Bounds {
    /// Only a lower one.
    #[must_use]
    pub fn from(min: f64) -> Self {
        Self {
            min: Some(min),
            max: None,
        }
    }

    pub(super) fn clamp(&self, raw: f64) -> f64 {
        // Not f64::max: a raw weight that is no number stays one.
        let raw = match self.min {
            Some(min) if min > raw => min,
            _ => raw,
        };
        match self.max {
            Some(max) if max < raw => max,
            _ => raw,
        }
    }
}

/// A line on which one end is 0 and the other 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Both ends are one: all are 0.
    Flat,
    /// From, and how far.
    Line(f64, f64),
}

impl Scale {
    /// The range between the bounds; the minimum or maximum of the list replaces a missing bound.
    pub(super) fn new(raw: &[f64], bounds: Bounds) -> Self {
        let min = bounds.min.unwrap_or_else(|| least(raw));
        let max = bounds.max.unwrap_or_else(|| most(raw));
        if raw.is_empty() || min == max {
            return Self::Flat;
        }
        Self::Line(min, max - min)
    }

    pub(super) fn at(self, raw: f64) -> f64 {
        match self {
            Self::Flat => 0.0,
            Self::Line(from, length) => (raw - from) / length,
        }
    }
}

/// The least of the numbers among them.
fn least(raw: &[f64]) -> f64 {
    outmost(raw, f64::INFINITY, |one, least| one < least)
}

/// The most of the numbers among them.
fn most(raw: &[f64]) -> f64 {
    outmost(raw, f64::NEG_INFINITY, |one, most| one > most)
}

/// Several at once, since one comparison need not wait for another.
fn outmost(raw: &[f64], from: f64, is_further: impl Fn(f64, f64) -> bool) -> f64 {
    let further = |out: f64, one: f64| if is_further(one, out) { one } else { out };
    let mut lanes = [from; 8];
    let chunks = raw.chunks_exact(lanes.len());
    let rest = chunks.remainder().iter().copied();
    for chunk in chunks {
        for (lane, one) in lanes.iter_mut().zip(chunk) {
            *lane = further(*lane, *one);
        }
    }
    lanes.into_iter().chain(rest).fold(from, further)
}

/// As Nova does: 0 at the lower end, 1 at the upper one, all 0 where both are one. An end is the bound, or the list's own.
#[must_use]
pub fn normalize(raw: &[f64], bounds: Bounds) -> Vec<f64> {
    let scale = Scale::new(raw, bounds);
    raw.iter().map(|raw| scale.at(*raw)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// vCPUs that are available on ten hosts, in Red Hat's document of weights.
    const VCPUS: [f64; 10] = [5.0, 5.0, 10.0, 10.0, 15.0, 20.0, 20.0, 15.0, 10.0, 5.0];

    #[test]
    fn the_documents_table_holds_where_the_list_has_both_ends() {
        let third = 1.0 / 3.0;
        let expected = [
            0.0,
            0.0,
            third,
            third,
            2.0 * third,
            1.0,
            1.0,
            2.0 * third,
            third,
            0.0,
        ];
        for (got, expected) in normalize(&VCPUS, Bounds::default()).iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got} {expected}");
        }
    }

    #[test]
    fn nova_has_the_lower_end_at_0() {
        let expected = [0.25, 0.25, 0.5, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25];
        assert_eq!(normalize(&VCPUS, Bounds::from(0.0)), expected);
    }

    #[test]
    fn all_alike_are_0_unless_a_bound_is_apart() {
        assert_eq!(normalize(&[7.0, 7.0], Bounds::default()), [0.0, 0.0]);
        assert_eq!(normalize(&[7.0, 7.0], Bounds::from(0.0)), [1.0, 1.0]);
        assert_eq!(normalize(&[0.0, 0.0], Bounds::from(0.0)), [0.0, 0.0]);
        assert_eq!(normalize(&[], Bounds::default()), [] as [f64; 0]);
    }

    #[test]
    fn what_is_beyond_a_bound_counts_as_the_bound() {
        let bounds = Bounds {
            min: Some(0.0),
            max: Some(10.0),
        };
        let clamped = [-1.0, 0.0, 5.0, 10.0, 11.0].map(|raw| bounds.clamp(raw));
        assert_eq!(clamped, [0.0, 0.0, 5.0, 10.0, 10.0]);
    }

    proptest! {
        #[test]
        fn the_order_stays_and_all_are_between_0_and_1(raw in prop::collection::vec(-1e9..1e9f64, 0..20)) {
            let normalised = normalize(&raw, Bounds::default());
            for (a, x) in raw.iter().zip(&normalised) {
                prop_assert!((0.0..=1.0).contains(x));
                for (b, y) in raw.iter().zip(&normalised) {
                    prop_assert!(a > b || x <= y, "{a} {b} {x} {y}");
                }
            }
        }
    }
}
