//! The test harness: real peers, the `berth` program as a child process, and a proxy that injects faults into the
//! traffic between them. Only the tests of this folder use it.
//!
//! Everything listens on loopback on a port of its own, keeps its files in a [`scratch::Scratch`] directory, and ends
//! when its value is dropped or, at the latest, with the test process.

pub mod berth;
pub mod boot;
pub mod claims;
pub mod cloud;
pub mod contest;
pub mod exchange;
pub mod fault;
pub mod fault_proxy;
pub mod fleet;
pub mod guest_cloud;
pub mod host;
pub mod host_states;
pub mod limit;
pub mod node;
pub mod peer;
pub mod port;
pub mod process;
pub mod sample;
pub mod scratch;
pub mod unit;
pub mod wait;
pub mod witness;
pub mod workspace;
pub mod worlds;
