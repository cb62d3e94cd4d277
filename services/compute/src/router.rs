//! The routes, the same for every way to call them. They may be put below a prefix (`berth_http::under`): links have it.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use berth_http::{Call, Door, Fault, Manners, Methods, NoAuth2, Policy, ValidateToken, door};
use http::Uri;

use crate::compute::Compute;
use crate::handlers::{
    aggregates, availability_zones, extensions, external_events, flavor_access, flavor_extra_specs,
    flavor_manage, flavors, hypervisors, instance_actions, key_pairs, limits, quota_sets,
    server_actions, server_attachments, server_create, server_groups, server_metadata, server_tags,
    servers, services, versions,
};
use crate::microversions::RANGE;
use crate::policies::{self, default_policy};
use crate::project_path;

/// How the routes behave.
#[derive(Clone)]
pub struct Options {
    /// Who believes tokens. The default takes the token's own word: for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    /// Who may do what.
    pub policy: Policy,
    /// The largest request body, in bytes.
    pub body_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            body_limit: 1 << 20,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) compute: Compute,
    policy: Arc<Policy>,
}

impl Api {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }

    /// Refuses a caller who may not, where it is about something of a project.
    pub(crate) fn allow_in(
        &self,
        call: &Call,
        rule: &'static str,
        project: &str,
    ) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, Some(project))
    }

    /// Whether the caller is an operator of the cloud.
    pub(crate) fn is_admin(&self, call: &Call) -> bool {
        self.allow(call, policies::ADMIN).is_ok()
    }
}

/// The compute API over what it keeps.
pub fn router(compute: Compute, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Compute,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let api = Api {
        compute,
        policy: Arc::new(options.policy),
    };
    let routes = routes()
        .into_iter()
        .fold(Router::new(), |all, (path, methods)| {
            all.route(path, methods.done())
        });
    let routes = routes.fallback(no_such_route).with_state(api);
    let behind_door = routes.layer(from_fn(project_path::check));
    let paths = self::routes().into_iter().map(|(path, _)| path);
    project_path::without_projects(door(behind_door, entrance), paths)
}

