//! Connects ("plugs") the Neutron ports of guests on this host.
//!
//! ```text
//! plug:   observe (switch, link) --> plan (pure) --> add the interface to the bridge --> create and start the tap
//! unplug: observe                --> plan (pure) --> delete the tap                  --> remove the interface
//! ```
//!
//! The switch's database has the interface as long as the tap exists, so that every tap of Berth's has an owner there: a tap
//! without one belongs to another program and is not touched. Both calls are idempotent and may be repeated after a kill in any
//! state. A port that is plugged for another guest, and a link of the same name that is no tap, are refused.
//!
//! | module | what it does |
//! |---|---|
//! | [`HostNetwork`] | observes, and does what the plan says |
//! | `plan` | what to do, from what was observed; pure |
//! | `switch` | interfaces in Open vSwitch, by OVSDB |
//! | `tap` | taps, by `ip` of iproute2 |
//! | `function` | settings of virtual functions of network cards (SR-IOV), by `ip` of iproute2 |

mod error;
mod function;
mod host_network;
mod options;
mod plan;
mod switch;
mod tap;

pub use error::PortError;
pub use function::FunctionSpec;
pub use host_network::{HostNetwork, NetworkPaths};
pub use options::OsVifOvsSection;
pub use plan::PortSpec;
pub use switch::SwitchInterface;
