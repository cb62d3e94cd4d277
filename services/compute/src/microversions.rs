//! Which microversion brought what. A handler compares its request's version with these and with nothing else.

use berth_http::{Microversion, MicroversionRange};

/// What this service speaks.
pub(crate) const RANGE: MicroversionRange = MicroversionRange {
    service: "compute",
    min: Microversion::new(2, 1),
    max: Microversion::new(2, 82),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// A key pair has a type, and its statuses say what was done.
pub(crate) const KEY_PAIR_TYPE: Microversion = Microversion::new(2, 2);
/// An operator may name the user whose key pairs are meant.
pub(crate) const KEY_PAIR_USER: Microversion = Microversion::new(2, 10);
/// Key pairs come in pages.
pub(crate) const KEY_PAIR_PAGES: Microversion = Microversion::new(2, 35);
/// A flavor has a description, which can be changed.
pub(crate) const FLAVOR_DESCRIPTION: Microversion = Microversion::new(2, 55);
/// A flavor is shown with its extra specs.
pub(crate) const FLAVOR_EXTRA_SPECS: Microversion = Microversion::new(2, 61);
/// No swap is 0, not an empty text, and query parameters that nobody knows are refused.
pub(crate) const STRICT: Microversion = Microversion::new(2, 75);
/// Operators see more of a server.
pub(crate) const SERVER_ATTRIBUTES: Microversion = Microversion::new(2, 3);
/// A server says whether it is locked.
pub(crate) const LOCKED: Microversion = Microversion::new(2, 9);
/// A server says how its host is.
pub(crate) const HOST_STATUS: Microversion = Microversion::new(2, 16);
/// A server has a description.
pub(crate) const SERVER_DESCRIPTION: Microversion = Microversion::new(2, 19);
/// A server has tags.
pub(crate) const TAGS: Microversion = Microversion::new(2, 26);
/// Networks are asked for by name, `none` and `auto` among them, and have to be.
pub(crate) const NETWORKS: Microversion = Microversion::new(2, 37);
/// A server is shown with its flavor as it was, and not with the flavor's id.
pub(crate) const SERVER_FLAVOR: Microversion = Microversion::new(2, 47);
/// Tags come with the request for a server.
pub(crate) const CREATE_TAGS: Microversion = Microversion::new(2, 52);
/// A server gets another key with its new root disk.
pub(crate) const REBUILD_KEY: Microversion = Microversion::new(2, 54);
/// Files are no longer put into guests, and user data comes with a new root disk.
pub(crate) const NO_PERSONALITY: Microversion = Microversion::new(2, 57);
/// A server has certificates for its image.
pub(crate) const CERTIFICATES: Microversion = Microversion::new(2, 63);
/// Lists go by a last change, too.
pub(crate) const CHANGES_BEFORE: Microversion = Microversion::new(2, 66);
/// A server says in which groups it is.
pub(crate) const SERVER_GROUPS_SHOWN: Microversion = Microversion::new(2, 71);
/// A lock has a reason.
pub(crate) const LOCKED_REASON: Microversion = Microversion::new(2, 73);
/// An operator names the host of a new server.
pub(crate) const REQUESTED_HOST: Microversion = Microversion::new(2, 74);
/// What was done with a server that is gone is told.
pub(crate) const ACTIONS_OF_GONE: Microversion = Microversion::new(2, 21);
/// What a host did about it is told to its users.
pub(crate) const ACTION_EVENTS: Microversion = Microversion::new(2, 51);
/// What was done with a server comes in pages, and says when it changed last.
pub(crate) const ACTION_PAGES: Microversion = Microversion::new(2, 58);
/// Which host it was is told to operators, and to its users what it is called.
pub(crate) const ACTION_HOSTS: Microversion = Microversion::new(2, 62);
/// A host is said to be dead.
pub(crate) const FORCED_DOWN: Microversion = Microversion::new(2, 11);
/// A server group says whose it is.
pub(crate) const GROUP_OWNERS: Microversion = Microversion::new(2, 13);
/// Server groups have soft policies.
pub(crate) const SOFT_POLICIES: Microversion = Microversion::new(2, 15);
/// A hypervisor's processors are told as an object.
pub(crate) const CPU_INFO_OBJECT: Microversion = Microversion::new(2, 28);
/// Hypervisors come in pages.
pub(crate) const HYPERVISOR_PAGES: Microversion = Microversion::new(2, 33);
/// Limits no longer have those of networks.
pub(crate) const NO_NETWORK_LIMITS: Microversion = Microversion::new(2, 36);
/// An aggregate has a UUID.
pub(crate) const AGGREGATE_UUID: Microversion = Microversion::new(2, 41);
/// Services and hypervisors are known by UUIDs.
pub(crate) const SERVICE_UUIDS: Microversion = Microversion::new(2, 53);
/// Statuses that nobody knows are refused.
pub(crate) const KNOWN_STATUSES: Microversion = Microversion::new(2, 38);
/// Limits no longer have that of an image's metadata.
pub(crate) const NO_IMAGE_METADATA: Microversion = Microversion::new(2, 39);
/// A server group has one policy, with rules.
pub(crate) const GROUP_POLICY: Microversion = Microversion::new(2, 64);
/// A volume that grew is told of.
pub(crate) const VOLUME_EXTENDED: Microversion = Microversion::new(2, 51);
/// That somebody else switched a server is told of.
pub(crate) const POWER_UPDATE: Microversion = Microversion::new(2, 76);
/// That accelerator requests are bound is told of.
pub(crate) const REQUEST_BOUND: Microversion = Microversion::new(2, 82);
