//! Validation errors of a guest specification.

use crate::CpuSet;

/// An invalid part of a [`GuestSpec`](super::GuestSpec). Names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestSpecError {
    /// A text that does not fit.
    #[error("{field} is {found:?}: {expected}")]
    Text {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The text, at most 80 characters.
        found: String,
        /// What is valid, as text.
        expected: &'static str,
    },
    /// A number that does not fit.
    #[error("{field} is {found}: {expected}")]
    Number {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The number that is out of range.
        found: u64,
        /// What is valid, as text.
        expected: &'static str,
    },
    /// Something is there twice.
    #[error("{field}: {what} is there twice")]
    Twice {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The value that occurs twice, as text.
        what: String,
    },
    /// Virtual CPUs are left out.
    #[error("{field} leaves out the virtual CPUs {missing}")]
    LeavesOut {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The CPUs that are missing.
        missing: CpuSet,
    },
    /// A placement names virtual CPUs that the guest does not have.
    #[error("{field} names the virtual CPUs {unknown}, which the guest does not have")]
    NotThere {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The virtual CPUs that the guest does not have.
        unknown: CpuSet,
    },
    /// CPUs that must be exclusive are in two places.
    #[error("{field} has the CPUs {shared} in two places")]
    Overlap {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The CPUs in both.
        shared: CpuSet,
    },
    /// The parts do not add up to the whole.
    #[error("{field} come to {found} in all, the guest has {whole}")]
    Sum {
        /// The field of the specification, for example `topology.pinning`.
        field: &'static str,
        /// The sum of the parts.
        found: u64,
        /// The sum that the parts should have.
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
