//! The filter scheduler: which hosts may take a guest, in which order, and why not the others.
//!
//! The way of a request: **host states** (what each host has and runs) with their allocation candidates of Placement go through
//! the enabled **filters**, each of which lets a host pass or says why not; the **weighers** put those that are left in order; the
//! first that can be claimed takes the guest, the next ones are its alternates. Filters and weighers are Nova's, by their names and
//! with their semantics as of Nova 34, where those are right.
//!
//! | room | noun |
//! |---|---|
//! | `host_state` | a host as its agent reports it: capacity, usage, NUMA cells, PCI pools, aggregates, service |
//! | `request` | the request spec: flavor, image, hints, group, destination |
//! | `options` | `[filter_scheduler]`, `[metrics]` and the others, by Nova's names |
//! | `extra_specs` | what a flavor demands of a value: `>= 8`, `<in> aes` |
//! | `query` | what a user asks of a host in JSON: `["<=", 1024, "$free_ram_mb"]` |
//! | `version`, `network`, `numbers` | version predicates, networks by CIDR, numbers as Python reads them |
//! | `pci` | which pools of devices serve which requests, and what is left of them |
//! | `numa` | whether an instance's cells fit on a host's, and what is left of those |
//! | `filters` | a file for each filter; a filter reads the request once, then looks at hosts |
//! | `replay` | cases from a file, answered one by one |
//! | `weighers` | a file for each weigher; the order of hosts, and each host's score card |
//! | `select` | the loop: destination, filters, weighers, claims, alternates |
//! | `explain` | why a request has its hosts, or none, as it is kept and read; what stands in the way |
//! | `lint` | what is wrong with flavors, aggregates, device profiles, images and options, before a request meets it |
//! | `placement_query` | pre-filters, and what Placement is asked |
//! | `custom_plugins`, `plugin` | filters and weighers that are not built in: of Rust, and of programs that the caller asks before |
//! | `text` | what users wrote, short and printable |
//! | `reason` | why a host was rejected: a closed vocabulary, with the values compared |
//!
//! All of it is pure: no clock (a request brings its "now"), no I/O, no randomness but what a seed gives. Caller: `cli`
//! (`berth scheduler`).

pub mod custom_plugins;
pub mod explain;
pub mod extra_specs;
pub mod filters;
pub mod host_state;
pub mod lint;
pub mod network;
pub mod numa;
pub mod numbers;
pub mod options;
pub mod pci;
pub mod placement_query;
pub mod plugin;
pub mod query;
pub mod reason;
pub mod replay;
pub mod request;
pub mod select;
mod text;
pub mod version;
pub mod weighers;

pub use filters::{Check, Filter, FilterPlan, Runs};
pub use host_state::{ConsideredHost, HostState};
pub use options::SchedulerOptions;
pub use reason::Reason;
pub use request::RequestSpec;
// For the command line program, until it takes it from core/wire.
pub use berth_model::printable;
