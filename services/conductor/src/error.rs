//! [`ConductorError`]: why an operation of the conductor was refused or failed.

use berth_hosts::RecordError;
use berth_model::{ConsumerUuid, GuestMachineError};

use crate::filter_scheduler::RequestSpecError;
use crate::journal::JournalError;
use crate::plugins::{ExtraSpecsError, HintError};

/// Error of an operation of the [`Conductor`](crate::Conductor).
#[derive(Debug, thiserror::Error)]
pub enum ConductorError {
    /// The journal has no such guest.
    #[error("guest {uuid} not found")]
    NotFound { uuid: ConsumerUuid },
    /// Another request has this UUID.
    #[error("guest {uuid} already exists with a different request; delete it first")]
    Conflict { uuid: ConsumerUuid },
    /// The guest is being deleted.
    #[error("guest {uuid} is being deleted; retry when it is gone")]
    Deleting { uuid: ConsumerUuid },
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A plugin refuses an extra spec of the flavor.
    #[error(transparent)]
    ExtraSpecs(#[from] ExtraSpecsError),
    /// No host can build the guest.
    #[error(transparent)]
    Machine(#[from] GuestMachineError),
    #[error("there is no device profile {name}; berth accelerator profile list shows all")]
    NoProfile { name: String },
    #[error("there is no availability zone {zone}; there is {}", zones.join(", "))]
    NoZone {
        zone: String,
        /// All zones, sorted.
        zones: Vec<String>,
    },
    /// Another guest has the name.
    #[error("a guest named {name} exists already: {uuid}")]
    NameTaken { name: String, uuid: ConsumerUuid },
    /// An unknown scheduler hint.
    #[error(transparent)]
    Hint(#[from] HintError),
    /// Flavor and image are invalid for scheduling.
    #[error(transparent)]
    Spec(#[from] RequestSpecError),
    #[error("failed to read the scheduling records: {0}")]
    Scheduling(#[from] RecordError),
}
