//! From the configuration to running parts: the one crate that knows every driver, service and client.
//!
//! ```text
//! Config -> options and policies -> database, tokens, listener -> services -> front listener
//!        -> driver, clients      -> guests of this host        -> agent
//! ```
//!
//! | modules | what they make |
//! |---|---|
//! | [`driver`] | the driver that `compute_driver` names |
//! | `tracker`, `host_state`, `guests` | the options of the agent's parts, and this host's guests and devices |
//! | [`agent`], [`nodes`], [`plan_file`], [`tls`] | the agent as a service; this host's nodes for one command |
//! | [`placement_client`], `agents`, [`keystone_tokens`] | clients of Placement, agents, Keystone |
//! | [`database`], [`listener`], [`audit`], [`policy`], [`images`], [`networks`] | what each built-in service needs |
//! | [`accelerator_service`], [`compute_service`], [`placement_service`], [`identity_service`], [`hosts`] | options and opened parts of each service |
//! | [`consoles`] | the proxies of consoles |
//! | `unified_limits` | the compute API's quotas for the Identity service |
//! | [`services`], [`api`] | the services of `berth up` and `berth controller`, and the one listener in front of them |

pub mod accelerator_service;
pub mod agent;
mod agents;
pub mod api;
pub mod audit;
pub mod compute_service;
mod conductor_metrics;
pub mod consoles;
pub mod database;
pub mod driver;
pub mod event_receivers;
mod guests;
mod host_state;
pub mod hosts;
pub mod identity_service;
pub mod images;
pub mod keystone_tokens;
pub mod listener;
pub mod networks;
pub mod nodes;
pub mod placement_client;
pub mod placement_failure;
pub mod placement_service;
pub mod plan_file;
pub mod policy;
mod provider_roots;
pub mod services;
pub mod signals;
pub mod state_file;
pub mod state_files;
pub mod state_lock;
pub mod tls;
mod tracker;
mod unified_limits;

use std::time::Duration;

pub use agents::{
    AgentAt, AgentReceivers, KnownAgents, admin_failure, agent_away, agents_elsewhere,
    socket_denied,
};
pub use berth_compute_driver::Driver;
pub use driver::open_driver;
pub use guests::{
    HostGuests, accelerators_in_process, accelerators_over_network, hosts_in_process,
    images_in_process,
};
pub use host_state::hosts_over_network;
pub use placement_client::{
    ACCELERATOR_ENDPOINT_FILE, CONDUCTOR_ENDPOINT_FILE, EMBEDDED_TOKEN, ENDPOINT_FILE,
    accelerator_socket, accelerators_of_this_host, conductor_socket, placement_for_commands,
    placement_in_process, placement_of_this_host, placement_over_network, placement_socket,
};
pub use tracker::{provider_configs, tracker_options};

/// Default time that `--once` and offline commands wait for a service that is not reachable.
pub const DEADLINE: Duration = Duration::from_secs(60);
