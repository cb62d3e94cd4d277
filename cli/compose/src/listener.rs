//! Opens the TCP listeners of the built-in services. A service that does not authenticate its callers (`noauth2`)
//! listens on loopback only, and one without TLS only there or with `insecure_http`.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use berth_config::{AuthStrategy, Config};
use berth_http::{HttpListener, for_loopback_names, serve_tcp};
use berth_output::{ErrorCode, Failure};
use tokio::net::TcpListener;

use crate::tls;

/// An option with the address of a built-in service, and the service's name for error texts.
pub struct ListenOption {
    service: &'static str,
    section: &'static str,
    option: &'static str,
}

pub const PLACEMENT: ListenOption =
    ListenOption::of("the built-in Placement", "placement_service", "listen");
/// The built-in accelerator service.
pub const ACCELERATOR: ListenOption =
    ListenOption::of("the accelerator service", "accelerator_service", "listen");
/// All services behind one address.
pub const API: ListenOption = ListenOption::of("the front listener", "api", "listen");
/// All services again, for agents and services.
pub const INTERNAL_API: ListenOption =
    ListenOption::of("the listener for agents", "api", "internal_listen");
pub const IDENTITY: ListenOption =
    ListenOption::of("the identity service", "identity_service", "listen");
/// The compute API, which also receives the host states of other hosts' agents.
pub const COMPUTE: ListenOption = ListenOption::of("the compute API", "compute_service", "listen");
/// The conductor. Its API has no authentication.
pub const CONDUCTOR: ListenOption =
    ListenOption::of("the conductor", "conductor_service", "listen");
/// The agent's receiver of external events.
pub const EVENTS: ListenOption =
    ListenOption::of("the receiver of external events", "agent", "events_listen");

/// The proxy of VNC consoles.
pub const NOVNCPROXY: ListenOption =
    ListenOption::of("the proxy of VNC consoles", "vnc", "novncproxy_host");
/// The proxy of serial consoles.
pub const SERIALPROXY: ListenOption = ListenOption::of(
    "the proxy of serial consoles",
    "serial_console",
    "serialproxy_host",
);

impl ListenOption {
    const fn of(service: &'static str, section: &'static str, option: &'static str) -> Self {
        Self {
            service,
            section,
            option,
        }
    }

    /// Opens a service's own address in `berth up` and `berth controller`; `None` if it has none.
    ///
    /// Errors: `auth_strategy` is not set, or as for [`ListenOption::listen_on`].
    pub async fn own(
        &self,
        config: &Config,
        listen: Option<SocketAddr>,
        auth: Option<AuthStrategy>,
    ) -> Result<Option<ServiceListener>, Failure> {
        let Some(address) = listen else {
            return Ok(None);
        };
        let auth = auth.ok_or_else(|| self.without_strategy(address))?;
        self.listen_on(config, address, auth).await.map(Some)
    }

    /// Opens the address of a command that serves this service alone.
    ///
    /// Errors: There is no address, or as for [`ListenOption::listen_on`].
    pub async fn alone(
        &self,
        config: &Config,
        listen: Option<SocketAddr>,
        auth: AuthStrategy,
    ) -> Result<ServiceListener, Failure> {
        let Self {
            service, section, ..
        } = self;
        let address = listen.ok_or_else(|| {
            let what = format!("{service} has no address to listen on");
            Failure::new(ErrorCode::Missing, what).hint(format!(
                "set [{section}] listen, or give --listen 127.0.0.1:PORT"
            ))
        })?;
        self.listen_on(config, address, auth).await
    }

    /// Opens the listener. Without authentication, only loopback addresses are accepted.
    ///
    /// Errors: The address is not loopback, and callers are not authenticated or secrets would cross the network without TLS;
    /// or the address or a TLS file cannot be used.
    pub async fn listen_on(
        &self,
        config: &Config,
        address: SocketAddr,
        auth: AuthStrategy,
    ) -> Result<ServiceListener, Failure> {
        let Self {
            service, section, ..
        } = self;
        if auth == AuthStrategy::Noauth2 && !address.ip().is_loopback() {
            let what = format!(
                "{service} does not authenticate its callers (noauth2); {address} is not loopback"
            );
            return Err(Failure::new(ErrorCode::BadValue, what).hint(format!(
                "listen on 127.0.0.1 or [::1], or set [{section}] auth_strategy = \"keystone\""
            )));
        }
        let listener = self.bind(config, address, auth).await?;
        if auth == AuthStrategy::Noauth2 {
            let address = listener.address;
            tracing::warn!(
                %address,
                "{service} does not authenticate its callers (noauth2): every user and process of this host may use it"
            );
        }
        Ok(listener)
    }

