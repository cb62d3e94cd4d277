//! The address of a guest's console, and the protocol of connections to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol in the `upgrade` header of a request for a console: the connection then carries the console's own bytes.
pub const CONSOLE_PROTOCOL: &str = "berth-console";

/// Where a console of a running guest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsoleBody {
    /// `vnc` or `serial`.
    pub kind: String,
    /// The address of its server, for a VNC console.
    #[serde(default)]
    pub host: Option<String>,
    /// The port of its server, for a VNC console.
    #[serde(default)]
    pub port: Option<u16>,
}
