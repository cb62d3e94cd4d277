//! Manages the devices of this host that instances can get: reports them to the accelerator service, and resets,
//! quarantines, programs and checks them.
//!
//! ```text
//!              observe                 report                      answer (advice)
//! driver --------------> overlay -----------------> accelerator service ---------> reset released devices
//!                           ^                                                      disable, restore providers
//!                           |                                                              |
//!                           +-------------- register (persistent) <------------------------+
//! ```
//!
//! [`DeviceConditions::overlay`] adds conditions to each observation: devices in quarantine, and those that the accelerator service
//! has disabled, become reserved in Placement. [`DeviceManager::run_reporter`] sends a report when the devices change, when an
//! operator changes something at the service, and periodically.
//!
//! | module | what it does |
//! |---|---|
//! | `devices` | [`DeviceManager`]: the state that the other modules share |
//! | [`report`] | from the observed devices to the report, and from the answer to its advice; pure |
//! | `reporter` | sends reports, applies the answers, starts resets |
//! | `reset` | resets devices between two instances |
//! | `overlay` | adds known conditions to a view; pure |
//! | `facts` | the devices' state for the reconciler |
//! | `status` | the status of each device, for the admin API |
//! | `actions` | reset, quarantine and release by an operator |
//! | `change_watch` | polls the accelerator service for changes |
//! | `fabric` | activates and deactivates partitions of the NVSwitch fabric |
//! | `programming` | programs devices while a bind waits for it |
//! | `health_check` | runs the vendor's check of each device |
//! | `cyborg_providers` | preserves resource classes that Cyborg chose |

mod actions;
mod change_watch;
mod cyborg_providers;
mod devices;
mod fabric;
mod facts;
mod health_check;
mod overlay;
mod programming;
pub mod report;
mod reporter;
mod reset;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod test_card;

pub use actions::{ActError, ActionMode, ActionReport, Risk};
pub use devices::{
    DeviceConditions, DeviceManager, DeviceManagerParts, DeviceOptions, MissingProviders,
    ObservationId,
};
pub use fabric::{Fabric, FabricError};
pub use facts::DeviceSnapshot;
pub use health_check::HealthCheck;
pub use overlay::overlay_all;
pub use reporter::DeviceReportError;
pub use reset::{DeviceResetError, must_quarantine};
pub use status::DeviceStatus;
