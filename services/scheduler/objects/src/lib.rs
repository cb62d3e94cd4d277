//! What the scheduler decides about: request specs and host states, in Nova's terms, and the fit of one on the other.
//!
//! | module | contents |
//! |---|---|
//! | `host_state` | a host as its agent reports it: capacity, usage, NUMA cells, PCI pools, aggregates, service |
//! | `request` | the request spec: flavor, image, hints, server group, destination |
//! | `numa` | whether the NUMA cells of an instance fit on those of a host, and what they take |
//! | `pci` | which device pools serve which PCI requests, and what they take |
//! | `reason` | why a host was rejected: a closed vocabulary, with the compared values |
//! | `plugin` | messages between the scheduler and external filters and weighers |
//! | `from_json` | host states and request specs read from the JSON of a file of cases |
//! | `numbers`, `version`, `text` | numbers as Python reads them, version predicates, short printable texts |
//!
//! Everything is pure. Users: `services/scheduler`, which filters and weighs these objects, and its sub-crates.

pub mod from_json;
pub mod host_state;
pub mod numa;
pub mod numbers;
pub mod pci;
pub mod plugin;
pub mod reason;
pub mod request;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod version;
