//! The routes of the compute API. They may be mounted below a prefix (`berth_http::under`), which links include.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use berth_http::{
    ApiDialect, Fault, NoAuth2, Policy, RouteMethods, ServiceLayer, ValidateToken,
    with_service_layer,
};
use http::Uri;

use crate::compute::Compute;
use crate::handlers::{
    aggregates, availability_zones, extensions, external_events, flavor_access, flavor_extra_specs,
    flavor_manage, flavors, hypervisors, instance_actions, key_pairs, limits, quota_sets,
    server_actions, server_attachments, server_create, server_groups, server_metadata, server_tags,
    servers, services, versions,
};
use crate::microversions::RANGE;
use crate::policies::default_policy;
use crate::project_path;
use crate::state::ComputeApi;

/// How the routes behave.
#[derive(Clone)]
pub struct ComputeApiOptions {
    /// Validates tokens. The default is `noauth2`, for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    /// The largest request body, in bytes.
    pub body_limit: usize,
}

impl Default for ComputeApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            body_limit: 1 << 20,
        }
    }
}

pub fn router(compute: Compute, options: ComputeApiOptions) -> Router {
    let entrance = ServiceLayer {
        dialect: ApiDialect::Compute,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let api = ComputeApi::new(compute, options.policy);
    let routes = routes()
        .into_iter()
        .fold(Router::new(), |all, (path, methods)| {
            all.route(path, methods.build())
        });
    let routes = routes.fallback(no_such_route).with_state(api);
    let behind_door = routes.layer(from_fn(project_path::check));
    let paths = self::routes().into_iter().map(|(path, _)| path);
    project_path::without_projects(with_service_layer(behind_door, entrance), paths)
}

type ComputeRoute = (&'static str, RouteMethods<ComputeApi>);

pub(crate) fn routes() -> Vec<ComputeRoute> {
    let one_version = || RouteMethods::new("GET").get(versions::show);
    let mut routes = vec![
        ("/", RouteMethods::new("GET").get(versions::list)),
        ("/v2.1", one_version()),
        ("/v2.1/", one_version()),
        (
            "/v2.1/extensions",
            RouteMethods::new("GET").get(extensions::list),
        ),
        (
            "/v2.1/extensions/{alias}",
            RouteMethods::new("GET").get(extensions::show),
        ),
    ];
    routes.extend(flavor_routes());
    routes.extend(key_pair_routes());
    routes.extend(server_routes());
    routes.extend(host_routes());
    routes
}

fn flavor_routes() -> Vec<ComputeRoute> {
    vec![
        (
            "/v2.1/flavors",
            RouteMethods::new("GET, POST")
                .get(flavors::list)
                .post(flavor_manage::create),
        ),
        (
            "/v2.1/flavors/detail",
            RouteMethods::new("GET").get(flavors::detail),
        ),
        (
            "/v2.1/flavors/{flavor}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(flavors::show)
                .put(flavor_manage::update)
                .delete(flavor_manage::delete),
        ),
        (
            "/v2.1/flavors/{flavor}/action",
            RouteMethods::new("POST").post(flavor_access::action),
        ),
        (
            "/v2.1/flavors/{flavor}/os-flavor-access",
            RouteMethods::new("GET").get(flavor_access::list),
        ),
        (
            "/v2.1/flavors/{flavor}/os-extra_specs",
            RouteMethods::new("GET, POST")
                .get(flavor_extra_specs::list)
                .post(flavor_extra_specs::create),
        ),
        (
            "/v2.1/flavors/{flavor}/os-extra_specs/{key}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(flavor_extra_specs::show)
                .put(flavor_extra_specs::update)
                .delete(flavor_extra_specs::delete),
        ),
    ]
}

fn key_pair_routes() -> Vec<ComputeRoute> {
    vec![
        (
            "/v2.1/os-keypairs",
            RouteMethods::new("GET, POST")
                .get(key_pairs::list)
                .post(key_pairs::create),
        ),
        (
            "/v2.1/os-keypairs/{name}",
            RouteMethods::new("GET, DELETE")
                .get(key_pairs::show)
                .delete(key_pairs::delete),
        ),
    ]
}

fn server_routes() -> Vec<ComputeRoute> {
    vec![
        (
            "/v2.1/servers",
            RouteMethods::new("GET, POST")
                .get(servers::list)
                .post(server_create::create),
        ),
        (
            "/v2.1/servers/detail",
            RouteMethods::new("GET").get(servers::detail),
        ),
        (
            "/v2.1/servers/{server}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(servers::show)
                .put(servers::update)
                .delete(servers::delete),
        ),
        (
            "/v2.1/servers/{server}/action",
            RouteMethods::new("POST").post(server_actions::act),
        ),
        (
            "/v2.1/servers/{server}/os-instance-actions",
            RouteMethods::new("GET").get(instance_actions::list),
        ),
        (
            "/v2.1/servers/{server}/os-instance-actions/{request}",
            RouteMethods::new("GET").get(instance_actions::show),
        ),
        (
            "/v2.1/servers/{server}/metadata",
            RouteMethods::new("GET, POST, PUT")
                .get(server_metadata::list)
                .post(server_metadata::create)
                .put(server_metadata::replace),
        ),
        (
            "/v2.1/servers/{server}/metadata/{key}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(server_metadata::show)
                .put(server_metadata::update)
                .delete(server_metadata::delete),
        ),
        (
            "/v2.1/servers/{server}/ips",
            RouteMethods::new("GET").get(server_attachments::addresses),
        ),
        (
            "/v2.1/servers/{server}/ips/{network}",
            RouteMethods::new("GET").get(server_attachments::addresses_of),
        ),
        (
            "/v2.1/servers/{server}/os-interface",
            RouteMethods::new("GET").get(server_attachments::interfaces),
        ),
        (
            "/v2.1/servers/{server}/os-interface/{port}",
            RouteMethods::new("GET").get(server_attachments::interface),
        ),
        (
            "/v2.1/servers/{server}/os-volume_attachments",
            RouteMethods::new("GET").get(server_attachments::volumes),
        ),
        (
            "/v2.1/servers/{server}/os-volume_attachments/{volume}",
            RouteMethods::new("GET").get(server_attachments::volume),
        ),
        (
            "/v2.1/os-server-external-events",
            RouteMethods::new("POST").post(external_events::create),
        ),
        (
            "/v2.1/servers/{server}/tags",
            RouteMethods::new("GET, PUT, DELETE")
                .get(server_tags::list)
                .put(server_tags::replace)
                .delete(server_tags::clear),
        ),
        (
            "/v2.1/servers/{server}/tags/{tag}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(server_tags::show)
                .put(server_tags::put)
                .delete(server_tags::delete),
        ),
    ]
}

/// Routes of hosts, services, hypervisors, aggregates and limits.
fn host_routes() -> Vec<ComputeRoute> {
    vec![
        ("/v2.1/limits", RouteMethods::new("GET").get(limits::show)),
        (
            "/v2.1/os-quota-sets/{project}",
            RouteMethods::new("GET").get(quota_sets::show),
        ),
        (
            "/v2.1/os-quota-sets/{project}/detail",
            RouteMethods::new("GET").get(quota_sets::detail),
        ),
        (
            "/v2.1/os-quota-sets/{project}/defaults",
            RouteMethods::new("GET").get(quota_sets::defaults),
        ),
        (
            "/v2.1/os-server-groups",
            RouteMethods::new("GET, POST")
                .get(server_groups::list)
                .post(server_groups::create),
        ),
        (
            "/v2.1/os-server-groups/{group}",
            RouteMethods::new("GET, DELETE")
                .get(server_groups::show)
                .delete(server_groups::delete),
        ),
        (
            "/v2.1/os-availability-zone",
            RouteMethods::new("GET").get(availability_zones::list),
        ),
        (
            "/v2.1/os-availability-zone/detail",
            RouteMethods::new("GET").get(availability_zones::detail),
        ),
        (
            "/v2.1/os-services",
            RouteMethods::new("GET").get(services::list),
        ),
        (
            "/v2.1/os-services/{service}",
            RouteMethods::new("PUT, DELETE")
                .put(services::update)
                .delete(services::delete),
        ),
        (
            "/v2.1/os-hypervisors",
            RouteMethods::new("GET").get(hypervisors::list),
        ),
        (
            "/v2.1/os-hypervisors/detail",
            RouteMethods::new("GET").get(hypervisors::detail),
        ),
        (
            "/v2.1/os-hypervisors/statistics",
            RouteMethods::new("GET").get(hypervisors::statistics),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}",
            RouteMethods::new("GET").get(hypervisors::show),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/search",
            RouteMethods::new("GET").get(hypervisors::search),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/servers",
            RouteMethods::new("GET").get(hypervisors::servers),
        ),
        (
            "/v2.1/os-hypervisors/{hypervisor}/uptime",
            RouteMethods::new("GET").get(hypervisors::uptime),
        ),
        (
            "/v2.1/os-aggregates",
            RouteMethods::new("GET, POST")
                .get(aggregates::list)
                .post(aggregates::create),
        ),
        (
            "/v2.1/os-aggregates/{aggregate}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(aggregates::show)
                .put(aggregates::update)
                .delete(aggregates::delete),
        ),
        (
            "/v2.1/os-aggregates/{aggregate}/action",
            RouteMethods::new("POST").post(aggregates::act),
        ),
    ]
}

/// Names the missing route, because users of Nova may expect an unimplemented one.
async fn no_such_route(uri: Uri) -> Fault {
    Fault::not_found(format!("This compute API does not offer {}.", uri.path()))
}
