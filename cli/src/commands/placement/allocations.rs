//! `berth placement audit` and `berth placement heal-allocations`: compare what this host's guests should hold in
//! Placement with what they hold, over its API or on a database that no service has open.

mod audit;
mod heal;
mod host_allocations;
mod outcome;
mod pending_repairs;

pub(super) use audit::{Audit, audit};
pub(super) use heal::{Heal, heal};
