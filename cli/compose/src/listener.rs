//! Opens the TCP listeners of the built-in services. A service that does not authenticate its callers (`noauth2`)
//! listens on loopback only.

use std::io;
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
        let bound = TcpListener::bind(address).await;
        bound.map_err(|error| listen_failure(address, &format!("[{section}] listen"), &error))
    }
}

/// The failure of a service that cannot listen on its address, which `option` names.
pub fn listen_failure(address: SocketAddr, option: &str, error: &io::Error) -> Failure {
    let what = format!("cannot listen on {address}");
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::caused(ErrorCode::Held, what, error)
            .hint(format!("stop what listens there, or set {option}")),
        io::ErrorKind::AddrNotAvailable => Failure::new(ErrorCode::BadValue, what)
            .cause(format!("{} is not an address of this host", address.ip()))
            .hint(format!("set {option} to an address that ip addr shows")),
        _ => Failure::caused(ErrorCode::BadValue, what, error).hint(format!("set {option}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_this_hosts_is_not_reported_as_in_use() {
        let address = "192.0.2.55:24880".parse().unwrap();
        let error = |kind: io::ErrorKind| io::Error::from(kind);
        let foreign = error(io::ErrorKind::AddrNotAvailable);
        assert_eq!(
            listen_failure(address, "[api] listen", &foreign).explain(),
            "error: cannot listen on 192.0.2.55:24880 [BERTH-E0105]\ncause: 192.0.2.55 is not an address of this host\n\
             hint: set [api] listen to an address that ip addr shows\n"
        );
        let used = listen_failure(address, "[api] listen", &error(io::ErrorKind::AddrInUse));
        assert_eq!(used.code(), ErrorCode::Held);
        assert!(
            used.explain()
                .ends_with("\nhint: stop what listens there, or set [api] listen\n")
        );
    }
}
