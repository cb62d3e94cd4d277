//! The list of doctor checks, in the order they run and are printed.

mod devices;
mod helpers;
mod hypervisor;
mod node;
mod placement;
mod service;

use super::finding::DoctorCheck;

/// All checks. A check comes after its dependencies.
#[must_use]
pub fn all() -> Vec<DoctorCheck> {
    [
        node::CHECKS,
        service::CHECKS,
        hypervisor::CHECKS,
        devices::CHECKS,
        placement::CHECKS,
    ]
    .concat()
}
