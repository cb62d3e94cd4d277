//! Bodies of the agent's guest API (`/v1/guests`): requests of a conductor and the agent's responses.
//!
//! Callers: the client of that API, and the agent's handlers. Unknown keys in requests are refused. Unknown keys in responses are
//! ignored, so that an older client can read a newer agent.

mod action_id;
mod answers;
mod build;
mod console;
mod places;

pub use action_id::{ActionId, NoActionId};
pub use answers::{
    CellBody, DiagnosticsBody, DiskStatisticsBody, GuestBody, GuestList, ImageComing,
    InterfaceBody, InterfaceStatisticsBody, NetworkFunctionBody, StepBody, TrafficBody,
};
pub use build::{
    ConfigDriveBody, ConfigDriveChangeBody, FlavorBody, GuestAction, GuestBuild, ImageBody,
    ImageLocation, KernelBody, LimitsBody, NetworkBody, NetworkSource, PublicKeyBody,
    UserDataChange,
};
pub use console::{CONSOLE_PROTOCOL, ConsoleBody};
pub use places::{PlaceBody, Places, PlacesAsked};

#[cfg(test)]
mod tests;
