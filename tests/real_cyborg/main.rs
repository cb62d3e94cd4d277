//! Guests with the real Cyborg, the real Placement and the real Keystone: the agent's guests on the fake driver have
//! accelerator requests that Cyborg binds, and Cyborg's own Nova client sends the events.
//!
//! One cloud serves all tests; each uses functions of the host that no other test uses.

mod agent;
mod beside;
mod boot;
pub(crate) mod card_host;
mod client;
mod cloud;
mod conductor;
mod conductor_outages;
mod events;
mod gate;
mod gate_array;
mod leftovers;
mod nova;
mod outages;
mod parts_away;
mod refusals;
mod servers;
mod takeover;
