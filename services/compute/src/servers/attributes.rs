//! What a server has besides its name, image and flavor, as operators ask lists for it; pure.

use std::collections::BTreeMap;

use berth_store::Moment;
use regex::Regex;

use crate::courses::KnownServer;
use crate::server_state::VmState;

/// The availability zone of each host.
pub(crate) type Zones = BTreeMap<String, String>;

/// The device that guests boot from, on every hypervisor.
pub(crate) const ROOT_DEVICE: &str = "/dev/vda";

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// One thing that is asked of a server. A server that has none of it has not this one.
#[derive(Debug, Clone)]
pub(crate) enum Attribute {
    /// Found in what it calls itself.
    Hostname(Regex),
    /// Found in what its users say of its addresses.
    AccessIpV4(Regex),
    AccessIpV6(Regex),
    /// Found in the name of its root device.
    RootDevice(Regex),
    /// Found in the word for who locked it.
    LockedBy(Regex),
    /// When it was asked for: at this moment, or in this second.
    CreatedAt(Moment),
    /// When it was up for the first time.
    LaunchedAt(Moment),
    /// Its place among those of its request.
    LaunchIndex(i64),
    /// How far it is, in percent: no server says more than 0.
    Progress(i64),
    /// Whether it has a config drive: each has.
    ConfigDrive(bool),
    /// Whether its disk is `AUTO`.
    AutoDiskConfig(bool),
    /// When it ended, its kernel, its ramdisk: no server has any.
    Nothing,
}

impl Attribute {
    /// Whether it is this server's.
    pub(crate) fn is_of(&self, known: &KnownServer) -> bool {
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

/// Whether something was at a moment; servers tell whole seconds of most.
fn is_at(it: Moment, at: Moment) -> bool {
    let whole = at.as_micros().rem_euclid(SECOND) == 0;
    it == at || (whole && it.as_micros().div_euclid(SECOND) == at.as_micros().div_euclid(SECOND))
}

/// When a server was up for the first time; none where it never was.
pub(crate) fn launched_at(known: &KnownServer) -> Option<Moment> {
    let is_up = !matches!(known.state.vm_state, VmState::Building);
    let at = known.server.settled_at;
    at.filter(|_| is_up && known.place.is_some())
}

/// The availability zone that a server is in: its host's, and that it was asked for in where it has none.
pub(crate) fn zone<'a>(known: &'a KnownServer, zones: &'a Zones) -> Option<&'a str> {
    let host = known.place.as_ref().map(|place| &place.host);
    let of_host = host.and_then(|host| zones.get(host));
    of_host.or(known.server.zone.as_ref()).map(String::as_str)
}
