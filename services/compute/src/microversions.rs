//! Nova's microversions by feature. Handlers compare the request's version with these constants only.

use berth_http::{Microversion, MicroversionRange};

pub(crate) const RANGE: MicroversionRange = MicroversionRange {
    service: "compute",
    min: Microversion::new(2, 1),
    max: Microversion::new(2, 82),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// Key pairs have a type, and status codes reflect the operation.
pub(crate) const KEY_PAIR_TYPE: Microversion = Microversion::new(2, 2);
/// Operators may name the user of the key pairs that they access.
pub(crate) const KEY_PAIR_USER: Microversion = Microversion::new(2, 10);
/// Key pairs are paged.
pub(crate) const KEY_PAIR_PAGES: Microversion = Microversion::new(2, 35);
/// Flavors have a description, which can be changed.
pub(crate) const FLAVOR_DESCRIPTION: Microversion = Microversion::new(2, 55);
/// A flavor is shown with its extra specs.
pub(crate) const FLAVOR_EXTRA_SPECS: Microversion = Microversion::new(2, 61);
/// A swap of 0 is a number, not an empty text, and unknown query parameters are refused.
pub(crate) const STRICT: Microversion = Microversion::new(2, 75);
/// Operators see more of a server.
pub(crate) const SERVER_ATTRIBUTES: Microversion = Microversion::new(2, 3);
/// Consoles have a path of their own, instead of actions.
pub(crate) const REMOTE_CONSOLES: Microversion = Microversion::new(2, 6);
/// The console protocol `mks`.
pub(crate) const MKS_CONSOLES: Microversion = Microversion::new(2, 8);
/// Tokens of all kinds of consoles are shown.
pub(crate) const CONSOLE_TOKENS: Microversion = Microversion::new(2, 31);
/// Servers show whether they are locked.
pub(crate) const LOCKED: Microversion = Microversion::new(2, 9);
/// Servers show their `host_status`.
pub(crate) const HOST_STATUS: Microversion = Microversion::new(2, 16);
/// A server has a description.
pub(crate) const SERVER_DESCRIPTION: Microversion = Microversion::new(2, 19);
/// The live migrations of a server are listed.
pub(crate) const SERVER_MIGRATIONS: Microversion = Microversion::new(2, 23);
/// A server has tags.
pub(crate) const TAGS: Microversion = Microversion::new(2, 26);
/// `networks` is required and may be `none` or `auto`.
pub(crate) const NETWORKS: Microversion = Microversion::new(2, 37);
/// Interfaces have tags.
pub(crate) const NETWORK_TAGS: Microversion = Microversion::new(2, 42);
/// An interface is attached with a tag.
pub(crate) const ATTACH_TAGS: Microversion = Microversion::new(2, 49);
/// A server has ports that need resources from Placement.
pub(crate) const PORT_RESOURCES: Microversion = Microversion::new(2, 72);
/// Attached interfaces have tags.
pub(crate) const ATTACHMENT_TAGS: Microversion = Microversion::new(2, 70);
/// Servers embed the flavor at creation instead of its id.
pub(crate) const SERVER_FLAVOR: Microversion = Microversion::new(2, 47);
/// Servers can be created with tags.
pub(crate) const CREATE_TAGS: Microversion = Microversion::new(2, 52);
/// A server gets another key with its new root disk.
pub(crate) const REBUILD_KEY: Microversion = Microversion::new(2, 54);
/// `personality` is removed, and a rebuild may set user data.
pub(crate) const NO_PERSONALITY: Microversion = Microversion::new(2, 57);
/// A server has certificates for its image.
pub(crate) const CERTIFICATES: Microversion = Microversion::new(2, 63);
/// Lists go by a last change, too.
pub(crate) const CHANGES_BEFORE: Microversion = Microversion::new(2, 66);
/// Servers show their server groups.
pub(crate) const SERVER_GROUPS_SHOWN: Microversion = Microversion::new(2, 71);
/// A lock has a reason.
pub(crate) const LOCKED_REASON: Microversion = Microversion::new(2, 73);
/// An operator names the host of a new server.
pub(crate) const REQUESTED_HOST: Microversion = Microversion::new(2, 74);
/// Instance actions of deleted servers are visible.
pub(crate) const ACTIONS_OF_GONE: Microversion = Microversion::new(2, 21);
/// Quota classes have the quotas of server groups, and none of networks.
pub(crate) const QUOTA_CLASS_GROUPS: Microversion = Microversion::new(2, 50);
/// Users see the events of instance actions.
pub(crate) const ACTION_EVENTS: Microversion = Microversion::new(2, 51);
/// Instance actions are paged and have an update time.
pub(crate) const ACTION_PAGES: Microversion = Microversion::new(2, 58);
/// Action events show the host to operators and its hash to users.
pub(crate) const ACTION_HOSTS: Microversion = Microversion::new(2, 62);
/// Services can be forced down.
pub(crate) const FORCED_DOWN: Microversion = Microversion::new(2, 11);
/// Server groups show their project and user.
pub(crate) const GROUP_OWNERS: Microversion = Microversion::new(2, 13);
/// Server groups have soft policies.
pub(crate) const SOFT_POLICIES: Microversion = Microversion::new(2, 15);
/// A hypervisor's `cpu_info` is an object.
pub(crate) const CPU_INFO_OBJECT: Microversion = Microversion::new(2, 28);
pub(crate) const HYPERVISOR_PAGES: Microversion = Microversion::new(2, 33);
pub(crate) const NO_NETWORK_LIMITS: Microversion = Microversion::new(2, 36);
/// An aggregate has a UUID.
pub(crate) const AGGREGATE_UUID: Microversion = Microversion::new(2, 41);
/// Services and hypervisors are known by UUIDs.
pub(crate) const SERVICE_UUIDS: Microversion = Microversion::new(2, 53);
/// Unknown statuses are refused.
pub(crate) const KNOWN_STATUSES: Microversion = Microversion::new(2, 38);
/// Limits no longer have that of an image's metadata.
pub(crate) const NO_IMAGE_METADATA: Microversion = Microversion::new(2, 39);
/// A server group has one policy, with rules.
pub(crate) const GROUP_POLICY: Microversion = Microversion::new(2, 64);
/// The external event `volume-extended`.
pub(crate) const VOLUME_EXTENDED: Microversion = Microversion::new(2, 51);
/// One form of diagnostics for all drivers.
pub(crate) const DIAGNOSTICS: Microversion = Microversion::new(2, 48);
/// The NUMA topology of a server.
pub(crate) const TOPOLOGY: Microversion = Microversion::new(2, 78);
/// The external event `power-update`.
pub(crate) const POWER_UPDATE: Microversion = Microversion::new(2, 76);
/// The external event `accelerator-request-bound`.
pub(crate) const REQUEST_BOUND: Microversion = Microversion::new(2, 82);
