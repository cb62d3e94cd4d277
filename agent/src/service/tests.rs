//! The service with a driver and a Placement that do as they are told, on a clock that runs as fast as it can.

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
