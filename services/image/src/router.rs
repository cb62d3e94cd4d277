//! The routes of the Image API.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    ApiDialect, ApiRequest, Fault, Microversion, MicroversionRange, NoAuth2, Policy, RouteMethods,
    ServiceLayer, ValidateToken, with_service_layer,
};
use uuid::Uuid;

use crate::handlers::{image_data, images, members, schemas, versions};
use crate::image::CatalogImage;
use crate::list::ImageList;
use crate::policies::default_policy;

/// Glance has no microversions.
const RANGE: MicroversionRange = MicroversionRange {
    service: "image",
    min: Microversion::new(2, 9),
    max: Microversion::new(2, 9),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// How the routes behave.
#[derive(Clone)]
pub struct ImageApiOptions {
    /// Validates tokens. The default is `noauth2`, for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    /// The largest request body, in bytes.
    pub body_limit: usize,
}

impl Default for ImageApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::with_admin_roles(["admin", "member", "reader"])),
            policy: default_policy(),
            body_limit: 64 << 10,
        }
    }
}

#[derive(Clone)]
pub(crate) struct ImageApi {
    pub(crate) list: Arc<ImageList>,
    policy: Arc<Policy>,
}

impl ImageApi {
    pub(crate) fn allow(&self, call: &ApiRequest, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }

    /// The image that the path names.
    pub(crate) fn image(&self, call: &ApiRequest) -> Result<&CatalogImage, Fault> {
        let id = call.path("image_id")?;
        let found = Uuid::try_parse(id)
            .ok()
            .and_then(|uuid| self.list.get(&uuid));
        found.ok_or_else(|| Fault::not_found(format!("No image found with ID {id}")))
    }
}

/// The Image API over this list.
pub fn router(list: Arc<ImageList>, options: ImageApiOptions) -> Router {
    let entrance = ServiceLayer {
        dialect: ApiDialect::Image,
        versions: RANGE,
        tokens: options.tokens,
        body_limit: options.body_limit,
    };
    let api = ImageApi {
        list,
        policy: Arc::new(options.policy),
    };
    let reading = reading_routes();
    let routes = reading
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.build())
        });
    let routes = refusing_routes(routes).fallback(no_such_route);
    with_service_layer(routes.with_state(api), entrance)
}

fn read() -> RouteMethods<ImageApi> {
    RouteMethods::with_head("GET, HEAD")
}

/// Routes of the image list: read-only. Changes are refused; operators see the path of the file.
fn kept_in_file() -> RouteMethods<ImageApi> {
    read()
        .post(images::refuse)
        .put(images::refuse)
        .patch(images::refuse)
        .delete(images::refuse)
}

fn reading_routes() -> Vec<(&'static str, RouteMethods<ImageApi>)> {
    let image = "/v2/images/{image_id}";
    vec![
        ("/", read().get(versions::choices)),
        ("/versions", read().get(versions::list)),
        ("/versions/", read().get(versions::list)),
        ("/v2", read().get(versions::choices)),
        ("/v2/", read().get(versions::choices)),
        ("/v2/schemas/image", read().get(schemas::image)),
        ("/v2/schemas/images", read().get(schemas::images)),
        ("/v2/schemas/member", read().get(schemas::member)),
        ("/v2/schemas/members", read().get(schemas::members)),
        ("/v2/images", kept_in_file().get(images::list)),
        (image, kept_in_file().get(images::show)),
        (
            "/v2/images/{image_id}/file",
            kept_in_file().get(image_data::download),
        ),
        (
            "/v2/images/{image_id}/members",
            kept_in_file().get(members::list),
        ),
        (
            "/v2/images/{image_id}/members/{member_id}",
            kept_in_file().get(members::show),
        ),
    ]
}

/// Paths that are there only to be written to.
fn refusing_routes(router: Router<ImageApi>) -> Router<ImageApi> {
    [
        "/v2/images/{image_id}/actions/{action}",
        "/v2/images/{image_id}/import",
        "/v2/images/{image_id}/locations",
        "/v2/images/{image_id}/stage",
        "/v2/images/{image_id}/tags/{tag}",
    ]
    .into_iter()
    .fold(router, |router, path| {
        router.route(path, any(images::refuse))
    })
}

async fn no_such_route(State(_): State<ImageApi>) -> Fault {
    Fault::no_such_route()
}
