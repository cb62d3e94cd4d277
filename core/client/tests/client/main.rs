//! The client against scripted services, services in this process, and real loopback servers.

#![allow(
    clippy::unwrap_used,
    reason = "what a test's own helpers cannot do fails the test"
)]

mod accelerator;
mod answers;
mod auth;
mod calls;
mod errors;
mod hosts;
mod image;
mod network;
mod ports;
mod reshape;
mod retries;
mod script;
