//! The default access policy, with Nova's rule names. An operator's file can replace rules.

use berth_http::policy::{Policy, PolicyRule};

/// An operator of the cloud.
pub(crate) const ADMIN: &str = "context_is_admin";
pub(crate) const FLAVOR_CREATE: &str = "os_compute_api:os-flavor-manage:create";
/// A flavor's description is changed.
pub(crate) const FLAVOR_UPDATE: &str = "os_compute_api:os-flavor-manage:update";
/// A flavor is removed.
pub(crate) const FLAVOR_DELETE: &str = "os_compute_api:os-flavor-manage:delete";
/// List who may use a flavor.
pub(crate) const FLAVOR_ACCESS: &str = "os_compute_api:os-flavor-access";
/// Grant a project access to a flavor.
pub(crate) const FLAVOR_ACCESS_ADD: &str = "os_compute_api:os-flavor-access:add_tenant_access";
/// Revoke a project's access to a flavor.
pub(crate) const FLAVOR_ACCESS_REMOVE: &str =
    "os_compute_api:os-flavor-access:remove_tenant_access";
/// List the extra specs of a flavor.
pub(crate) const EXTRA_SPECS_INDEX: &str = "os_compute_api:os-flavor-extra-specs:index";
/// Show an extra spec of a flavor.
pub(crate) const EXTRA_SPECS_SHOW: &str = "os_compute_api:os-flavor-extra-specs:show";
/// A flavor gets extra specs.
pub(crate) const EXTRA_SPECS_CREATE: &str = "os_compute_api:os-flavor-extra-specs:create";
/// A flavor's extra spec is changed.
pub(crate) const EXTRA_SPECS_UPDATE: &str = "os_compute_api:os-flavor-extra-specs:update";
/// A flavor's extra spec is removed.
pub(crate) const EXTRA_SPECS_DELETE: &str = "os_compute_api:os-flavor-extra-specs:delete";
/// A public key is brought.
pub(crate) const KEY_PAIR_CREATE: &str = "os_compute_api:os-keypairs:create";
/// A key pair is removed.
pub(crate) const KEY_PAIR_DELETE: &str = "os_compute_api:os-keypairs:delete";
/// List the key pairs of a user.
pub(crate) const KEY_PAIR_INDEX: &str = "os_compute_api:os-keypairs:index";
pub(crate) const KEY_PAIR_SHOW: &str = "os_compute_api:os-keypairs:show";

pub(crate) const SERVER_CREATE: &str = "os_compute_api:servers:create";
/// A server's host is named with its zone.
pub(crate) const SERVER_FORCED_HOST: &str = "os_compute_api:servers:create:forced_host";
/// A server's host is named.
pub(crate) const SERVER_REQUESTED_HOST: &str =
    "os_compute_api:compute:servers:create:requested_destination";
