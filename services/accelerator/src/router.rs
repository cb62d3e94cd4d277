//! The routes, the same for every way to call them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_http::{Call, Door, Fault, Manners, Methods, NoAuth2, Policy, ValidateToken, door};
use berth_store::SqlStore;
use tokio::sync::Notify;

use crate::changes::HostsBell;
use crate::events::EventsBell;
use crate::handlers::{
    accelerator_requests as arqs, adopted_requests, attributes, deployables,
    device_profiles as profiles, devices, host_changes, host_devices, programmings, root,
};
use crate::microversions;
use crate::policies::default_policy;
use crate::store::Tables;
use crate::store::arqs::Vouched;

/// Whether a service's own token must stand beside the caller's where a request is given to a guest or taken from it
/// (CVE-2026-40214).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceTokens {
    /// It must, and must have the role `service`.
    Required,
    /// The caller's own roles `service` and `admin` do: where no identity service is asked, a second token says no more
    /// than the first.
    Waived,
}

/// How the service behaves.
#[derive(Clone)]
pub struct Options {
    /// Who believes tokens. The default takes the token's own word: for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    /// Who may do what.
    pub policy: Policy,
    /// Whether service tokens are asked for.
    pub service_tokens: ServiceTokens,
    /// The largest request body, in bytes.
    pub body_limit: usize,
    /// Rung when there are events to be sent.
    pub bell: EventsBell,
    /// Rung when something else is wanted of a host's devices.
    pub hosts: HostsBell,
    /// How long a request stays bound for a guest that its host says it does not have; then it is deleted.
    pub orphan_grace: Duration,
    /// How long a host may take to program the devices of a bind.
    pub bind_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            service_tokens: ServiceTokens::Waived,
            body_limit: 8 << 20,
            bell: EventsBell::default(),
            hosts: HostsBell::default(),
            orphan_grace: Duration::from_secs(3600),
            bind_timeout: Duration::from_secs(60),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Accelerator {
    pub(crate) tables: Tables,
    pub(crate) options: Arc<Options>,
    /// Told when a host told the end of a programming.
    pub(crate) programmed: Arc<Notify>,
}

impl Accelerator {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.options.policy.authorize(&call.caller, rule, None)
    }

    /// Whether a service vouches for the caller.
    pub(crate) fn vouched(&self, call: &Call) -> Vouched {
        let vouched = match self.options.service_tokens {
            ServiceTokens::Required => call
                .service
                .as_ref()
                .is_some_and(|service| service.has_role("service")),
            ServiceTokens::Waived => {
                call.caller.has_role("service") || call.caller.has_role("admin")
            }
        };
        if vouched { Vouched::Yes } else { Vouched::No }
    }

    /// Says that there may be events to be sent.
    pub(crate) fn ring(&self) {
        self.options.bell.ring();
    }
}

/// The accelerator API over a prepared database ([`crate::prepare`]).
pub fn router(store: SqlStore, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Cyborg,
        versions: microversions::RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let accelerator = Accelerator {
        tables: Tables::of(store),
        options: Arc::new(options),
        programmed: Arc::default(),
    };
    let routes = Router::new()
        .route("/", Methods::new("GET").get(root::show).done())
        .route("/v2", Methods::new("GET").get(root::show_v2).done())
        .route("/v2/", Methods::new("GET").get(root::show_v2).done())
        .merge(request_routes())
        .merge(device_routes())
        .fallback(no_such_route)
        .with_state(accelerator);
    let api = door(routes, entrance);
    // Its documents link to themselves below `/accelerator`, as Cyborg's do, and clients follow the links.
    Router::new()
        .nest_service("/accelerator", api.clone())
        .fallback_service(api)
}

fn request_routes() -> Router<Accelerator> {
    Router::new()
        .route(
            "/v2/device_profiles",
            Methods::new("GET, POST, DELETE")
                .get(profiles::list)
                .post(profiles::create)
                .delete(profiles::delete_several)
                .done(),
        )
        .route(
            "/v2/device_profiles/{uuid}",
            Methods::new("GET, DELETE")
                .get(profiles::show)
                .delete(profiles::delete_one)
                .done(),
        )
        .route(
            "/v2/accelerator_requests",
            Methods::new("GET, POST, PATCH, DELETE")
                .get(arqs::list)
                .post(arqs::create)
                .patch(arqs::patch)
                .delete(arqs::delete)
                .done(),
        )
        .route(
            "/v2/accelerator_requests/{uuid}",
            // OpenStack's own client patches here, with the same body as above.
            Methods::new("GET, PATCH, DELETE")
                .get(arqs::show)
                .patch(arqs::patch)
                .delete(arqs::delete_one)
                .done(),
        )
}

fn device_routes() -> Router<Accelerator> {
    let get = || Methods::new("GET");
    let post = || Methods::new("POST");
    Router::new()
        .route("/v2/devices", get().get(devices::list).done())
        .route("/v2/devices/{uuid}", get().get(devices::show).done())
        .route(
            "/v2/devices/{uuid}/disable",
            post().post(devices::disable).done(),
        )
        .route(
            "/v2/devices/{uuid}/enable",
            post().post(devices::enable).done(),
        )
        .route("/v2/deployables", get().get(deployables::list).done())
        .route(
            "/v2/deployables/{uuid}",
            get().get(deployables::show).done(),
        )
        .route(
            "/v2/deployables/{uuid}/program",
            Methods::new("PATCH").patch(deployables::program).done(),
        )
        .route(
            // OpenStack's own client patches here, with the same body as above. Cyborg has no such route.
            "/v2/deployables/{uuid}/program/{same}",
            Methods::new("PATCH")
                .patch(deployables::program_twice_named)
                .done(),
        )
        .route(
            "/v2/attributes",
            Methods::new("GET, POST")
                .get(attributes::list)
                .post(attributes::create)
                .done(),
        )
        .route(
            "/v2/attributes/{uuid}",
            Methods::new("GET, DELETE")
                .get(attributes::show)
                .delete(attributes::delete)
                .done(),
        )
        .route(
            "/internal/v1/accelerator_requests",
            Methods::new("PUT").put(adopted_requests::put).done(),
        )
        .route(
            "/internal/v1/hosts/{host}/devices",
            Methods::new("GET, PUT")
                .get(host_devices::show)
                .put(host_devices::put)
                .done(),
        )
        .route(
            "/internal/v1/hosts/{host}/changes",
            get().get(host_changes::show).done(),
        )
        .route(
            "/internal/v1/hosts/{host}/programmings",
            get().get(programmings::list).done(),
        )
        .route(
            "/internal/v1/hosts/{host}/programmings/{uuid}",
            post().post(programmings::end).done(),
        )
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
