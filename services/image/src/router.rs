//! The routes of the Image API.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    ApiDialect, ApiRequest, Fault, HeadRequests, Microversion, MicroversionRange, NoAuth2,
    Operation, Policy, ServiceLayer, ValidateToken, with_service_layer,
};
use uuid::Uuid;

use crate::handlers::{images, operations};
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

pub(crate) type ImageOperation = Operation<ImageApi>;

#[derive(Clone)]
pub(crate) struct ImageApi {
    pub(crate) list: Arc<ImageList>,
    policy: Arc<Policy>,
}

impl ImageApi {
    /// Checks the operation's policy rule.
    pub(crate) fn allow(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.policy.allow(call, None)
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
    let policy = Arc::new(options.policy);
    let entrance = ServiceLayer {
        dialect: ApiDialect::Image,
        versions: RANGE,
        tokens: options.tokens,
        policy: Arc::clone(&policy),
        body_limit: options.body_limit,
    };
    let api = ImageApi { list, policy };
    let routes = operations().router(HeadRequests::Served);
    let routes = refusing_routes(routes).fallback(no_such_route);
    with_service_layer(routes.with_state(api), entrance)
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
