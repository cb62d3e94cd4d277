//! Why a spec cannot be.

use crate::CpuSet;

/// A part of a [`GuestSpec`](super::GuestSpec) that cannot be. Says which field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestSpecError {
    /// A text that does not fit.
    #[error("{field} is {found:?}: {expected}")]
    Text {
        /// The field.
        field: &'static str,
        /// The text, at most 80 characters.
        found: String,
        /// What fits, in words.
        expected: &'static str,
    },
    /// A number that does not fit.
    #[error("{field} is {found}: {expected}")]
    Number {
        /// The field.
        field: &'static str,
        /// The number.
        found: u64,
        /// What fits, in words.
        expected: &'static str,
    },
    /// Something is there twice.
    #[error("{field}: {what} is there twice")]
    Twice {
        /// The field.
        field: &'static str,
        /// What.
        what: String,
    },
    /// Virtual CPUs are left out.
    #[error("{field} leaves out the virtual CPUs {missing}")]
    LeavesOut {
        /// The field.
        field: &'static str,
        /// Which.
        missing: CpuSet,
    },
    /// There are no such virtual CPUs.
    #[error("{field} names the virtual CPUs {unknown}, which the guest does not have")]
    NotThere {
        /// The field.
        field: &'static str,
        /// Which.
        unknown: CpuSet,
    },
    /// CPUs that only one may have are in two places.
    #[error("{field} has the CPUs {shared} in two places")]
    Overlap {
        /// The field.
        field: &'static str,
        /// Which.
        shared: CpuSet,
    },
    /// Parts do not make the whole.
    #[error("{field} come to {found} in all, the guest has {whole}")]
    Sum {
        /// The field.
        field: &'static str,
        /// What the parts come to.
        found: u64,
        /// The whole.
        whole: u64,
    },
}

impl GuestSpecError {
    /// The field that cannot be, by its name in the spec.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            GuestSpecError::Text { field, .. }
            | GuestSpecError::Number { field, .. }
            | GuestSpecError::Twice { field, .. }
            | GuestSpecError::LeavesOut { field, .. }
            | GuestSpecError::NotThere { field, .. }
            | GuestSpecError::Overlap { field, .. }
            | GuestSpecError::Sum { field, .. } => field,
        }
    }

    pub(super) fn text(field: &'static str, found: &str, expected: &'static str) -> Self {
        Self::Text {
            field,
            found: found.chars().take(80).collect(),
            expected,
        }
    }
}
