//! How the agent reports this host's state to the scheduler: the client of the hosts service, and the options of the reports.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use berth_agent::host_state::HostStateOptions;
use berth_agent::host_state::monitors::Monitor;
use berth_client::{HostsClient, JitterRng};
use berth_config::Config;
use berth_model::NodeName;
use berth_output::{ErrorCode, Failure};

/// An address that no host has (RFC 5737). Packets to it use the default route.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The hosts service of `[conductor]`, over the network; `None` if the section is not set.
pub fn hosts_over_network(config: &Config) -> Result<Option<HostsClient>, Failure> {
    if config.conductor.auth_type.is_none() {
        return Ok(None);
    }
    HostsClient::from_options(&config.conductor, None)
        .map(Some)
        .map_err(|error| {
            let what = "access to the scheduler is not configured";
            Failure::caused(ErrorCode::Missing, what, &error)
                .hint("see [conductor] in /usr/share/doc/berth/guide/reference/configuration.md")
        })
}

/// Options of the host state reports.
pub(super) fn host_state_options(config: &Config) -> Result<HostStateOptions, Failure> {
    let host = config.host.as_deref().map(NodeName::new).transpose();
    let host = host.map_err(|error| Failure::new(ErrorCode::BadValue, format!("host: {error}")))?;
    let monitors = config.compute_monitors.iter();
    let monitors = monitors.filter(|name| *name == Monitor::CpuVirtDriver.as_str());
    let monitors: BTreeSet<_> = monitors.map(|_| Monitor::CpuVirtDriver).collect();
    Ok(HostStateOptions {
        host,
        report_interval: config.report_interval,
        monitors,
        host_ip: Some(config.my_ip.unwrap_or_else(address_of_default_route)),
        seed: JitterRng::from_os().next(),
        ..HostStateOptions::default()
    })
}

/// The local address of the default route; nothing is sent. Nova's default of `my_ip` is the same.
fn address_of_default_route() -> IpAddr {
    let local = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(ELSEWHERE)?;
        socket.local_addr()
    });
    local.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |local| local.ip())
}
