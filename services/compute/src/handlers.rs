//! Request handlers: one file per resource, with the declaration of its operations at the top.
//!
//! A handler checks the policy, parses the request, calls [`crate::compute::Compute`] or the hosts service, and builds
//! the response with `views`.

mod aggregates;
mod availability_zones;
mod extensions;
mod external_events;
mod flavor_access;
mod flavor_extra_specs;
mod flavor_manage;
mod flavors;
mod hosts;
mod hypervisors;
mod instance_actions;
mod key_pairs;
mod limits;
mod quota_class_sets;
mod quota_sets;
mod remote_consoles;
mod server_actions;
mod server_attachments;
mod server_create;
mod server_diagnostics;
mod server_groups;
mod server_interfaces;
mod server_metadata;
mod server_query;
mod server_rebuild;
mod server_security_groups;
mod server_tags;
mod servers;
mod services;
mod versions;

use berth_http::OperationSet;

use crate::state::ComputeApi;

/// All operations of the API. The methods of a path are in the order of the `allow` header.
pub(crate) fn operations() -> OperationSet<ComputeApi> {
    let resources = [
        versions::operations(),
        extensions::operations(),
        flavors::operations(),
        flavor_manage::operations(),
        flavor_access::operations(),
        flavor_extra_specs::operations(),
        key_pairs::operations(),
        servers::operations(),
        server_create::operations(),
        server_actions::operations(),
        remote_consoles::operations(),
        instance_actions::operations(),
        server_metadata::operations(),
        server_tags::operations(),
        server_attachments::operations(),
        server_interfaces::operations(),
        server_security_groups::operations(),
        server_diagnostics::operations(),
        external_events::operations(),
        limits::operations(),
        quota_sets::operations(),
        quota_class_sets::operations(),
        server_groups::operations(),
        availability_zones::operations(),
        services::operations(),
        hypervisors::operations(),
        aggregates::operations(),
    ];
    resources.into_iter().flatten().collect()
}
