//! Tests of the service with a scripted driver and a scripted Placement, on a paused clock.

mod admin;
mod bench;
pub(crate) mod driver;
mod nodes;
mod placement;
mod progress;
mod reload;
mod reviewed;
mod start;
mod stop;
mod ticks;
