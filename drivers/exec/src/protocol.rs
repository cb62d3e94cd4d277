//! The language between Berth and an out-of-tree driver, version 1.
//!
//! JSON-RPC 2.0, one message a line, UTF-8, a line of at most [`LONGEST_LINE`] bytes. Berth asks, the driver answers; by itself
//! the driver only sends the notification `changed`. The first call is `hello`, in which both say what they are
//! ([`Hello`], [`HelloResult`]); a driver is asked only what it said that it knows ([`Method`]).
//!
//! Every object is taken whole: unknown fields are refused, so that a misspelt one is found; every list and text has a bound;
//! what is wrong is named by its path (`nodes[0].gpus[2].address`). Fields documented as optional may be left out.
//!
//! A new version is needed for whatever an old driver or an old Berth would misread. New methods are none: a driver is not
//! asked what it does not know.

mod codes;
mod device;
mod guest;
mod hello;
mod message;
mod method;
mod node;
mod refusal;
#[cfg(test)]
mod tests;
mod value;
mod view;

pub use codes::{DeviceCode, GuestCode, ObserveCode};
pub use device::{ConditionFacts, DeviceFacts, HandleFacts, OwnerFacts};
pub use guest::{
    DestroyOutcome, DestroyResult, Done, Empty, GuestFacts, GuestOnHostFacts, GuestsResult,
    HeldFacts, HostDeviceFacts, MarkFacts, MigrateParams, PowerOutcome, PowerParams, PowerResult,
    PowerWord, PreparedDevicesResult, PreparedFacts, PreparerFacts, RedefineOutcome,
    RedefineResult, ResetResult, SpawnOutcome, SpawnResult, SpecParams, StateFacts,
    UnreadableFacts, UuidParams, WantedParams,
};
pub use hello::{Configured, DriverFacts, Hello, HelloResult, VERSION};
pub use message::{Changed, ErrorObject, LONGEST_LINE, What};
pub(crate) use message::{Incoming, request};
pub use method::Method;
pub use node::{
    CellFacts, CpuFacts, CustomFacts, DiskFacts, FunctionsFacts, GpuFacts, HugePages, NodeFacts,
    OfferedFacts,
};
pub(crate) use refusal::{GuestQuestion, device_error, guest_error, observe_error};
pub use refusal::{PrepareHostFailure, PrepareHostResult};
pub use value::{AsText, Text};
pub(crate) use value::{decode, params};
pub use view::{HypervisorFacts, ViewResult};