    /// Opens a loopback address for routes that every local user may use.
    ///
    /// Errors: The address cannot be used.
    pub async fn for_everybody(
        &self,
        config: &Config,
        address: SocketAddr,
    ) -> Result<ServiceListener, Failure> {
        self.bind(config, address, AuthStrategy::Noauth2).await
    }

    async fn bind(
        &self,
        config: &Config,
        address: SocketAddr,
        auth: AuthStrategy,
    ) -> Result<ServiceListener, Failure> {
        let Self {
            section, option, ..
        } = self;
        let files = config.listener_section(section);
        if let Some(files) = files.filter(|files| files.exposes_secrets_at(address)) {
            let (wrong, right) = files.exposure_at(address);
            return Err(Failure::new(ErrorCode::BadValue, wrong).hint(right));
        }
        let tls = match &files {
            Some(files) => tls::open_service(files)?,
            None => None,
        };
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| listen_failure(address, section, option, &error))?;
        let address = listener.local_addr().unwrap_or(address);
        let proxies = config.api.trusted_proxies.clone();
        let listener = HttpListener::from(listener).with_trusted_proxies(proxies);
        Ok(ServiceListener {
            scheme: if tls.is_some() { "https" } else { "http" },
            listener: match tls {
                Some(tls) => listener.with_tls(tls),
                None => listener,
            },
            address,
            auth,
        })
    }

    fn without_strategy(&self, address: SocketAddr) -> Failure {
        let section = self.section;
        let what = format!(
            "[{section}] listen is {address}, and auth_strategy does not say who may use it"
        );
        Failure::new(ErrorCode::Missing, what).hint(format!(
            "write auth_strategy = \"keystone\" in [{section}], or \"noauth2\" if every user and process of this host may \
             do everything there; without listen the service is below [api] listen, for callers with a token"
        ))
    }
}

/// An open address of a service.
pub struct ServiceListener {
    listener: HttpListener,
    scheme: &'static str,
    /// The address, with the port that the system chose for port 0.
    pub address: SocketAddr,
    auth: AuthStrategy,
}

impl ServiceListener {
    /// The URL, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Serves until `stop`. If callers are not authenticated, only requests for names of the loopback interface are
    /// answered, so that no web page can send them.
    pub async fn serve(self, api: Router, stop: impl Future<Output = ()> + Send + 'static) {
        let api = match self.auth {
            AuthStrategy::Noauth2 => for_loopback_names(api),
            AuthStrategy::Keystone => api,
        };
        serve_tcp(self.listener, api, stop).await;
    }
}

/// The failure of a service that cannot listen on its address, which `option` of `section` has.
pub fn listen_failure(
    address: SocketAddr,
    section: &str,
    option: &str,
    error: &io::Error,
) -> Failure {
    let what = format!("cannot listen on {address}");
    let variable = format!("BERTH__{section}__{option}").to_uppercase();
    let option = format!("[{section}] {option}");
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::caused(ErrorCode::Held, what, error).hint(format!(
            "stop what listens there, or set {option} (or the variable {variable})"
        )),
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
            listen_failure(address, "api", "listen", &foreign).explain(),
            "error: cannot listen on 192.0.2.55:24880 [BERTH-E0105]\ncause: 192.0.2.55 is not an address of this host\n\
             hint: set [api] listen to an address that ip addr shows\n"
        );
        let used = listen_failure(
            address,
            "placement_service",
            "listen",
            &error(io::ErrorKind::AddrInUse),
        );
        assert_eq!(used.code(), ErrorCode::Held);
        assert!(
            used.explain().ends_with(
                "\nhint: stop what listens there, or set [placement_service] listen (or the variable \
                 BERTH__PLACEMENT_SERVICE__LISTEN)\n"
            ),
            "{}",
            used.explain()
        );
    }
}
