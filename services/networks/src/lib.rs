//! The networks, ports and security groups of servers: which of them a project's server may have.
//!
//! ```text
//! compute API: NetworkWish --choose_networks--> requested networks --> conductor: check_port, check_kind --> bound ports
//! ```
//!
//! The network service is called with an administrator's account, and refuses nothing. So its callers decide here. The
//! compute API checks a request before it stores anything. The conductor checks each port again when it takes the port.
//! The sentences are Nova's where it has such.
//!
//! | module | contents |
//! |---|---|
//! | `port_rules` | [`PortRefusal`]: which ports a guest may have; pure |
//! | `network_choice` | [`NetworkWish`]: the networks and security groups of new ports |
//! | `security_groups` | the security groups of a server's ports, and their change |
//!
//! Used by `services/compute` and `services/conductor`.

mod network_choice;
mod port_rules;
mod security_groups;

pub use network_choice::{
    NetworkChoiceError, NetworkWish, choose_networks, choose_security_groups, is_default_group,
};
pub use port_rules::{
    PortRefusal, check_kind, check_port, function_kind, is_trusted, needs_resources,
};
pub use security_groups::{
    PortOwner, SecurityGroupChange, SecurityGroupError, change_security_group, groups_of_ports,
    peer_groups, ports_of_server,
};
