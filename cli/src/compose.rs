//! From the configuration to the parts: the driver, the tracker's options, the way to Placement. The only place that knows
//! all of them.
//!
//! | room | what it makes |
//! |---|---|
//! | `driver` | the driver of `compute_driver` |
//! | `libvirt` | what libvirt's driver is told |
//! | `reporting` | what the agent reports, and how |
//! | `placement` | the way to Placement, a real one or this process's |
//! | `agents` | the way to agents |
//! | `guests` | this host's guests and devices |
//! | `scheduler` | the way to whoever keeps hosts' states for the scheduler |
//! | [`tls_door`] | the agent's API over TLS |

mod agents;
mod driver;
mod guests;
#[cfg(feature = "libvirt")]
mod libvirt;
mod placement;
mod reporting;
mod scheduler;
pub mod tls_door;

use std::time::Duration;

pub use agents::{AgentAt, AgentReceivers, KnownAgents, agents_elsewhere};
pub use driver::Driver;
pub use guests::{
    HostGuests, accelerators_in_process, accelerators_over_network, hosts_in_process,
    images_in_process,
};
pub use placement::{
    ACCELERATOR_ENDPOINT_FILE, CONDUCTOR_ENDPOINT_FILE, EMBEDDED_TOKEN, ENDPOINT_FILE,
    conductor_socket, placement_for_commands, placement_in_process, placement_over_network,
};
pub(crate) use reporting::provider_configs;
pub use reporting::tracker_options;
pub use scheduler::hosts_over_network;

/// How long `--once` and offline commands wait for a service that is away, unless told otherwise.
pub const DEADLINE: Duration = Duration::from_secs(60);
