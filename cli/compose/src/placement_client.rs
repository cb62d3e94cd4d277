//! Clients of Placement and the accelerator service: over the network, over the sockets of `berth up`, or in this
//! process. Also the endpoint files, in which `berth up` stores the addresses of its services.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, AuthOptions, AuthType, HttpService, PlacementClient,
    RequestObserver, Secret, TransportOptions,
};
use berth_config::Config;
use berth_output::{ErrorCode, Failure};
use berth_placement::{PlacementApiOptions as PlacementOptions, router};
use berth_store::SqlStore;

use crate::state_file;

/// Placement over the network, by the options of `[placement]`.
///
/// Errors: Options are missing or contradict each other, or one of their files cannot be used.
pub fn placement_over_network(
    config: &Config,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    PlacementClient::from_options(&config.placement, observer).map_err(|error| {
        Failure::caused(ErrorCode::Missing, "Placement is not configured", &error).hint(
            "set auth_type and auth_url in [placement], see /usr/share/doc/berth/guide/howto/install.md; or run berth up",
        )
    })
}

/// The file below `state_path` with the URL of Placement of a running `berth up`, if that has an address of its own.
pub const ENDPOINT_FILE: &str = "placement.endpoint";
/// The file below `state_path` with the URL of its accelerator service, if that has an address of its own.
pub const ACCELERATOR_ENDPOINT_FILE: &str = "accelerator.endpoint";
/// The file below `state_path` with the URL of its conductor, if that listens on an address in addition to its socket.
pub const CONDUCTOR_ENDPOINT_FILE: &str = "conductor.endpoint";

/// The unix socket of the conductor of `berth up`: in the folder of the agent's admin socket, with the same
/// permissions.
#[must_use]
pub fn conductor_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("conductor.sock")
}

/// The unix socket of its Placement.
#[must_use]
pub fn placement_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("placement.sock")
}

/// The unix socket of its accelerator service.
#[must_use]
pub fn accelerator_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("accelerator.sock")
}

/// A service of this host, for local commands: the connections to it, and its root URL.
///
/// It is reached over its socket, which tells it the caller's user. Only if there is no socket, and the configuration
/// names an address, it is reached there.
fn of_this_host(
    socket: &Path,
    host: &str,
    listen: Option<SocketAddr>,
) -> Result<(HttpService, String), Failure> {
    let transport = TransportOptions::default();
    let (http, root) = match listen.filter(|_| !socket.exists()) {
        Some(address) => (
            HttpService::network(&transport),
            format!("http://{address}"),
        ),
        None => (
            HttpService::unix(socket, &transport),
            format!("http://{host}"),
        ),
    };
    let http = http.map_err(|error| {
        let what = format!("cannot use {}", socket.display());
        Failure::caused(ErrorCode::BadValue, what, &error)
    })?;
    Ok((http, root))
}

/// The Placement of `berth up` or `berth controller` on this host: connections and access options.
pub fn placement_of_this_host(config: &Config) -> Result<(HttpService, AuthOptions), Failure> {
    let listen = config.placement_service.own_listen();
    let (http, root) = of_this_host(&placement_socket(config), "placement", listen)?;
    Ok((http, with_embedded_token(&config.placement, root)))
}

/// A client of the accelerator service of `berth up` or `berth controller` on this host.
pub fn accelerators_of_this_host(config: &Config) -> Result<AcceleratorClient, Failure> {
    let listen = config.accelerator_service.own_listen();
    let (http, root) = of_this_host(&accelerator_socket(config), "accelerator", listen)?;
    let options = with_embedded_token(&config.cyborg, root);
    AcceleratorClient::from_options_over(http, &options, None)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the accelerator service", &error))
}

fn with_embedded_token(options: &AuthOptions, root: String) -> AuthOptions {
    AuthOptions {
        auth_type: Some(AuthType::AdminToken),
        endpoint: Some(root),
        token: Some(Secret::from(EMBEDDED_TOKEN)),
        ..options.clone()
    }
}

/// Placement for a command that reads once: the one of `[placement]`, else the one of `berth up` or `berth controller`
/// on this host.
pub fn placement_for_commands(config: &Config) -> Result<PlacementClient, Failure> {
    if config.placement.auth_type.is_some() || config.placement.endpoint_override.is_some() {
        return placement_over_network(config, None);
    }
    let (http, options) = placement_of_this_host(config)?;
    PlacementClient::from_options_over(http, &options, None)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))
}

/// The token that the built-in Placement accepts as an administrator's without Keystone (noauth2).
pub const EMBEDDED_TOKEN: &str = "admin";

/// The maximum number of concurrent requests to the built-in Placement. It shares one read of the database between
/// concurrent requests.
const IN_PROCESS_AT_ONCE: usize = 128;

/// The built-in Placement in this process, on an open database.
pub fn placement_in_process(
    store: SqlStore,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    let service = router(store, PlacementOptions::default());
    let http = HttpService::in_process::<_, axum::body::Body, _>(service, 64 << 20);
    let auth = Auth::admin_token("http://placement", &Secret::from(EMBEDDED_TOKEN))
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))?;
    let options = AdapterOptions {
        observer,
        ..AdapterOptions::default()
    };
    Ok(PlacementClient::new(http, auth, &options).with_requests_at_once(IN_PROCESS_AT_ONCE))
}

/// Writes a service's URL into its endpoint file below `state_path`, for the commands of this host.
pub(crate) fn write_endpoint(file: &Path, url: &str) -> Result<(), Failure> {
    state_file::write_public(file, &format!("{url}\n"))
}
