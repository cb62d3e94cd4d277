//! Filters and sorts lists of servers with known status; pure.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use berth_store::SqlTimestamp;
use regex::Regex;
use uuid::Uuid;

use super::ServerRecord;
use super::attributes::{ServerAttribute, Zones, launched_at, zone};
use crate::server_state::TaskState as State;
use crate::server_status::ServerWithStatus;

/// Tag filters. An empty set matches every server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagFilters {
    pub(crate) all: BTreeSet<String>,
    pub(crate) any: BTreeSet<String>,
    /// The server must not have all of these.
    pub(crate) not_all: BTreeSet<String>,
    pub(crate) not_any: BTreeSet<String>,
}

impl TagFilters {
    fn matches(&self, tags: &BTreeSet<String>) -> bool {
        self.all.is_subset(tags)
            && (self.any.is_empty() || !self.any.is_disjoint(tags))
            && (self.not_all.is_empty() || !self.not_all.is_subset(tags))
            && self.not_any.is_disjoint(tags)
    }
}

/// The filters of a server list. `None` and empty sets match every server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerFilters {
    /// A pattern for the name.
    pub(crate) name: Option<Regex>,
    /// In upper case; the server must have one of them.
    pub(crate) statuses: BTreeSet<String>,
    pub(crate) flavor: Option<String>,
    /// As shown in responses; empty for no image.
    pub(crate) image: Option<String>,
    pub(crate) reservation_id: Option<String>,
    pub(crate) changes_since: Option<SqlTimestamp>,
    pub(crate) changes_before: Option<SqlTimestamp>,
    pub(crate) locked: Option<bool>,
    pub(crate) tags: TagFilters,
    pub(crate) attributes: Vec<ServerAttribute>,
    /// No server matches, for example because deleted servers were requested.
    pub(crate) nothing: bool,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) host: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) vm_state: Option<String>,
    pub(crate) task_state: Option<String>,
    pub(crate) power_state: Option<u8>,
    /// The zone of the server's host.
    pub(crate) zone: Option<String>,
    pub(crate) key_name: Option<String>,
    pub(crate) description: Option<Regex>,
}

impl ServerFilters {
    /// Whether the result depends on reports of agents.
    pub(crate) fn need_agents(&self) -> bool {
        !self.statuses.is_empty()
            || self.vm_state.is_some()
            || self.task_state.is_some()
            || self.power_state.is_some()
    }

    /// Whether the server matches.
    pub(crate) fn matches(&self, known: &ServerWithStatus, zones: &Zones) -> bool {
        !self.nothing
            && self.row(known)
            && self.state(known)
            && self
                .attributes
                .iter()
                .all(|attribute| attribute.matches(known))
            && is(self.zone.as_deref(), |it| Some(it) == zone(known, zones))
    }

    fn row(&self, known: &ServerWithStatus) -> bool {
        let server = &known.server;
        let changed = server.updated_at.unwrap_or(server.created_at);
        let image = server.image.map(|image| image.to_string());
        is(self.name.as_ref(), |name| name.is_match(&server.name))
            && is(self.flavor.as_ref(), |it| *it == server.flavor.flavorid)
            && is(self.image.as_ref(), |it| {
                *it == image.clone().unwrap_or_default()
            })
            && is(self.reservation_id.as_ref(), |it| {
                *it == server.reservation_id
            })
            && is(self.changes_since, |since| changed >= since)
            && is(self.changes_before, |before| changed <= before)
            && is(self.locked, |locked| locked == server.lock.is_some())
            && self.tags.matches(&server.tags)
            && is(self.uuid, |uuid| uuid == server.uuid)
            && is(self.project_id.as_ref(), |it| *it == server.project_id)
            && is(self.user_id.as_ref(), |it| *it == server.user_id)
            && is(self.key_name.as_ref(), |it| {
                Some(it) == server.key_name.as_ref()
            })
            && is(self.description.as_ref(), |it| {
                it.is_match(server.description.as_deref().unwrap_or_default())
            })
    }

    fn state(&self, known: &ServerWithStatus) -> bool {
        let state = &known.state;
        let placement = known.placement.as_ref();
        (self.statuses.is_empty() || self.statuses.contains(state.status()))
            && is(self.vm_state.as_ref(), |it| it == state.vm_state.as_str())
            && is(self.task_state.as_ref(), |it| {
                state
                    .task_state
                    .is_some_and(|task| task.nova_name() == Some(it.as_str()))
            })
            && is(self.power_state, |it| it == state.power_number())
            && is(self.host.as_ref(), |it| {
                placement.is_some_and(|placement| placement.host == *it)
            })
            && is(self.node.as_ref(), |it| {
                placement.is_some_and(|placement| placement.node.as_str() == it)
            })
    }
}

fn is<T>(asked: Option<T>, passes: impl FnOnce(T) -> bool) -> bool {
    asked.is_none_or(passes)
}

/// The sort key, named after its column in Nova's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSortKey {
    AccessIpV4,
    AccessIpV6,
    /// Equal for all servers.
    Alike,
    AutoDiskConfig,
    AvailabilityZone,
    CreatedAt,
    Description,
    Flavor,
    Host,
    Hostname,
    Image,
    KeyName,
    LaunchIndex,
    LaunchedAt,
    Locked,
    LockedBy,
    Name,
    Node,
    PowerState,
    Project,
    TaskState,
    UpdatedAt,
    User,
    Uuid,
    VmState,
}

