//! Further attributes of servers that operators can filter lists by; pure.

use std::collections::BTreeMap;

use berth_store::SqlTimestamp;
use regex::Regex;

use crate::server_state::VmState;
use crate::server_status::ServerWithStatus;

pub(crate) type Zones = BTreeMap<String, String>;

/// The root device on the default bus. It is not derived from the image's `hw_disk_bus`.
pub(crate) const ROOT_DEVICE: &str = "/dev/vda";

/// One second in microseconds.
const SECOND: i64 = 1_000_000;

/// A filter on one attribute. Servers without the attribute do not match.
#[derive(Debug, Clone)]
pub(crate) enum ServerAttribute {
    /// Matches the host name inside the guest.
    Hostname(Regex),
    /// Matches the stored access address.
    AccessIpV4(Regex),
    AccessIpV6(Regex),
    /// Matches the name of the root device.
    RootDevice(Regex),
    /// Matches `owner` or `admin`.
    LockedBy(Regex),
    /// The exact time, or any time within that second.
    CreatedAt(SqlTimestamp),
    /// The time at which the boot ended.
    LaunchedAt(SqlTimestamp),
    /// The index within the request.
    LaunchIndex(i64),
    /// In percent. It is always 0.
    Progress(i64),
    /// Every server has a config drive.
    ConfigDrive(bool),
    /// Whether `disk_config` is `AUTO`.
    AutoDiskConfig(bool),
    /// Attributes that no server has: termination time, kernel, ramdisk.
    Nothing,
}

impl ServerAttribute {
    /// Whether the server matches.
    pub(crate) fn matches(&self, known: &ServerWithStatus) -> bool {
        let server = &known.server;
        let found = |it: &Regex, text: Option<&str>| text.is_some_and(|text| it.is_match(text));
        match self {
            Self::Hostname(it) => it.is_match(&server.hostname),
            Self::AccessIpV4(it) => found(it, server.access_ip_v4.as_deref()),
            Self::AccessIpV6(it) => found(it, server.access_ip_v6.as_deref()),
            Self::RootDevice(it) => it.is_match(ROOT_DEVICE),
            Self::LockedBy(it) => found(it, server.lock.as_ref().map(|lock| lock.by.as_str())),
            Self::CreatedAt(at) => is_at(server.created_at, *at),
            Self::LaunchedAt(at) => launched_at(known).is_some_and(|it| is_at(it, *at)),
            Self::LaunchIndex(index) => *index == server.launch_index,
            Self::Progress(percent) => *percent == 0,
            Self::ConfigDrive(has) => *has,
            Self::AutoDiskConfig(auto) => *auto == (server.disk_config == "AUTO"),
            Self::Nothing => false,
        }
    }
}

/// Compares two times. If `at` has no fraction, the whole second matches, because most responses show whole seconds.
fn is_at(it: SqlTimestamp, at: SqlTimestamp) -> bool {
    let whole = at.as_micros().rem_euclid(SECOND) == 0;
    it == at || (whole && it.as_micros().div_euclid(SECOND) == at.as_micros().div_euclid(SECOND))
}

/// When the boot of the server ended; `None` if it never ran.
pub(crate) fn launched_at(known: &ServerWithStatus) -> Option<SqlTimestamp> {
    let is_up = !matches!(known.state.vm_state, VmState::Building);
    let at = known.server.settled_at;
    at.filter(|_| is_up && known.placement.is_some())
}

/// The availability zone of the server's host, or the requested zone if it has no host.
pub(crate) fn zone<'a>(known: &'a ServerWithStatus, zones: &'a Zones) -> Option<&'a str> {
    let host = known.placement.as_ref().map(|placement| &placement.host);
    let of_host = host.and_then(|host| zones.get(host));
    of_host.or(known.server.zone.as_ref()).map(String::as_str)
}
