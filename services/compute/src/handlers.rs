//! Request handlers: one file per resource. Each checks the policy, parses the request, calls
//! [`crate::compute::Compute`] or the hosts service, and builds the response with `views`.

pub(crate) mod aggregates;
pub(crate) mod availability_zones;
pub(crate) mod extensions;
pub(crate) mod external_events;
pub(crate) mod flavor_access;
pub(crate) mod flavor_extra_specs;
pub(crate) mod flavor_manage;
pub(crate) mod flavors;
pub(crate) mod hosts;
pub(crate) mod hypervisors;
pub(crate) mod instance_actions;
pub(crate) mod key_pairs;
pub(crate) mod limits;
pub(crate) mod quota_sets;
pub(crate) mod server_actions;
pub(crate) mod server_attachments;
pub(crate) mod server_create;
pub(crate) mod server_groups;
pub(crate) mod server_metadata;
mod server_query;
mod server_rebuild;
pub(crate) mod server_tags;
pub(crate) mod servers;
pub(crate) mod services;
pub(crate) mod versions;