/// Create a server with a flavor of disk 0, with a root disk as large as its image.
pub(crate) const SERVER_ZERO_DISK: &str = "os_compute_api:servers:create:zero_disk_flavor";
pub(crate) const SERVER_INDEX: &str = "os_compute_api:servers:index";
/// Servers of all projects are listed.
pub(crate) const SERVER_INDEX_ALL: &str = "os_compute_api:servers:index:get_all_tenants";
/// Servers are listed with all of each.
pub(crate) const SERVER_DETAIL: &str = "os_compute_api:servers:detail";
/// List the servers of all projects.
pub(crate) const SERVER_DETAIL_ALL: &str = "os_compute_api:servers:detail:get_all_tenants";
pub(crate) const SERVER_SHOW: &str = "os_compute_api:servers:show";
/// How a server's host is.
pub(crate) const SERVER_HOST_STATUS: &str = "os_compute_api:servers:show:host_status";
/// Show the host of a server and its name there.
pub(crate) const SERVER_ATTRIBUTES: &str = "os_compute_api:os-extended-server-attributes";
/// A server's name or description is changed.
pub(crate) const SERVER_UPDATE: &str = "os_compute_api:servers:update";
/// A server is removed.
pub(crate) const SERVER_DELETE: &str = "os_compute_api:servers:delete";
/// List the metadata of a server.
pub(crate) const METADATA_INDEX: &str = "os_compute_api:server-metadata:index";
/// Show a metadata key.
pub(crate) const METADATA_SHOW: &str = "os_compute_api:server-metadata:show";
/// A server gets metadata.
pub(crate) const METADATA_CREATE: &str = "os_compute_api:server-metadata:create";
/// A server's metadata is replaced.
pub(crate) const METADATA_UPDATE_ALL: &str = "os_compute_api:server-metadata:update_all";
/// Change a metadata key.
pub(crate) const METADATA_UPDATE: &str = "os_compute_api:server-metadata:update";
/// Delete a metadata key.
pub(crate) const METADATA_DELETE: &str = "os_compute_api:server-metadata:delete";
/// List the tags of a server.
pub(crate) const TAGS_INDEX: &str = "os_compute_api:os-server-tags:index";
/// Check whether a server has a tag.
pub(crate) const TAGS_SHOW: &str = "os_compute_api:os-server-tags:show";
/// A server gets a tag.
pub(crate) const TAGS_UPDATE: &str = "os_compute_api:os-server-tags:update";
/// A server's tags are replaced.
pub(crate) const TAGS_UPDATE_ALL: &str = "os_compute_api:os-server-tags:update_all";
/// A tag is removed.
pub(crate) const TAGS_DELETE: &str = "os_compute_api:os-server-tags:delete";
/// All of a server's tags are removed.
pub(crate) const TAGS_DELETE_ALL: &str = "os_compute_api:os-server-tags:delete_all";
/// A server is switched on.
pub(crate) const SERVER_START: &str = "os_compute_api:servers:start";
/// A server is switched off.
pub(crate) const SERVER_STOP: &str = "os_compute_api:servers:stop";
/// A server boots again.
pub(crate) const SERVER_REBOOT: &str = "os_compute_api:servers:reboot";
/// A server gets a new root disk.
pub(crate) const SERVER_REBUILD: &str = "os_compute_api:servers:rebuild";
/// A server is stopped in its tracks.
pub(crate) const PAUSE: &str = "os_compute_api:os-pause-server:pause";
pub(crate) const UNPAUSE: &str = "os_compute_api:os-pause-server:unpause";
/// A server gets its rescue system.
pub(crate) const RESCUE: &str = "os_compute_api:os-rescue";
pub(crate) const UNRESCUE: &str = "os_compute_api:os-unrescue";
/// A server is locked.
pub(crate) const LOCK: &str = "os_compute_api:os-lock-server:lock";
/// A server is opened.
pub(crate) const UNLOCK: &str = "os_compute_api:os-lock-server:unlock";
/// A server is opened that an operator locked.
pub(crate) const UNLOCK_OVERRIDE: &str = "os_compute_api:os-lock-server:unlock:unlock_override";
/// Show the console output of a server.
pub(crate) const CONSOLE_OUTPUT: &str = "os_compute_api:os-console-output";
/// Reset the state of a server and give up its pending action.
pub(crate) const RESET_STATE: &str = "os_compute_api:os-admin-actions:reset_state";
/// A server is removed at once.
pub(crate) const FORCE_DELETE: &str = "os_compute_api:os-deferred-delete:force";
/// List the actions of a server.
pub(crate) const ACTIONS_LIST: &str = "os_compute_api:os-instance-actions:list";
/// Show an action of a server.
pub(crate) const ACTIONS_SHOW: &str = "os_compute_api:os-instance-actions:show";
/// Show the events of an action.
pub(crate) const ACTIONS_EVENTS: &str = "os_compute_api:os-instance-actions:events";
pub(crate) const GROUP_CREATE: &str = "os_compute_api:os-server-groups:create";
/// A server group is removed.
pub(crate) const GROUP_DELETE: &str = "os_compute_api:os-server-groups:delete";
/// Server groups are listed.
pub(crate) const GROUP_INDEX: &str = "os_compute_api:os-server-groups:index";
/// List the server groups of all projects.
pub(crate) const GROUP_INDEX_ALL: &str = "os_compute_api:os-server-groups:index:all_projects";
pub(crate) const GROUP_SHOW: &str = "os_compute_api:os-server-groups:show";
/// Availability zones are listed.
pub(crate) const ZONE_LIST: &str = "os_compute_api:os-availability-zone:list";
/// Their hosts are, too.
pub(crate) const ZONE_DETAIL: &str = "os_compute_api:os-availability-zone:detail";
/// Hosts are listed as services.
pub(crate) const SERVICE_LIST: &str = "os_compute_api:os-services:list";
/// A host is disabled, or known to be dead.
pub(crate) const SERVICE_UPDATE: &str = "os_compute_api:os-services:update";
/// A host is removed.
pub(crate) const SERVICE_DELETE: &str = "os_compute_api:os-services:delete";
/// Compute nodes are listed.
pub(crate) const HYPERVISOR_LIST: &str = "os_compute_api:os-hypervisors:list";
/// They are listed with all of each.
pub(crate) const HYPERVISOR_DETAIL: &str = "os_compute_api:os-hypervisors:list-detail";
/// Show a compute node.
pub(crate) const HYPERVISOR_SHOW: &str = "os_compute_api:os-hypervisors:show";
/// Show the totals of all compute nodes.
pub(crate) const HYPERVISOR_STATISTICS: &str = "os_compute_api:os-hypervisors:statistics";
pub(crate) const AGGREGATE_INDEX: &str = "os_compute_api:os-aggregates:index";
pub(crate) const AGGREGATE_CREATE: &str = "os_compute_api:os-aggregates:create";
pub(crate) const AGGREGATE_SHOW: &str = "os_compute_api:os-aggregates:show";
/// An aggregate's name or zone is changed.
pub(crate) const AGGREGATE_UPDATE: &str = "os_compute_api:os-aggregates:update";
/// An aggregate is removed.
pub(crate) const AGGREGATE_DELETE: &str = "os_compute_api:os-aggregates:delete";
/// A host is put into an aggregate.
pub(crate) const AGGREGATE_ADD_HOST: &str = "os_compute_api:os-aggregates:add_host";
/// Remove a host from an aggregate.
pub(crate) const AGGREGATE_REMOVE_HOST: &str = "os_compute_api:os-aggregates:remove_host";
/// An aggregate's keys are changed.
pub(crate) const AGGREGATE_SET_METADATA: &str = "os_compute_api:os-aggregates:set_metadata";
/// Show the limits of the caller's project.
pub(crate) const LIMITS: &str = "os_compute_api:limits";
/// Show the limits of another project.
pub(crate) const LIMITS_OTHER: &str = "os_compute_api:limits:other_project";
/// Show the quotas of a project.
pub(crate) const QUOTA_SHOW: &str = "os_compute_api:os-quota-sets:show";
/// Show the quotas and usage of a project.
pub(crate) const QUOTA_DETAIL: &str = "os_compute_api:os-quota-sets:detail";
/// Show the default quotas.
pub(crate) const QUOTA_DEFAULTS: &str = "os_compute_api:os-quota-sets:defaults";
/// List the addresses of a server.
pub(crate) const IPS_INDEX: &str = "os_compute_api:ips:index";
/// Show the addresses of a server in one network.
pub(crate) const IPS_SHOW: &str = "os_compute_api:ips:show";
/// A server's ports are.
pub(crate) const INTERFACES_LIST: &str = "os_compute_api:os-attach-interfaces:list";
/// One of them is.
pub(crate) const INTERFACES_SHOW: &str = "os_compute_api:os-attach-interfaces:show";
/// A server's volumes are.
pub(crate) const VOLUMES_INDEX: &str = "os_compute_api:os-volumes-attachments:index";
/// One of them is.
pub(crate) const VOLUMES_SHOW: &str = "os_compute_api:os-volumes-attachments:show";
/// Search compute nodes by name.
pub(crate) const HYPERVISOR_SEARCH: &str = "os_compute_api:os-hypervisors:search";
/// They are, with the servers of each.
pub(crate) const HYPERVISOR_SERVERS: &str = "os_compute_api:os-hypervisors:servers";
/// How long a compute node has been up.
pub(crate) const HYPERVISOR_UPTIME: &str = "os_compute_api:os-hypervisors:uptime";
/// Send external events about servers.
pub(crate) const EXTERNAL_EVENTS: &str = "os_compute_api:os-server-external-events:create";

