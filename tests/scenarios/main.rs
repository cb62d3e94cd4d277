//! Scenarios of the agent with all services in one process; each test name states what it shows.
//!
//! By topic: `refusals` (a startup that is disturbed or refused), `holds` (units without a new provider), `identity`
//! (name and UUID), `quiet` (ticks and restarts that send almost nothing), `foreign` (objects of other owners),
//! `reshape` (the upgrade), `parsers` (malformed files and answers), `provider_config` (operators' provider files),
//! `devices` (accelerators, from the host to both services), `boot` (guests, from a request to the agent), `alternates`
//! (a build that fails on one host is done on another), `near` (guests and devices on one NUMA cell), `guest_lives`
//! (guests through events of their host), `hardware` (what flavors and images request, up to libvirt's document). They share `mishaps` (faults of requests to Placement) and `upgrading` (a
//! node before its upgrade).

mod alternates;
mod boot;
mod devices;
mod foreign;
mod guest_lives;
mod hardware;
mod holds;
mod identity;
mod mishaps;
mod near;
mod parsers;
mod provider_config;
mod quiet;
mod refusals;
mod reshape;
mod upgrading;
