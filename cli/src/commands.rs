//! The subcommands of `berth`: a file for each, with its arguments and a `run`.

pub mod accelerator;
pub mod agent;
pub mod completion;
pub mod compute;
pub mod config;
pub mod controller;
pub mod demo;
pub mod device;
pub mod doctor;
pub mod explain;
pub mod guest;
pub mod identity;
pub mod man;
pub mod placement;
pub mod provider;
pub mod reconcile;
pub mod reshape;
pub mod scheduler;
pub mod tls;
pub mod up;