impl ServerSortKey {
    /// Parses the column name.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "access_ip_v4" => Self::AccessIpV4,
            "access_ip_v6" => Self::AccessIpV6,
            "auto_disk_config" => Self::AutoDiskConfig,
            "config_drive" | "kernel_id" | "progress" | "ramdisk_id" | "root_device_name"
            | "terminated_at" => Self::Alike,
            "availability_zone" => Self::AvailabilityZone,
            "created_at" => Self::CreatedAt,
            "display_description" => Self::Description,
            "instance_type_id" => Self::Flavor,
            "host" => Self::Host,
            "hostname" => Self::Hostname,
            "image_ref" => Self::Image,
            "key_name" => Self::KeyName,
            "launch_index" => Self::LaunchIndex,
            "launched_at" => Self::LaunchedAt,
            "locked" => Self::Locked,
            "locked_by" => Self::LockedBy,
            "display_name" => Self::Name,
            "node" => Self::Node,
            "power_state" => Self::PowerState,
            "project_id" => Self::Project,
            "task_state" => Self::TaskState,
            "updated_at" => Self::UpdatedAt,
            "user_id" => Self::User,
            "uuid" => Self::Uuid,
            "vm_state" => Self::VmState,
            _ => return None,
        })
    }

    /// Whether only operators may sort by this key, because it reveals hosts.
    pub(crate) const fn is_operator_only(self) -> bool {
        matches!(self, Self::Host | Self::Node)
    }

    fn compare(self, one: &ServerWithStatus, other: &ServerWithStatus, zones: &Zones) -> Ordering {
        let (a, b) = (&one.server, &other.server);
        match self {
            Self::AccessIpV4 => a.access_ip_v4.cmp(&b.access_ip_v4),
            Self::AccessIpV6 => a.access_ip_v6.cmp(&b.access_ip_v6),
            Self::Alike => Ordering::Equal,
            Self::AutoDiskConfig => {
                let auto = |server: &ServerRecord| server.disk_config == "AUTO";
                auto(a).cmp(&auto(b))
            }
            Self::AvailabilityZone => zone(one, zones).cmp(&zone(other, zones)),
            Self::CreatedAt => a.created_at.cmp(&b.created_at),
            Self::Description => a.description.cmp(&b.description),
            Self::Flavor => a.flavor.flavorid.cmp(&b.flavor.flavorid),
            Self::Host => host(one).cmp(&host(other)),
            Self::Hostname => a.hostname.cmp(&b.hostname),
            Self::Image => a.image.cmp(&b.image),
            Self::KeyName => a.key_name.cmp(&b.key_name),
            Self::LaunchIndex => a.launch_index.cmp(&b.launch_index),
            Self::LaunchedAt => launched_at(one).cmp(&launched_at(other)),
            Self::Locked => a.lock.is_some().cmp(&b.lock.is_some()),
            Self::LockedBy => {
                let by = |server: &ServerRecord| server.lock.as_ref().map(|lock| lock.by.as_str());
                by(a).cmp(&by(b))
            }
            Self::Name => a.name.cmp(&b.name),
            Self::Node => node(one).cmp(&node(other)),
            Self::PowerState => {
                let number = |known: &ServerWithStatus| known.state.power_number();
                number(one).cmp(&number(other))
            }
            Self::Project => a.project_id.cmp(&b.project_id),
            Self::TaskState => {
                let word =
                    |known: &ServerWithStatus| known.state.task_state.and_then(State::nova_name);
                word(one).cmp(&word(other))
            }
            Self::UpdatedAt => a.updated_at.cmp(&b.updated_at),
            Self::User => a.user_id.cmp(&b.user_id),
            Self::Uuid => a.uuid.cmp(&b.uuid),
            Self::VmState => {
                let word = |known: &ServerWithStatus| known.state.vm_state.as_str();
                word(one).cmp(word(other))
            }
        }
    }
}

fn host(known: &ServerWithStatus) -> Option<&str> {
    known
        .placement
        .as_ref()
        .map(|placement| placement.host.as_str())
}

fn node(known: &ServerWithStatus) -> Option<&str> {
    known
        .placement
        .as_ref()
        .map(|placement| placement.node.as_str())
}

/// Sort keys in order of priority. Equal servers are ordered by row number, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSortOrder(pub(crate) Vec<(ServerSortKey, crate::flavors::SortDirection)>);

impl ServerSortOrder {
    /// Whether this is the order in which rows are read: newest first.
    pub(crate) fn is_row_order(&self) -> bool {
        use crate::flavors::SortDirection::Descending;
        matches!(self.0[..], [(ServerSortKey::CreatedAt, Descending)])
    }

    /// Whether the order depends on reports of agents.
    pub(crate) fn needs_agents(&self) -> bool {
        use ServerSortKey::{PowerState, TaskState, VmState};
        let mut keys = self.0.iter().map(|(key, _)| key);
        keys.any(|key| matches!(key, PowerState | TaskState | VmState))
    }

    /// Whether the order depends on the zones of hosts.
    pub(crate) fn needs_zones(&self) -> bool {
        let mut keys = self.0.iter().map(|(key, _)| key);
        keys.any(|key| matches!(key, ServerSortKey::AvailabilityZone))
    }

    pub(crate) fn sort(&self, servers: &mut [ServerWithStatus], zones: &Zones) {
        servers.sort_by(|one, other| {
            let keys = self.0.iter().map(|(key, order)| {
                let compared = key.compare(one, other, zones);
                match order {
                    crate::flavors::SortDirection::Ascending => compared,
                    crate::flavors::SortDirection::Descending => compared.reverse(),
                }
            });
            let ids = other.server.id.cmp(&one.server.id);
            keys.fold(Ordering::Equal, Ordering::then).then(ids)
        });
    }
}
