//! Tests with a real RabbitMQ and a real oslo.messaging on the other side.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod broker;
mod calls;
mod certificates;
mod consumers;
mod monitored;
mod peer;
mod process;
mod quorum;
mod restart;
mod returned;
mod setup;
mod tls;
