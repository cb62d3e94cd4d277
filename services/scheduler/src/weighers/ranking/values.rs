//! One number for each host of a list.

/// A number for each host; stored once if all are equal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum HostValues {
    Same(f64),
    Each(Vec<f64>),
}

impl HostValues {
    /// To be put in.
    pub(super) fn zeros(hosts: usize) -> Self {
        Self::Each(vec![0.0; hosts])
    }

    /// The value of the host at an index within the list.
    pub(super) fn at(&self, place: usize) -> f64 {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[place],
        }
    }

    /// Each number, or that of all.
    pub(super) fn as_slice(&self) -> &[f64] {
        match self {
            Self::Same(value) => std::slice::from_ref(value),
            Self::Each(values) => values,
        }
    }

    /// Whether two hosts have different values; NaN differs from everything.
    pub(super) fn differ(&self) -> bool {
        match self {
            Self::Same(value) => value.is_nan(),
            Self::Each(values) => values.windows(2).any(|two| two[0] != two[1]),
        }
    }

    /// Sets the value of one host of a list of this length.
    pub(super) fn put(&mut self, place: usize, value: f64, hosts: usize) {
        match self {
            Self::Same(same) if same.to_bits() == value.to_bits() => {}
            Self::Same(same) => {
                let mut values = vec![*same; hosts];
                values[place] = value;
                *self = Self::Each(values);
            }
            Self::Each(values) => values[place] = value,
        }
    }

    /// Forgets the hosts that are not kept; the others move up.
    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        if let Self::Each(values) = self {
            let mut place = 0..;
            values.retain(|_| place.next().is_some_and(&is_kept));
        }
    }
}
