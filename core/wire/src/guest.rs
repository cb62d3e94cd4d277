//! The bodies of the agent's guest API (`/v1/guests`): what a conductor asks for, and what the agent answers.
//!
//! Callers: the client of that API (asks), the agent's `guest::api` (answers). Bodies that ask refuse keys they do not know;
//! bodies that answer take more keys than they know, so that an older client reads a newer agent.

mod action_id;
mod answers;
mod build;
mod places;

pub use action_id::{ActionId, NoActionId};
pub use answers::{GuestBody, GuestList, ImageComing, StepBody};
pub use build::{
    ConfigDriveBody, FlavorBody, GuestAction, GuestBuild, GuestPower, ImageBody, ImageLocation,
    KernelBody, LimitsBody, NetworkBody, NetworkSource, SshKeyBody,
};

pub use places::{PlaceBody, Places, PlacesAsked};

#[cfg(test)]
mod tests;
