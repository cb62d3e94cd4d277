//! Clients of Placement: over the network, to the one that `berth up` serves, or in this process. Also the endpoint
//! files, in which `berth up` stores the addresses of its services.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_client::{
    AdapterOptions, Auth, AuthOptions, AuthType, HttpService, PlacementClient, RequestObserver,
    Secret,
};
use berth_config::Config;
use berth_output::{ErrorCode, Failure};
use berth_placement::{PlacementApiOptions as PlacementOptions, router};
use berth_store::SqlStore;

/// Placement over the network, by the options of `[placement]`.
///
/// Errors: Options are missing or contradict each other, or one of their files cannot be used.
pub fn placement_over_network(
    config: &Config,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    PlacementClient::from_options(&config.placement, observer).map_err(|error| {
        Failure::caused(
            ErrorCode::Missing,
            "access to Placement is not configured",
            &error,
        )
        .hint("see [placement] in docs/guide/reference/configuration.md, or use `berth up`")
    })
}

/// The file below `state_path` with the URL of Placement of a running `berth up`.
pub const ENDPOINT_FILE: &str = "placement.endpoint";
/// The file below `state_path` with the URL of its accelerator service.
pub const ACCELERATOR_ENDPOINT_FILE: &str = "accelerator.endpoint";
/// The file below `state_path` with the URL of its conductor, if that listens on an address in addition to its socket.
pub const CONDUCTOR_ENDPOINT_FILE: &str = "conductor.endpoint";

/// The unix socket of the conductor of `berth up`: in the folder of the agent's admin socket, with the same
/// permissions.
#[must_use]
pub fn conductor_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("conductor.sock")
}

/// Placement for a command that reads once: the one of `[placement]`, else the one that `berth up` serves on this
/// machine.
pub fn placement_for_commands(config: &Config) -> Result<PlacementClient, Failure> {
    if config.placement.auth_type.is_some() || config.placement.endpoint_override.is_some() {
        return placement_over_network(config, None);
    }
    let local = AuthOptions {
        auth_type: Some(AuthType::AdminToken),
        endpoint: Some(endpoint_of_up(config)),
        token: Some(Secret::from(EMBEDDED_TOKEN)),
        ..trusting_own_authority(config, config.placement.clone())
    };
    PlacementClient::from_options(&local, None)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))
}

/// The URL of `berth up`'s Placement: from its endpoint file, else from its configured address.
fn endpoint_of_up(config: &Config) -> String {
    let recorded = std::fs::read_to_string(config.state_path.join(ENDPOINT_FILE));
    let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    recorded.ok().filter(is_url).map_or_else(
        || {
            config
                .placement_listener()
                .url(config.placement_service.listen)
        },
        |url| url.trim().to_owned(),
    )
}

/// The options of a client of a service on this host: unless they name an authority, `[api] cafile` is trusted.
#[must_use]
pub fn trusting_own_authority(config: &Config, options: AuthOptions) -> AuthOptions {
    AuthOptions {
        cafile: options.cafile.clone().or_else(|| config.api.cafile.clone()),
        ..options
    }
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
pub fn write_endpoint(file: &Path, url: &str) -> Result<(), Failure> {
    std::fs::write(file, format!("{url}\n")).map_err(|error| {
        let what = format!("cannot write {}", file.display());
        Failure::caused(ErrorCode::State, what, &error)
    })
}
