//! Tests of the `berth` program as a child process: its commands, its services, and the state after a kill.

#![cfg(test)]

#[path = "../core/serve/tests/serve/tls/authority.rs"]
mod authority;
#[path = "claims/main.rs"]
mod claims;
#[path = "conformance/main.rs"]
mod conformance;
#[path = "cycles/main.rs"]
mod cycles;
#[path = "kill/main.rs"]
mod kill;
#[path = "program/main.rs"]
mod program;
