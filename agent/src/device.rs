//! The devices of this host that guests may have: what is known of them beside what the driver sees, told to the accelerator
//! service, cleaned between two guests, and in an operator's hands.
//!
//! Of each look the service's loop takes an overlay ([`DeviceConditions`]): devices in quarantine and those that the
//! accelerator service has disabled are reserved in Placement. Beside the loop, [`Devices::run`] tells the accelerator service
//! the host's devices when they changed, when an operator changed something there, and now and then, and does what the answer
//! asks for: a handle that was given back is reset, the reset verified, and only then told clean.
//!
//! | room | what it does |
//! |---|---|
//! | [`report`] | from what is seen to the report, and from its answer to what is to be done: pure |
//! | `condition` | what the view becomes: pure |
//! | `name` | what a device is called: pure |
//! | [`register`] | quarantines and cleanings, in the guests' journal |
//! | `devices` | what is shared by the rooms below; the overlay |
//! | `facts` | what the comparison of guests is to know |
//! | `telling` | the report, told and told again |
//! | `takeover` | what devices keep of Cyborg's providers |
//! | `listening` | the wait for what an operator changes at the service |
//! | `cleaning` | resets |
//! | `programming` | devices programmed before a bind is whole |
//! | `checking` | the vendor's word on each device, now and then |
//! | `act` | what an operator asks for |
//! | [`api`] | the same over the admin API |
//!
//! Callers: the service's loop (overlay), the composition root (run), the admin API.

pub mod api;

mod act;
mod checking;
mod cleaning;
mod condition;
mod devices;
mod facts;
mod listening;
mod name;
mod programming;
pub mod register;
pub mod report;
mod status;
mod takeover;
mod telling;
#[cfg(test)]
pub(crate) mod test_card;

pub use act::{ActError, Acted, Doing, Risk};
pub use checking::HealthCheck;
pub(crate) use cleaning::is_spoilt;
pub use condition::overlay_all;
pub use facts::DeviceFacts;
pub use devices::{DeviceConditions, DeviceOptions, Devices, DevicesParts, Look, MissingProviders};
pub(crate) use name::Named;
pub use register::{DeviceRegister, Quarantine, QuarantinedBy, Register, Withheld};
pub use status::DeviceStatus;
pub use telling::TellError;
