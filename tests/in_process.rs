//! Tests with several services in one process, over databases in memory: no server and no program is started.

#![cfg(test)]

#[path = "scenarios/main.rs"]
mod scenarios;
#[path = "scheduling/main.rs"]
mod scheduling;
