//! Which numbers raw weights and multipliers may be, so that every weight is a number.

/// The largest absolute raw weight and multiplier; larger values count as it. The product of two of them is finite, and
/// so is the sum of such products over all weighers.
pub const LARGEST: f64 = 1e100;

/// How NaN, infinite and too large numbers are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// They are within [`LARGEST`].
    Bounded,
    /// They are kept, as in Nova; weights may be infinite or NaN.
    AsNova,
}

impl Range {
    /// A number within the range; NaN counts as 0.
    pub(super) fn keep(self, number: f64) -> f64 {
        match self {
            Self::Bounded => bounded(number),
            Self::AsNova => number,
        }
    }

    /// An aggregate's multiplier; `None` if it counts as invalid.
    pub(super) fn multiplier(self, value: f64) -> Option<f64> {
        (self == Self::AsNova || value.is_finite()).then_some(value)
    }
}

/// A number within [`LARGEST`]; NaN counts as 0.
pub(super) fn bounded(number: f64) -> f64 {
    match number.is_nan() {
        true => 0.0,
        false => number.clamp(-LARGEST, LARGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_range_counts_as_its_end_and_no_number_as_0() {
        for (number, expected) in [
            (0.5, 0.5),
            (-3.0, -3.0),
            (f64::MAX, LARGEST),
            (f64::NEG_INFINITY, -LARGEST),
            (f64::NAN, 0.0),
        ] {
            assert_eq!(Range::Bounded.keep(number), expected, "{number}");
        }
        assert_eq!(Range::AsNova.keep(f64::INFINITY), f64::INFINITY);
        assert_eq!(Range::Bounded.multiplier(f64::INFINITY), None);
        assert_eq!(Range::Bounded.multiplier(7.0), Some(7.0));
    }
}
