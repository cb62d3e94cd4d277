//! Ports of the real Neutron with ML2/OVN. The hosts are rows of OVN's southbound database.
//!
//! One cloud serves all tests; each has networks of its own.

mod canaries;
mod client;
mod cloud;
mod conductor;
mod direct_ports;
mod events;
mod guest;
mod kills;
mod namespaces;
mod ownership;
mod port_stage;
mod refusals;
mod report;
mod resources;
mod servers;
