//! The network service of the conductor and the compute API.

use berth_client::NetworkClient;
use berth_config::Config;
use berth_output::{ErrorCode, Failure};

/// The network service of `[neutron]`, over the network; `None` without an entry.
///
/// Errors: Options are missing or contradict each other, or one of their files cannot be used.
pub fn network_service(config: &Config) -> Result<Option<NetworkClient>, Failure> {
    if config.neutron.auth_type.is_none() {
        return Ok(None);
    }
    let client = NetworkClient::from_options(&config.neutron, None).map_err(|error| {
        let what = "access to the network service is not configured ([neutron])";
        Failure::caused(ErrorCode::Missing, what, &error)
    })?;
    Ok(Some(client))
}
