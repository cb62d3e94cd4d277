//! The protocol between Berth and an out-of-tree driver, version 1.
//!
//! JSON-RPC 2.0 in UTF-8, one message per line of at most [`LONGEST_LINE`] bytes. Berth calls, the driver answers; the
//! only message that a driver sends unasked is the notification `changed`. The first call is `hello`, in which both
//! sides introduce themselves ([`Hello`], [`HelloResult`]). Berth calls only the methods that the driver listed there
//! ([`Method`]).
//!
//! Objects are strict: unknown fields are refused, so that a misspelt one is found. Every list and text is bounded.
//! Errors name the path of the invalid value (`nodes[0].gpus[2].address`). Fields documented as optional may be
//! omitted.
//!
//! A change that an old driver or an old Berth would misread needs a new version. A new method does not: a driver that
//! does not list it is never called with it.

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
pub use device::{ConditionFacts, DeviceFacts, HandleFacts};
pub use guest::{
    Empty, EmptyResult, GuestFacts, GuestOnHostFacts, GuestsResult, MarkFacts, MigrateParams,
    OutcomeResult, PowerParams, PreparedDevicesResult, PreparedFacts, ResetResult, SpecParams,
    UnreadableFacts, UuidParams, WantedParams,
};
pub use hello::{ConfiguredOptions, DriverFacts, Hello, HelloResult, VERSION};
pub use message::{ChangeKind, ChangedNotification, ErrorObject, LONGEST_LINE};
pub(crate) use message::{IncomingMessage, request};
pub use method::Method;
pub use node::{
    CellFacts, CpuFacts, CustomFacts, FunctionsFacts, GpuFacts, HugePages, NodeFacts, OfferedFacts,
};
pub(crate) use refusal::{GuestQuestion, device_error, guest_error, observe_error};
pub use refusal::{PrepareHostFailure, PrepareHostResult};
pub use value::{AsText, Text};
pub(crate) use value::{decode, params};
pub use view::{HypervisorFacts, ViewResult};
