//! Clients of Placement: over the network, to the one that `berth up` serves, or in this process. Also the endpoint files with
//! which `berth up` says where its services listen.

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

/// Placement as `[placement]` says: over the network.
///
/// Errors: PlacementApiOptions are missing or contradict each other, or a file they name cannot be used.
pub fn placement_over_network(
    config: &Config,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    PlacementClient::from_options(&config.placement, observer).map_err(|error| {
        Failure::caused(
            ErrorCode::Missing,
            "the way to Placement is not configured",
            &error,
        )
        .mend("see [placement] in docs/guide/reference/configuration.md, or use `berth up`")
    })
}

/// The file below `state_path` in which `berth up` says where its Placement is, for as long as it runs.
pub const ENDPOINT_FILE: &str = "placement.endpoint";
/// The same of its accelerator service.
pub const ACCELERATOR_ENDPOINT_FILE: &str = "accelerator.endpoint";
/// The same of its conductor, where that listens on an address beside its socket.
pub const CONDUCTOR_ENDPOINT_FILE: &str = "conductor.endpoint";

/// Where the conductor of `berth up` is asked: beside the agent's admin socket, and by the same people.
#[must_use]
pub fn conductor_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("conductor.sock")
}

/// Placement for a command that looks once: as `[placement]` says, else the one that `berth up` serves on this machine.
pub fn placement_for_commands(config: &Config) -> Result<PlacementClient, Failure> {
    if config.placement.auth_type.is_some() || config.placement.endpoint_override.is_some() {
        return placement_over_network(config, None);
    }
    let local = AuthOptions {
        auth_type: Some(AuthType::AdminToken),
        endpoint: Some(endpoint_of_up(config)),
        token: Some(Secret::from(EMBEDDED_TOKEN)),
        ..config.placement.clone()
    };
    PlacementClient::from_options(&local, None)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))
}

/// Where `berth up` serves Placement: as it said when it started, else where it is to listen.
fn endpoint_of_up(config: &Config) -> String {
    let said = std::fs::read_to_string(config.state_path.join(ENDPOINT_FILE));
    let url = said.ok().filter(|url| url.starts_with("http://"));
    url.map_or_else(
        || format!("http://{}", config.placement_service.listen),
        |url| url.trim().to_owned(),
    )
}

/// The token the built-in Placement takes for an administrator's where no Keystone is asked (noauth2).
pub const EMBEDDED_TOKEN: &str = "admin";

/// How many requests the built-in Placement is asked at once: it reads a database, and reads once for all of them.
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

/// Writes a service's URL into its endpoint file below `state_path`, where the commands of this host look for it.
pub fn write_endpoint(file: &Path, url: &str) -> Result<(), Failure> {
    std::fs::write(file, format!("{url}\n")).map_err(|error| {
        let what = format!("cannot write {}", file.display());
        Failure::caused(ErrorCode::State, what, &error)
    })
}
