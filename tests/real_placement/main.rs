//! The startup against the real Placement, with the fake driver: a first start, a restart, and the four reshapes, with
//! every unit checked through Placement's API; the same with no service running, on its database; and guests booted
//! through it.

mod agent;
mod boot;
mod guest_demand;
mod holdings;
mod link_groups;
mod offline;
mod reshape;
mod same_tree;
mod starts;
mod upgrade;