type Route = (&'static str, Methods<Api>);

/// Every path, with what is done there.
pub(crate) fn routes() -> Vec<Route> {
    let one_version = || Methods::new("GET").get(versions::show);
    let mut routes = vec![
        ("/", Methods::new("GET").get(versions::list)),
        ("/v2.1", one_version()),
        ("/v2.1/", one_version()),
        (
            "/v2.1/extensions",
            Methods::new("GET").get(extensions::list),
        ),
        (
            "/v2.1/extensions/{alias}",
            Methods::new("GET").get(extensions::show),
        ),
    ];
    routes.extend(flavor_routes());
    routes.extend(key_pair_routes());
    routes.extend(server_routes());
    routes.extend(host_routes());
    routes
}

fn flavor_routes() -> Vec<Route> {
    vec![
        (
            "/v2.1/flavors",
            Methods::new("GET, POST")
                .get(flavors::list)
                .post(flavor_manage::create),
        ),
        (
            "/v2.1/flavors/detail",
            Methods::new("GET").get(flavors::detail),
        ),
        (
            "/v2.1/flavors/{flavor}",
            Methods::new("GET, PUT, DELETE")
                .get(flavors::show)
                .put(flavor_manage::update)
                .delete(flavor_manage::delete),
        ),
        (
            "/v2.1/flavors/{flavor}/action",
            Methods::new("POST").post(flavor_access::action),
        ),
        (
            "/v2.1/flavors/{flavor}/os-flavor-access",
            Methods::new("GET").get(flavor_access::list),
        ),
        (
            "/v2.1/flavors/{flavor}/os-extra_specs",
            Methods::new("GET, POST")
                .get(flavor_extra_specs::list)
                .post(flavor_extra_specs::create),
        ),
        (
            "/v2.1/flavors/{flavor}/os-extra_specs/{key}",
            Methods::new("GET, PUT, DELETE")
                .get(flavor_extra_specs::show)
                .put(flavor_extra_specs::update)
                .delete(flavor_extra_specs::delete),
        ),
    ]
}

fn key_pair_routes() -> Vec<Route> {
    vec![
        (
            "/v2.1/os-keypairs",
            Methods::new("GET, POST")
                .get(key_pairs::list)
                .post(key_pairs::create),
        ),
        (
            "/v2.1/os-keypairs/{name}",
            Methods::new("GET, DELETE")
                .get(key_pairs::show)
                .delete(key_pairs::delete),
        ),
    ]
}

fn server_routes() -> Vec<Route> {
    vec![
        (
            "/v2.1/servers",
            Methods::new("GET, POST")
                .get(servers::list)
                .post(server_create::create),
        ),
        (
            "/v2.1/servers/detail",
            Methods::new("GET").get(servers::detail),
        ),
        (
            "/v2.1/servers/{server}",
            Methods::new("GET, PUT, DELETE")
                .get(servers::show)
                .put(servers::update)
                .delete(servers::delete),
        ),
        (
            "/v2.1/servers/{server}/action",
            Methods::new("POST").post(server_actions::act),
        ),
        (
            "/v2.1/servers/{server}/os-instance-actions",
            Methods::new("GET").get(instance_actions::list),
        ),
        (
            "/v2.1/servers/{server}/os-instance-actions/{request}",
            Methods::new("GET").get(instance_actions::show),
        ),
        (
            "/v2.1/servers/{server}/metadata",
            Methods::new("GET, POST, PUT")
                .get(server_metadata::list)
                .post(server_metadata::create)
                .put(server_metadata::replace),
        ),
        (
            "/v2.1/servers/{server}/metadata/{key}",
            Methods::new("GET, PUT, DELETE")
                .get(server_metadata::show)
                .put(server_metadata::update)
                .delete(server_metadata::delete),
        ),
        (
            "/v2.1/servers/{server}/ips",
            Methods::new("GET").get(server_attachments::addresses),
        ),
        (
            "/v2.1/servers/{server}/ips/{network}",
            Methods::new("GET").get(server_attachments::addresses_of),
        ),
        (
            "/v2.1/servers/{server}/os-interface",
            Methods::new("GET").get(server_attachments::interfaces),
        ),
        (
            "/v2.1/servers/{server}/os-interface/{port}",
            Methods::new("GET").get(server_attachments::interface),
        ),
        (
            "/v2.1/servers/{server}/os-volume_attachments",
            Methods::new("GET").get(server_attachments::volumes),
        ),
        (
            "/v2.1/servers/{server}/os-volume_attachments/{volume}",
            Methods::new("GET").get(server_attachments::volume),
        ),
        (
            "/v2.1/os-server-external-events",
            Methods::new("POST").post(external_events::create),
        ),
        (
            "/v2.1/servers/{server}/tags",
            Methods::new("GET, PUT, DELETE")
                .get(server_tags::list)
                .put(server_tags::replace)
                .delete(server_tags::clear),
        ),
        (
            "/v2.1/servers/{server}/tags/{tag}",
            Methods::new("GET, PUT, DELETE")
                .get(server_tags::show)
                .put(server_tags::put)
                .delete(server_tags::delete),
        ),
    ]
}

/// What `services/hosts` keeps, and what is counted of it.
fn host_routes() -> Vec<Route> {
    vec![
        ("/v2.1/limits", Methods::new("GET").get(limits::show)),
        (
            "/v2.1/os-quota-sets/{project}",
            Methods::new("GET").get(quota_sets::show),
        ),
        (
            "/v2.1/os-quota-sets/{project}/detail",
            Methods::new("GET").get(quota_sets::detail),
        ),
        (
            "/v2.1/os-quota-sets/{project}/defaults",
            Methods::new("GET").get(quota_sets::defaults),
        ),
        (
            "/v2.1/os-server-groups",
            Methods::new("GET, POST")
                .get(server_groups::list)
                .post(server_groups::create),
        ),
        (
            "/v2.1/os-server-groups/{group}",
            Methods::new("GET, DELETE")
                .get(server_groups::show)
                .delete(server_groups::delete),
        ),
        (
            "/v2.1/os-availability-zone",
            Methods::new("GET").get(availability_zones::list),
        ),
        (
            "/v2.1/os-availability-zone/detail",
            Methods::new("GET").get(availability_zones::detail),
        ),
        ("/v2.1/os-services", Methods::new("GET").get(services::list)),
        (
            "/v2.1/os-services/{service}",
            Methods::new("PUT, DELETE")
                .put(services::update)
                .delete(services::delete),
        ),
        (
            "/v2.1/os-hypervisors",
            Methods::new("GET").get(hypervisors::list),
        ),
        (
            "/v2.1/os-hypervisors/detail",
            Methods::new("GET").get(hypervisors::detail),
        ),
        (
            "/v2.1/os-hypervisors/statistics",
            Methods::new("GET").get(hypervisors::statistics),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}",
            Methods::new("GET").get(hypervisors::show),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/search",
            Methods::new("GET").get(hypervisors::search),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/servers",
            Methods::new("GET").get(hypervisors::servers),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/uptime",
            Methods::new("GET").get(hypervisors::uptime),
        ),
        (
            "/v2.1/os-aggregates",
            Methods::new("GET, POST")
                .get(aggregates::list)
                .post(aggregates::create),
        ),
        (
            "/v2.1/os-aggregates/{aggregate}",
            Methods::new("GET, PUT, DELETE")
                .get(aggregates::show)
                .put(aggregates::update)
                .delete(aggregates::delete),
        ),
        (
            "/v2.1/os-aggregates/{aggregate}/action",
            Methods::new("POST").post(aggregates::act),
        ),
    ]
}

/// Nova has routes that are not here: a client's user is told which of them it was.
async fn no_such_route(uri: Uri) -> Fault {
    Fault::not_found(format!("This compute API does not offer {}.", uri.path()))
}