/// Nova's default rules for the routes of this service.
#[must_use]
pub fn default_policy() -> Policy {
    let admin = || PolicyRule::named(ADMIN);
    let reader = || PolicyRule::named("project_reader_or_admin");
    let member = || PolicyRule::named("project_member_or_admin");
    let user = || PolicyRule::own_user().or(PolicyRule::named(ADMIN));
    Policy::new([
        (ADMIN, PolicyRule::role("admin")),
        (
            "project_reader_or_admin",
            PolicyRule::role("reader")
                .and(PolicyRule::own_project())
                .or(PolicyRule::named(ADMIN)),
        ),
        (
            "project_member_or_admin",
            PolicyRule::role("member")
                .and(PolicyRule::own_project())
                .or(PolicyRule::named(ADMIN)),
        ),
        (FLAVOR_CREATE, admin()),
        (FLAVOR_UPDATE, admin()),
        (FLAVOR_DELETE, admin()),
        (FLAVOR_ACCESS, admin()),
        (FLAVOR_ACCESS_ADD, admin()),
        (FLAVOR_ACCESS_REMOVE, admin()),
        (EXTRA_SPECS_INDEX, reader()),
        (EXTRA_SPECS_SHOW, reader()),
        (EXTRA_SPECS_CREATE, admin()),
        (EXTRA_SPECS_UPDATE, admin()),
        (EXTRA_SPECS_DELETE, admin()),
        (KEY_PAIR_CREATE, user()),
        (KEY_PAIR_DELETE, user()),
        (KEY_PAIR_INDEX, user()),
        (KEY_PAIR_SHOW, user()),
        (SERVER_CREATE, member()),
        (SERVER_FORCED_HOST, admin()),
        (SERVER_REQUESTED_HOST, admin()),
        (SERVER_ZERO_DISK, admin()),
        (SERVER_INDEX, reader()),
        (SERVER_INDEX_ALL, admin()),
        (SERVER_DETAIL, reader()),
        (SERVER_DETAIL_ALL, admin()),
        (SERVER_SHOW, reader()),
        (SERVER_HOST_STATUS, admin()),
        (SERVER_ATTRIBUTES, admin()),
        (SERVER_UPDATE, member()),
        (SERVER_DELETE, member()),
        (METADATA_INDEX, reader()),
        (METADATA_SHOW, reader()),
        (METADATA_CREATE, member()),
        (METADATA_UPDATE_ALL, member()),
        (METADATA_UPDATE, member()),
        (METADATA_DELETE, member()),
        (TAGS_INDEX, reader()),
        (TAGS_SHOW, reader()),
        (TAGS_UPDATE, member()),
        (TAGS_UPDATE_ALL, member()),
        (TAGS_DELETE, member()),
        (TAGS_DELETE_ALL, member()),
        (SERVER_START, member()),
        (SERVER_STOP, member()),
        (SERVER_REBOOT, member()),
        (SERVER_REBUILD, member()),
        (PAUSE, member()),
        (UNPAUSE, member()),
        (RESCUE, member()),
        (UNRESCUE, member()),
        (LOCK, member()),
        (UNLOCK, member()),
        (UNLOCK_OVERRIDE, admin()),
        (CONSOLE_OUTPUT, member()),
        (RESET_STATE, admin()),
        (FORCE_DELETE, member()),
        (ACTIONS_LIST, reader()),
        (ACTIONS_SHOW, reader()),
        (ACTIONS_EVENTS, admin()),
        (GROUP_CREATE, member()),
        (GROUP_DELETE, member()),
        (GROUP_INDEX, reader()),
        (GROUP_INDEX_ALL, admin()),
        (GROUP_SHOW, reader()),
        (ZONE_LIST, PolicyRule::Everybody),
        (ZONE_DETAIL, admin()),
        (SERVICE_LIST, admin()),
        (SERVICE_UPDATE, admin()),
        (SERVICE_DELETE, admin()),
        (HYPERVISOR_LIST, admin()),
        (HYPERVISOR_DETAIL, admin()),
        (HYPERVISOR_SHOW, admin()),
        (HYPERVISOR_STATISTICS, admin()),
        (AGGREGATE_INDEX, admin()),
        (AGGREGATE_CREATE, admin()),
        (AGGREGATE_SHOW, admin()),
        (AGGREGATE_UPDATE, admin()),
        (AGGREGATE_DELETE, admin()),
        (AGGREGATE_ADD_HOST, admin()),
        (AGGREGATE_REMOVE_HOST, admin()),
        (AGGREGATE_SET_METADATA, admin()),
        (LIMITS, PolicyRule::Everybody),
        (LIMITS_OTHER, admin()),
        (QUOTA_SHOW, reader()),
        (QUOTA_DETAIL, reader()),
        (QUOTA_DEFAULTS, PolicyRule::Everybody),
        (IPS_INDEX, reader()),
        (IPS_SHOW, reader()),
        (INTERFACES_LIST, reader()),
        (INTERFACES_SHOW, reader()),
        (VOLUMES_INDEX, reader()),
        (VOLUMES_SHOW, reader()),
        (HYPERVISOR_SEARCH, admin()),
        (HYPERVISOR_SERVERS, admin()),
        (HYPERVISOR_UPTIME, admin()),
        (EXTERNAL_EVENTS, PolicyRule::role("service").or(admin())),
    ])
}
