//! The node agent: it owns the truth about one hypervisor and keeps Placement in step with it.
//!
//! The way of the data: a driver's view and Placement's tree go into [`propose`]; [`startup`] or [`tick`] acts on the plan
//! through the [`report_client`]. Who the node is says [`node_identity`].

pub mod admin;
pub mod allocation_audit;
pub mod backoff;
pub mod complete;
pub mod device;
pub mod disabled;
pub mod error_chain;
pub mod guest;
pub mod health;
pub mod host_state;
pub mod metrics;
pub mod node_identity;
pub mod notify;
pub mod options;
pub mod propose;
pub mod provider_config;
pub mod rename;
pub mod report_client;
pub mod service;
pub mod startup;
pub mod tick;
pub mod triggers;
