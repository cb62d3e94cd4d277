//! The devices of this host that instances can get: reported to the accelerator service, reset between two instances,
//! quarantined, programmed and checked.
//!
//! Each observation gets an overlay from [`DeviceConditions`]: devices in quarantine, and those that the accelerator service has
//! disabled, are reserved in Placement. Concurrently, [`Devices::run`] reports the host's devices to the accelerator service when they
//! change, when an operator changes something there, and periodically, and resets each device whose handle was given back.
//!
//! | module | what it does |
//! |---|---|
//! | [`report`] | from the observed devices to the report, and from its answer to what is to be done: pure |
//! | `overlay` | writes what is known of devices into a view: pure |
//! | `devices` | the state that the other modules share |
//! | `facts` | what the comparison of instances needs to know |
//! | `status` | the status of each device, for the admin API |
//! | `reporter` | sends the report, and retries it |
//! | `takeover` | what devices keep of Cyborg's providers |
//! | `change_watch` | waits for an operator's changes at the accelerator service |
//! | `reset` | resets devices |
//! | `programming` | programs devices before a bind is whole |
//! | `health_check` | runs the vendor's check of each device |
//! | `actions` | what an operator asks for |

mod actions;
mod change_watch;
mod devices;
mod facts;
mod health_check;
mod overlay;
mod programming;
pub mod report;
mod reporter;
mod reset;
mod status;
mod takeover;
#[cfg(any(test, feature = "testing"))]
pub mod test_card;

pub use actions::{ActError, ActionReport, DryRun, Risk};
pub use devices::{
    DeviceConditions, DeviceOptions, Devices, DevicesParts, MissingProviders, ObservationId,
};
pub use facts::DeviceFacts;
pub use health_check::HealthCheck;
pub use overlay::overlay_all;
pub use reporter::TellError;
pub use reset::{ResetError, must_quarantine};
pub use status::DeviceStatus;
