//! Checks of the repository itself: dependencies, licences, documents, monitoring, and the scripts that run tests.

#![cfg(test)]

mod documents;
mod floor_plan;
#[path = "lab/checks.rs"]
mod lab_checks;
#[path = "monitoring/main.rs"]
mod monitoring;
#[path = "soak/checks.rs"]
mod soak_checks;
mod supply_chain;
mod test_limit;
