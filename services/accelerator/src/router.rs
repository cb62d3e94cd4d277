//! The routes of the accelerator API.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_http::{
    ApiDialect, ApiRequest, BODY_LIMIT, Fault, HeadRequests, LookUpProviderRoot, NoAuth2,
    Operation, Policy, ServiceLayer, ValidateToken, with_service_layer,
};
use berth_store::SqlStore;
use tokio::sync::Notify;

use crate::events::EventNotifier;
use crate::handlers::operations;
use crate::host_changes::HostChangeNotifier;
use crate::microversions;
use crate::policies::default_policy;
use crate::store::AcceleratorTables;
use crate::store::arqs::ServiceVouch;
use crate::store::arqs_of_unknown_instances::UnknownInstances;

/// Whether binding and unbinding require a service token in addition to the caller's token (CVE-2026-40214).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceTokens {
    /// Required, with the role `service`.
    Required,
    /// Not required: the caller's own role `service` or `admin` suffices. Without an identity service a
    /// second token proves nothing.
    Waived,
}

/// How the service behaves.
#[derive(Clone)]
pub struct AcceleratorApiOptions {
    /// Validates tokens. The default is `noauth2`, for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    pub service_tokens: ServiceTokens,
    /// The largest request body, in bytes, except those of a host's reports.
    pub body_limit: usize,
    /// Signals new events in the outbox.
    pub notifier: EventNotifier,
    /// Notified when something else is wanted of a host's devices.
    pub hosts: HostChangeNotifier,
    /// How long a request stays bound to a guest that is missing in all reports of its host before it is deleted.
    pub orphan_grace: Duration,
    /// How long a host may take to program the devices of a bind.
    pub bind_timeout: Duration,
    /// The largest number of requests of a project that no instance has. Services and operators have no limit.
    pub max_unbound_requests: u64,
    /// Looks up the providers of devices that the account of a host reports for the first time. `None`: they are not
    /// checked.
    pub providers: Option<Arc<dyn LookUpProviderRoot>>,
}

impl Default for AcceleratorApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            service_tokens: ServiceTokens::Waived,
            body_limit: BODY_LIMIT,
            notifier: EventNotifier::default(),
            hosts: HostChangeNotifier::default(),
            orphan_grace: Duration::from_secs(3600),
            bind_timeout: Duration::from_secs(60),
            max_unbound_requests: 1000,
            providers: None,
        }
    }
}

pub(crate) type AcceleratorOperation = Operation<AcceleratorApi>;

#[derive(Clone)]
pub(crate) struct AcceleratorApi {
    pub(crate) tables: AcceleratorTables,
    pub(crate) options: Arc<AcceleratorApiOptions>,
    /// Signals that a host reported the result of a programming.
    pub(crate) programmed: Arc<Notify>,
    /// Requests of guests that their hosts do not know.
    pub(crate) unknown_instances: Arc<UnknownInstances>,
}

impl AcceleratorApi {
    /// Checks the operation's policy rule.
    pub(crate) fn allow(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.options.policy.allow(call, None)
    }

    /// Whether a service vouches for the caller.
    pub(crate) fn vouched(&self, call: &ApiRequest) -> ServiceVouch {
        let vouched = match self.options.service_tokens {
            // The account of a host vouches for itself alone.
            ServiceTokens::Required => call.service.as_ref().is_some_and(|service| {
                let host = service.only_host();
                service.has_role("service") && (host.is_none() || host == call.caller.only_host())
            }),
            ServiceTokens::Waived => {
                call.caller.has_role("service") || call.caller.has_role("admin")
            }
        };
        if vouched {
            ServiceVouch::Yes
        } else {
            ServiceVouch::No
        }
    }

    /// Signals new events in the outbox.
    pub(crate) fn notify(&self) {
        self.options.notifier.notify();
    }
}

/// The accelerator API over a prepared database ([`crate::prepare`]).
pub fn router(store: SqlStore, options: AcceleratorApiOptions) -> Router {
    let entrance = ServiceLayer {
        dialect: ApiDialect::Cyborg,
        versions: microversions::RANGE,
        tokens: Arc::clone(&options.tokens),
        policy: Arc::new(options.policy.clone()),
        body_limit: options.body_limit,
    };
    let accelerator = AcceleratorApi {
        tables: AcceleratorTables::of(store),
        options: Arc::new(options),
        programmed: Arc::default(),
        unknown_instances: Arc::default(),
    };
    let routes = operations()
        .router(HeadRequests::Refused)
        .fallback(no_such_route)
        .with_state(accelerator);
    let api = with_service_layer(routes, entrance);
    // Its documents link to themselves below `/accelerator`, as Cyborg's do, and clients follow the links.
    Router::new()
        .nest_service("/accelerator", api.clone())
        .fallback_service(api)
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
