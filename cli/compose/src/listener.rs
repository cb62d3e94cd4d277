//! Opens the TCP listeners of the built-in services. A service that does not authenticate its callers (`noauth2`)
//! listens on loopback only.

use std::net::SocketAddr;

use berth_config::AuthStrategy;
use berth_output::{ErrorCode, Failure};
use tokio::net::TcpListener;

/// A built-in service, with its name for error texts.
pub struct BuiltIn {
    called: &'static str,
    section: &'static str,
}

pub const PLACEMENT: BuiltIn = BuiltIn {
    called: "the built-in Placement",
    section: "placement_service",
};

/// The built-in accelerator service.
pub const ACCELERATOR: BuiltIn = BuiltIn {
    called: "the accelerator service",
    section: "accelerator_service",
};

/// All services behind one address.
pub const API: BuiltIn = BuiltIn {
    called: "the front listener",
    section: "api",
};

pub const IDENTITY: BuiltIn = BuiltIn {
    called: "the identity service",
    section: "identity_service",
};

/// The compute API, which also receives the host states of other hosts' agents.
pub const COMPUTE: BuiltIn = BuiltIn {
    called: "the compute API",
    section: "compute_service",
};

impl BuiltIn {
    /// Opens the listener. Without authentication, only loopback addresses are accepted.
    pub async fn listen_on(
        &self,
        address: SocketAddr,
        auth: AuthStrategy,
    ) -> Result<TcpListener, Failure> {
        let Self { called, section } = self;
        if auth == AuthStrategy::Noauth2 && !address.ip().is_loopback() {
            let what = format!(
                "{called} does not authenticate its callers (noauth2); {address} is not loopback"
            );
            return Err(Failure::new(ErrorCode::BadValue, what).hint(format!(
                "listen on 127.0.0.1 or [::1], or set [{section}] auth_strategy = \"keystone\""
            )));
        }
        TcpListener::bind(address).await.map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::AddrInUse => ErrorCode::Held,
                _ => ErrorCode::BadValue,
            };
            Failure::caused(code, format!("cannot listen on {address}"), &error).hint(format!(
                "stop what listens there, or set [{section}] listen"
            ))
        })
    }
}
