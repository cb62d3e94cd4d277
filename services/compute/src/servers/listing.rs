//! Which servers a list has, and in which order; pure. What they are is known by then.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use berth_store::Moment;
use regex::Regex;
use uuid::Uuid;

use super::Server;
use super::attributes::{Attribute, Zones, launched_at, zone};
use crate::courses::KnownServer;

/// Filters by tags: of each kind one that is empty asks nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagFilters {
    pub(crate) all: BTreeSet<String>,
    pub(crate) any: BTreeSet<String>,
    /// Not all of these.
    pub(crate) not_all: BTreeSet<String>,
    pub(crate) not_any: BTreeSet<String>,
}

impl TagFilters {
    fn pass(&self, tags: &BTreeSet<String>) -> bool {
        self.all.is_subset(tags)
            && (self.any.is_empty() || !self.any.is_disjoint(tags))
            && (self.not_all.is_empty() || !self.not_all.is_subset(tags))
            && self.not_any.is_disjoint(tags)
    }
}

/// What is asked of the servers of a list. None asks nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters {
    /// Found in the name.
    pub(crate) name: Option<Regex>,
    /// Any of these, in capital letters.
    pub(crate) statuses: BTreeSet<String>,
    pub(crate) flavor: Option<String>,
    /// As in a server's view: empty for none.
    pub(crate) image: Option<String>,
    pub(crate) reservation_id: Option<String>,
    pub(crate) changes_since: Option<Moment>,
    pub(crate) changes_before: Option<Moment>,
    pub(crate) locked: Option<bool>,
    pub(crate) tags: TagFilters,
    /// What else is asked of each.
    pub(crate) attributes: Vec<Attribute>,
    /// What no server here is: gone, in a state that is not offered, at an address that is known.
    pub(crate) nothing: bool,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) host: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) vm_state: Option<String>,
    pub(crate) task_state: Option<String>,
    pub(crate) power_state: Option<u8>,
    /// That of its host.
    pub(crate) zone: Option<String>,
    pub(crate) key_name: Option<String>,
    pub(crate) description: Option<Regex>,
}

impl Filters {
    /// Whether what agents say makes a difference.
    pub(crate) fn need_agents(&self) -> bool {
        !self.statuses.is_empty()
            || self.vm_state.is_some()
            || self.task_state.is_some()
            || self.power_state.is_some()
    }

    /// Whether a server is in the list.
    pub(crate) fn pass(&self, known: &KnownServer, zones: &Zones) -> bool {
        !self.nothing
            && self.row(known)
            && self.state(known)
            && self.attributes.iter().all(|it| it.is_of(known))
            && is(self.zone.as_deref(), |it| Some(it) == zone(known, zones))
    }

    fn row(&self, known: &KnownServer) -> bool {
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
            && self.tags.pass(&server.tags)
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

    fn state(&self, known: &KnownServer) -> bool {
        let state = &known.state;
        let place = known.place.as_ref();
        (self.statuses.is_empty() || self.statuses.contains(state.status()))
            && is(self.vm_state.as_ref(), |it| it == state.vm_state.as_str())
            && is(self.task_state.as_ref(), |it| {
                state.task_state.is_some_and(|task| it == task.as_str())
            })
            && is(self.power_state, |it| it == state.power_state.number())
            && is(self.host.as_ref(), |it| {
                place.is_some_and(|place| place.host == *it)
            })
            && is(self.node.as_ref(), |it| {
                place.is_some_and(|place| place.node.as_str() == it)
            })
    }
}

fn is<T>(asked: Option<T>, passes: impl FnOnce(T) -> bool) -> bool {
    asked.is_none_or(passes)
}

/// What servers are sorted by. Each is told by its column in Nova's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSortKey {
    AccessIpV4,
    AccessIpV6,
    /// What all servers have alike.
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
    /// The key of this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
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

    /// Whether only operators may see what it goes by.
    pub(crate) const fn is_for_operators(self) -> bool {
        matches!(self, Self::Host | Self::Node)
    }

    fn compare(self, one: &KnownServer, other: &KnownServer, zones: &Zones) -> Ordering {
        let (a, b) = (&one.server, &other.server);
        match self {
            Self::AccessIpV4 => a.access_ip_v4.cmp(&b.access_ip_v4),
            Self::AccessIpV6 => a.access_ip_v6.cmp(&b.access_ip_v6),
            Self::Alike => Ordering::Equal,
            Self::AutoDiskConfig => {
                let auto = |server: &Server| server.disk_config == "AUTO";
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
                let by = |server: &Server| server.lock.as_ref().map(|lock| lock.by.as_str());
                by(a).cmp(&by(b))
            }
            Self::Name => a.name.cmp(&b.name),
            Self::Node => node(one).cmp(&node(other)),
            Self::PowerState => {
                let number = |known: &KnownServer| known.state.power_state.number();
                number(one).cmp(&number(other))
            }
            Self::Project => a.project_id.cmp(&b.project_id),
            Self::TaskState => {
                let word = |known: &KnownServer| known.state.task_state.map(|it| it.as_str());
                word(one).cmp(&word(other))
            }
            Self::UpdatedAt => a.updated_at.cmp(&b.updated_at),
            Self::User => a.user_id.cmp(&b.user_id),
            Self::Uuid => a.uuid.cmp(&b.uuid),
            Self::VmState => {
                let word = |known: &KnownServer| known.state.vm_state.as_str();
                word(one).cmp(word(other))
            }
        }
    }
}

fn host(known: &KnownServer) -> Option<&str> {
    known.place.as_ref().map(|place| place.host.as_str())
}

fn node(known: &KnownServer) -> Option<&str> {
    known.place.as_ref().map(|place| place.node.as_str())
}

/// How a list is sorted: by the first key, those that are alike by the next, and at last by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sorting(pub(crate) Vec<(ServerSortKey, crate::flavors::Order)>);

impl Sorting {
    /// Whether it is that of the rows: those that were asked for last come first.
    pub(crate) fn is_of_rows(&self) -> bool {
        use crate::flavors::Order::Descending;
        matches!(self.0[..], [(ServerSortKey::CreatedAt, Descending)])
    }

    /// Whether what agents say makes a difference.
    pub(crate) fn needs_agents(&self) -> bool {
        use ServerSortKey::{PowerState, TaskState, VmState};
        let mut keys = self.0.iter().map(|(key, _)| key);
        keys.any(|key| matches!(key, PowerState | TaskState | VmState))
    }

    /// Whether the zones of hosts make a difference.
    pub(crate) fn needs_zones(&self) -> bool {
        let mut keys = self.0.iter().map(|(key, _)| key);
        keys.any(|key| matches!(key, ServerSortKey::AvailabilityZone))
    }

    /// The servers in this order.
    pub(crate) fn sort(&self, servers: &mut [KnownServer], zones: &Zones) {
        servers.sort_by(|one, other| {
            let keys = self.0.iter().map(|(key, order)| {
                let compared = key.compare(one, other, zones);
                match order {
                    crate::flavors::Order::Ascending => compared,
                    crate::flavors::Order::Descending => compared.reverse(),
                }
            });
            let ids = other.server.id.cmp(&one.server.id);
            keys.fold(Ordering::Equal, Ordering::then).then(ids)
        });
    }
}
