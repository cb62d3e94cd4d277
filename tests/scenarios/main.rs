//! Scenarios: the agent's journeys over all services in one process, each named by the sentence it shows.
//!
//! By noun: `refusals` (a startup that is disturbed or refused), `holds` (units without a home), `identity` (name and UUID),
//! `quiet` (ticks and restarts that send next to nothing), `foreign` (what others own), `reshape` (the upgrade), `parsers`
//! (files and answers that nobody meant), `provider_config` (what operators' files add),
//! `devices` (accelerators, from the host to both services),
//! `boot` (guests, from a request to the agent), `alternates` (a build that fails on one host is done on another),
//! `near` (guests and devices on one NUMA cell),
//! `guest_lives` (what befalls their host). They share `mishaps` (what goes wrong on the way to Placement) and `upgrading`
//! (a node on the eve of its upgrade).

mod alternates;
mod boot;
mod devices;
mod foreign;
mod guest_lives;
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
