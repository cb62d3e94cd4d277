//! The routes, the same for every way to call them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    Call, Door, Fault, Manners, Methods, Microversion, MicroversionRange, NoAuth2, Policy,
    ValidateToken, door,
};
use uuid::Uuid;

use crate::handlers::{image_data, images, members, schemas, versions};
use crate::image::Image;
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
            tokens: Arc::new(NoAuth2::with_admin_roles(["admin", "member", "reader"])),
            policy: default_policy(),
            body_limit: 64 << 10,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) list: Arc<ImageList>,
    policy: Arc<Policy>,
}

impl Api {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }

    /// The image that the path names.
    pub(crate) fn image(&self, call: &Call) -> Result<&Image, Fault> {
        let id = call.path("image_id")?;
        let found = Uuid::try_parse(id)
            .ok()
            .and_then(|uuid| self.list.get(&uuid));
        found.ok_or_else(|| Fault::not_found(format!("No image found with ID {id}")))
    }
}

/// The Image API over this list.
pub fn router(list: Arc<ImageList>, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Image,
        versions: RANGE,
        tokens: options.tokens,
        body_limit: options.body_limit,
    };
    let api = Api {
        list,
        policy: Arc::new(options.policy),
    };
    let reading = reading_routes();
    let routes = reading
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.done())
        });
    let routes = refusing_routes(routes).fallback(no_such_route);
    door(routes.with_state(api), entrance)
}

fn read() -> Methods<Api> {
    Methods::with_head("GET, HEAD")
}

/// What stands in the list is read here, and every change is refused; to operators with a sentence that names its file.
fn kept_in_file() -> Methods<Api> {
    read()
        .post(images::refuse)
        .put(images::refuse)
        .patch(images::refuse)
        .delete(images::refuse)
}

fn reading_routes() -> Vec<(&'static str, Methods<Api>)> {
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
fn refusing_routes(router: Router<Api>) -> Router<Api> {
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

async fn no_such_route(State(_): State<Api>) -> Fault {
    Fault::no_such_route()
}
