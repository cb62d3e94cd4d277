//! The filter scheduler: which hosts may take an instance, in which order, and why not the others.
//!
//! ```text
//! host states + allocation candidates -> filters -> weighers -> claims -> selected host, alternates
//! ```
//!
//! Filters and weighers are Nova's, with their names and, where it is correct, their behaviour (Nova 34).
//!
//! | module | contents |
//! |---|---|
//! | `options` | `[filter_scheduler]`, `[metrics]` and others, with Nova's names; their checks |
//! | `placement_query` | pre-filters, and the query to Placement |
//! | `filters` | one file per filter; a filter reads the request once and then checks hosts |
//! | `weighers` | one file per weigher; the order of hosts, and each host's score card |
//! | `custom_plugins` | filters and weighers that are not built in: in Rust, or external programs |
//! | `select` | the loop: destination, filters, weighers, claims, alternates |
//! | `extra_specs`, `query`, `network` | requirements in extra specs (`>= 8`), JSON queries in hints, CIDR networks |
//!
//! Request specs, host states and rejection reasons are in `objects`, whose modules are re-exported here. Explanations are in
//! `explain`, rules about flavors in `lint`, files of cases in `cases`. Everything is pure: a request brings its time and the
//! seed of its random numbers. Callers: `services/conductor`, `services/hosts`, `services/compute`.

pub mod custom_plugins;
pub mod extra_specs;
pub mod filters;
pub mod network;
pub mod options;
pub mod placement_query;
pub mod query;
pub mod select;
pub mod weighers;

pub use berth_scheduler_objects::{host_state, plugin, reason, request};
use berth_scheduler_objects::{numa, numbers, pci, text, version};

pub use filters::{Check, Filter, FilterPlan, Runs};
pub use host_state::{ConsideredHost, HostState};
pub use options::SchedulerOptions;
pub use reason::Reason;
pub use request::RequestSpec;
