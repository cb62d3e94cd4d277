//! Opens the TCP listeners of the built-in services. A service that does not authenticate its callers (`noauth2`)
//! listens on loopback only, and one without TLS only there or with `insecure_http`.

use std::net::SocketAddr;

use berth_config::{AuthStrategy, Config, ServiceListener};
use berth_http::HttpListener;
use berth_output::{ErrorCode, Failure};
use tokio::net::TcpListener;

use crate::tls;

/// Opens the listener of a service at an address, with the TLS files of its section.
///
/// Errors: The address is refused or in use, or a file cannot be used.
pub async fn listen_on(
    address: SocketAddr,
    config: &Config,
    listener: &ServiceListener<'_>,
) -> Result<HttpListener, Failure> {
    let section = listener.section;
    if listener.auth == AuthStrategy::Noauth2 && !address.ip().is_loopback() {
        let called = listener.called;
        let what = format!(
            "{called} does not authenticate its callers (noauth2); {address} is not loopback"
        );
        return Err(Failure::new(ErrorCode::BadValue, what).hint(format!(
            "listen on 127.0.0.1 or [::1], or set [{section}] auth_strategy = \"keystone\""
        )));
    }
    if listener.exposes_secrets_at(address) {
        let (wrong, right) = listener.exposure_at(address);
        return Err(Failure::new(ErrorCode::BadValue, wrong).hint(right));
    }
    let tls = tls::open_service(listener)?;
    let open = TcpListener::bind(address).await.map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::AddrInUse => ErrorCode::Held,
            _ => ErrorCode::BadValue,
        };
        Failure::caused(code, format!("cannot listen on {address}"), &error).hint(format!(
            "stop what listens there, or set [{section}] listen"
        ))
    })?;
    let proxies = config.api.trusted_proxies.clone();
    let open = HttpListener::from(open).with_trusted_proxies(proxies);
    Ok(match tls {
        Some(tls) => open.with_tls(tls),
        None => open,
    })
}
